// Command weighmaster makes and checks evidence for model files. Run it without
// arguments for its verbs; the package docs of the rooms beside cmd explain how
// each thing works.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/stages/isolation"
)

func main() { os.Exit(run()) }

// run is main with an exit code, so that tests can call it as a command.
func run() int {
	if err := isolation.Enter(); err != nil {
		fmt.Fprintf(os.Stderr, "weighmaster: %v\n", err)
		return exitUndecided
	}
	ctx, stop := stoppable(context.Background(), os.Stderr)
	defer stop()
	a := &app{out: os.Stdout, err: os.Stderr, in: os.Stdin}
	root := a.root()
	cmd, err := root.ExecuteContextC(ctx)
	a.sayError(err)
	if err != nil && !a.understood {
		fmt.Fprintf(a.err, "See %s --help.\n", cmd.CommandPath())
	}
	return exitCode(err)
}

// sayError prints an error, unless it only carries the exit code of an answer that was printed.
func (a *app) sayError(err error) {
	var answered *exitError
	if err == nil || (errors.As(err, &answered) && answered.err == nil) {
		return
	}
	fmt.Fprintf(a.err, "weighmaster: %v\n", err)
}

// app is what the verbs share: where to read and write, and the flags of every verb.
type app struct {
	in       io.Reader
	out, err io.Writer
	json     bool
	quiet    bool
	project  string
	machine  string // this machine's name in pipelines

	machineRoot string // --machine-root
	noWait      bool   // --no-wait
	keepGoing   bool   // --keep-going
	ledger      string
	ownLedger   bool // another project's: --ledger says where this one's is
	progress    string

	passwordFD   string // --password-fd, a number; empty without it
	fdPassword   []byte // what was read from it
	timestampURL string

	understood bool // the command line was; what fails later is no wrong usage
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "weighmaster",
		Short:         "Evidence and provenance for model files",
		Long:          "Weighmaster makes, keeps and checks evidence for model files: which publisher revision a file was made from, by what, how it was tested, and whether a policy allows it.",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if a.progress != "" && a.progress != "plain" && a.progress != "json" && a.progress != "off" {
				return usage("--progress: got %q, want plain, json or off", a.progress)
			}
			if err := cmd.ValidateRequiredFlags(); err != nil {
				return err
			}
			a.understood = true
			return nil
		},
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "answer in JSON on standard output")
	flags.BoolVar(&a.quiet, "quiet", false, "print nothing but the answer's exit code and errors")
	flags.StringVar(&a.project, "project", "", "the project folder (default: found from the current folder upwards)")
	flags.StringVar(&a.machine, "machine", os.Getenv(machineVariable), "this machine's name in pipeline.yaml; stages of other machines are never run here (default: "+machineVariable+")")
	flags.StringVar(&a.machineRoot, "machine-root", os.Getenv(machineRootVariable), "the folder, on a local disk, whose lock lets one heavy stage run at a time on this machine (default: "+machineRootVariable+", or the user's state folder)")
	flags.StringVar(&a.ledger, "ledger", "", "the ledger's URL, postgres://… (default: "+ledgerVariable+", or the project's own "+ledgerFile+")")
	flags.StringVar(&a.progress, "progress", "", "progress on standard error: plain, json or off (default: a bar on a terminal, else plain)")
	flags.StringVar(&a.passwordFD, "password-fd", "", "read the keys' password from this open file, a number (default: the environment, else the terminal)")
	flags.StringVar(&a.timestampURL, "timestamp-url", "", "ask this RFC 3161 authority for a timestamp over each signature (default: nobody is asked)")
	root.AddCommand(
		a.initCommand(), a.keygenCommand(), a.runCommand(), a.execCommand(),
		a.stageCommand("acquire", "Acquire the pinned publisher revision"),
		a.stageCommand("evaluate", "Evaluate candidates against the baseline"),
		a.stageCommand("accept", "Decide over candidates under the policy"),
		a.stageCommand("deliver", "Deliver accepted bytes"),
		a.stageCommand("release", "Give rented compute back, once nothing accepted can be lost with it"),
		a.stageCommand("reload", "Load delivered bytes in a process without network and ask them something"),
		a.inspectCommand(), a.compareCommand(), a.withdrawCommand(), a.reviewCommand(), a.statusCommand(), a.lineageCommand(), a.costCommand(),
		a.verifyCommand(), a.policyCommand(), a.kernelsCommand(), a.exportCommand(), a.modelCommand(), a.logCommand(),
		a.demoCommand(), a.versionCommand(), a.reloadChildCommand(),
		a.importCommand(), a.later("report"),
	)
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" { // without a run of its own it answers an unknown shell with help and 0
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return root
}

// later is a verb that the design names and that is not built: it fails with its name.
func (a *app) later(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "Not built in this version", Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return usage("%s is not built in this version of weighmaster", name)
		},
	}
}
