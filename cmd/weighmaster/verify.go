package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/verify"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// verifyOptions say what to verify and whom to believe.
type verifyOptions struct {
	File, Evidence, Trust, Policy, Decision string
}

func (a *app) verifyCommand() *cobra.Command {
	var opt verifyOptions
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Check a delivered file with its evidence, offline, against a trust file",
		Args: cobra.ExactArgs(1),
		Long: "Verify makes every check that can be made from the file, its evidence package and the trust file, and prints each with a number.\n" +
			"It runs nothing and asks no network. Exit code 0: the decision holds; 1: a check failed; 2: something could not be checked.",
		Example: "  weighmaster verify model-Q8_0.gguf --evidence model-Q8_0.gguf.evidence.zip --trust trust.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			opt.File = args[0]
			res, err := verifyFile(cmd.Context(), opt)
			if err != nil {
				return err
			}
			if err := a.answer(res, func() { a.printVerification(res) }); err != nil {
				return err
			}
			return answered(res.Verdict)
		},
	}
	cmd.Flags().StringVar(&opt.Evidence, "evidence", "", "the evidence package (default: FILE"+packageSuffix+")")
	cmd.Flags().StringVar(&opt.Trust, "trust", "", "the trust file (required: there is no default trust)")
	cmd.Flags().StringVar(&opt.Policy, "policy", "", "demand that this very policy decided")
	cmd.Flags().StringVar(&opt.Decision, "decision", policy.Redistribute, "which decision must hold: accept, deliver or redistribute")
	return cmd
}

func verifyFile(ctx context.Context, opt verifyOptions) (verify.Result, error) {
	if opt.Trust == "" {
		return verify.Result{}, usage("--trust is required: without a trust file nothing can be decided")
	}
	trust, err := readTrust(opt.Trust)
	if err != nil {
		return verify.Result{}, err
	}
	v := verify.Verifier{Origin: trust.Log.Origin, Decision: opt.Decision, Policies: trust.Policies, At: time.Now()}
	if v.Claims, err = claimVerifier(trust); err != nil {
		return verify.Result{}, err
	}
	if v.Log, err = note.NewVerifier(strings.TrimSpace(trust.Log.Key)); err != nil {
		return verify.Result{}, usage("%s: log.key: %v", opt.Trust, err)
	}
	f, err := os.Open(opt.File)
	if err != nil {
		return verify.Result{}, usage("%v", err)
	}
	defer f.Close()
	in := verify.Input{Name: filepath.Base(opt.File)}
	if opt.Evidence == "" {
		opt.Evidence = opt.File + packageSuffix
	}
	if in.Package, err = readPackage(opt.Evidence); err != nil {
		return verify.Result{}, err
	}
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
	return v.Verify(ctx, in)
}

// readPackage reads an evidence package. One that is malformed was checked and
// is false; one that is not there could not be checked.
func readPackage(path string) (*evidence.Package, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, usage("%v; name the evidence package with --evidence", err)
		}
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, usage("%s: not a regular file; name the evidence package with --evidence", path)
	}
	pkg, err := evidence.Read(f, info.Size())
	if err != nil {
		return nil, &exitError{exitFalse, err}
	}
	return pkg, nil
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
