package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/verify"
)

// verifyOptions say what to verify and whom to believe.
type verifyOptions struct {
	File, Trust, Policy, Decision string
	Evidence                      []string
	Objects                       string // folder of evidence objects, for loose bundles
	WithoutLog                    bool
}

func (a *app) verifyCommand() *cobra.Command {
	var opt verifyOptions
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Check a delivered file with its evidence, offline, against a trust file",
		Args: cobra.ExactArgs(1),
		Long: "Verify makes every check that can be made from the file, its evidence and the trust file, and prints each with a number (schemas/verify.md says what each is).\n" +
			"The evidence is an evidence package, a project folder with its ledger, or loose bundles (JSON Lines or single ones; they need --policy, and\n" +
			"--objects for the reports that the policy looks into). It runs nothing and asks no network.\n" +
			"Exit code 0: the decision holds; 1: a check failed; 2: something could not be checked; 3: the ledger contradicts itself.",
		Example: "  weighmaster verify model-Q8_0.gguf --trust trust.yaml\n" +
			"  weighmaster verify model-Q8_0.gguf --trust trust.yaml --evidence my-project/\n" +
			"  weighmaster verify model-Q8_0.gguf --trust trust.yaml --evidence bundles.jsonl --policy policy.yaml --objects evidence/ --without-log",
		RunE: func(cmd *cobra.Command, args []string) error {
			opt.File = args[0]
			res, err := a.verifyFile(cmd.Context(), opt)
			if err != nil {
				return err
			}
			if err := a.answer(res, func() { a.printVerification(res) }); err != nil {
				return err
			}
			return answered(res.Verdict)
		},
	}
	cmd.Flags().StringArrayVar(&opt.Evidence, "evidence", nil, "an evidence package, a project folder, or a file of bundles, which may be named more than once (default: FILE"+packageSuffix+")")
	cmd.Flags().StringVar(&opt.Objects, "objects", "", "a folder of evidence objects, for loose bundles")
	cmd.Flags().BoolVar(&opt.WithoutLog, "without-log", false, "take loose bundles without a log: a bundle left out cannot be seen")
	cmd.Flags().StringVar(&opt.Trust, "trust", "", "the trust file (required: there is no default trust)")
	cmd.Flags().StringVar(&opt.Policy, "policy", "", "demand that this very policy decided")
	cmd.Flags().StringVar(&opt.Decision, "decision", policy.Redistribute, "which decision must hold: accept, deliver or redistribute")
	return cmd
}

func (a *app) verifyFile(ctx context.Context, opt verifyOptions) (verify.Result, error) {
	if opt.Trust == "" {
		return verify.Result{}, usage("--trust is required: without a trust file nothing can be decided")
	}
	trust, err := readTrust(opt.Trust)
	if err != nil {
		return verify.Result{}, err
	}
	v := verify.Verifier{Origin: trust.Log.Origin, Decision: opt.Decision, Policies: trust.Policies, Deciders: trust.Deciders, At: time.Now()}
	if v.Claims, err = claimVerifier(trust, opt.Trust); err != nil {
		return verify.Result{}, err
	}
	if v.Log, err = note.NewVerifier(strings.TrimSpace(trust.Log.Key)); err != nil {
		return verify.Result{}, usage("%s: log.key: %v", opt.Trust, err)
	}
	for _, l := range trust.Logs {
		key, err := logKey(l)
		if err != nil {
			return verify.Result{}, usage("%s: logs: %v", opt.Trust, err)
		}
		v.Logs = append(v.Logs, key)
	}
	if v.Witnesses, err = witnessKeys(trust); err != nil {
		return verify.Result{}, usage("%s: witnesses: %v", opt.Trust, err)
	}
	f, err := os.Open(opt.File)
	if err != nil {
		return verify.Result{}, usage("%v", err)
	}
	defer f.Close()
	in := verify.Input{Name: filepath.Base(opt.File), WithoutLog: opt.WithoutLog}
	if opt.Policy != "" {
		if in.Policy, err = os.ReadFile(opt.Policy); err != nil {
			return verify.Result{}, usage("%v", err)
		}
	}
	info, err := f.Stat()
	if err != nil {
		return verify.Result{}, err
	}
	if !info.Mode().IsRegular() {
		return verify.Result{}, usage("%s: not a regular file; name the delivered file", opt.File)
	}
	in.File, in.Size = f, info.Size()
	if in.Package, err = a.readEvidence(ctx, opt); err != nil {
		return verify.Result{}, err
	}
	return v.Verify(ctx, in)
}

func (a *app) printVerification(res verify.Result) {
	for _, c := range res.Checks {
		a.printf("%s %2d  %-20s %s\n", mark(c.Verdict), c.Number, c.Name, shorten(c.Note))
		for _, f := range c.Findings {
			a.printf("         %s\n           got  %s\n           want %s\n", f.Where, f.Got, f.Want)
		}
	}
	if res.Policy != nil {
		a.printf("\npolicy %s, class %s\n", res.Policy.Policy, res.Policy.Class)
	}
	a.printf("\n%s: %s for decision %s\n", res.File, res.Verdict, res.Decision)
}

// shorten keeps a note on one line; --json has it whole.
func shorten(s string) string {
	const most = 110
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}
