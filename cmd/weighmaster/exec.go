package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/schemas"
)

func (a *app) execCommand() *cobra.Command {
	var name, signer, method, timeout, stdin string
	var outputs, env, inputs, admit, roots []string
	cmd := &cobra.Command{
		Use: "exec --name STAGE [flags] -- COMMAND [ARG...]", Short: "Run any command as a recorded stage",
		Args: cobra.MinimumNArgs(1),
		Long: "Exec runs a command in an empty folder below work/, in a box without network that shows the system, the inputs and that folder, and records what ran:\n" +
			"the resolved binary and its non-system libraries by digest, the arguments, the environment that was let through, the box and what was let into it, the exit\n" +
			"status and the declared outputs. A command that fails is recorded as failed and what it made stays a candidate.\n\n" +
			"In the arguments {input/ROLE} stands for an input, {out} for the folder and {root/NAME} for a folder that --root lets in.",
		Example: "  weighmaster exec --name listing --output out.txt -- sh -c 'ls / > out.txt'\n" +
			"  weighmaster exec --name sizes --input model=q8 --root scripts=./scripts --output sizes.txt -- python3 {root/scripts}/sizes.py {input/model} sizes.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			with := map[string]any{"command": args}
			if len(outputs) > 0 {
				with["outputs"] = outputs
			}
			if len(env) > 0 {
				with["env"] = env
			}
			if timeout != "" {
				with["timeout"] = timeout
			}
			if stdin != "" {
				with["stdin"] = stdin
			}
			box, err := boxOf(method, admit, roots)
			if err != nil {
				return err
			}
			if box != nil {
				with["box"] = box
			}
			body, err := json.Marshal(with)
			if err != nil {
				return err
			}
			decl := schemas.StageDecl{Name: name, Uses: "exec", With: body, Signer: signer, Inputs: map[string]string{}}
			for _, in := range inputs {
				role, stage, ok := strings.Cut(in, "=")
				if !ok {
					return usage("--input: got %q, want ROLE=STAGE", in)
				}
				decl.Inputs[role] = stage
			}
			return a.runPipeline(cmd.Context(), func(schemas.Pipeline) ([]string, error) { return []string{name}, nil }, []schemas.StageDecl{decl})
		},
	}
	a.waitFlag(cmd)
	cmd.Flags().StringVar(&name, "name", "", "the stage's name (required)")
	cmd.Flags().StringVar(&signer, "signer", "producer", "whose key signs")
	cmd.Flags().StringArrayVar(&outputs, "output", nil, "a file that the command must make (repeat)")
	cmd.Flags().StringArrayVar(&env, "env", nil, "an environment variable to let through (repeat)")
	cmd.Flags().StringVar(&stdin, "stdin", "", "a file for the command's standard input, below the project unless absolute")
	cmd.Flags().StringVar(&timeout, "timeout", "", "kill the command after this time, e.g. 90m")
	cmd.Flags().StringVar(&method, "box", "", "how the box is made: bubblewrap, landlock, sandbox-exec, or none, which is recorded (default: the best that works here)")
	cmd.Flags().StringArrayVar(&admit, "admit", nil, "let in by name: network, gpu (repeat)")
	cmd.Flags().StringArrayVar(&roots, "root", nil, "NAME=FOLDER, or NAME=FOLDER:rw to be written: a further folder to let in (repeat)")
	cmd.Flags().StringArrayVar(&inputs, "input", nil, "ROLE=STAGE: an earlier stage's output that goes in (repeat)")
	if err := cmd.MarkFlagRequired("name"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

// boxOf makes with.box of the flags; nil of none.
func boxOf(method string, admit, roots []string) (*schemas.Box, error) {
	if method == "" && len(admit) == 0 && len(roots) == 0 {
		return nil, nil
	}
	box := &schemas.Box{Method: method, Admit: admit}
	for _, r := range roots {
		name, path, ok := strings.Cut(r, "=")
		path, write := strings.CutSuffix(path, ":rw")
		if !ok || name == "" || path == "" {
			return nil, usage("--root: got %q, want NAME=FOLDER or NAME=FOLDER:rw", r)
		}
		box.Roots = append(box.Roots, schemas.BoxRoot{Name: name, Path: path, Write: write})
	}
	return box, nil
}
