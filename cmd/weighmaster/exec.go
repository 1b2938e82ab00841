package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/schemas"
)

func (a *app) execCommand() *cobra.Command {
	var name, signer string
	var outputs, env, inputs []string
	cmd := &cobra.Command{
		Use: "exec --name STAGE [flags] -- COMMAND [ARG...]", Short: "Run any command as a recorded stage",
		Args: cobra.MinimumNArgs(1),
		Long: "Exec runs a command in an empty folder below work/ and records what ran: the resolved binary and its non-system libraries by digest, the arguments,\n" +
			"the environment that was let through, the exit status and the declared outputs. A command that fails is recorded as failed and what it made stays a candidate.",
		Example: "  weighmaster exec --name listing --output out.txt -- /bin/sh -c 'ls / > out.txt'",
		RunE: func(cmd *cobra.Command, args []string) error {
			with := map[string]any{"command": args}
			if len(outputs) > 0 {
				with["outputs"] = outputs
			}
			if len(env) > 0 {
				with["env"] = env
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
	cmd.Flags().StringArrayVar(&inputs, "input", nil, "ROLE=STAGE: an earlier stage's output that goes in (repeat)")
	if err := cmd.MarkFlagRequired("name"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}
