package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
	"github.com/weighmaster/weighmaster/stages/hub/hubtest"
)

// demoMark is the file by which a demo knows its own folder.
const demoMark = "demo.txt"

const demoMarkText = "This folder was made by weighmaster demo, which makes it anew each time.\n"

func (a *app) demoCommand() *cobra.Command {
	var dir string
	var breakIt bool
	cmd := &cobra.Command{
		Use: "demo", Short: "Watch a small real model go from its publisher to a verified local reload", Args: cobra.NoArgs,
		Long: "Demo serves the embedded example model from a hub on loopback, and takes it through the whole pipeline: acquire, inspect, convert, quantize, derive, evaluate,\n" +
			"accept, deliver, reload, complete, verify. It needs no network and nothing installed. Its keys lie unencrypted in the folder: they protect nothing.",
		Example: "  weighmaster demo\n  weighmaster demo --break",
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := a.ledgerURL()
			if err != nil {
				return err
			}
			if url != "" && breakIt {
				return usage("--break breaks copies of the folder, and a ledger in PostgreSQL is not in it: leave --ledger and %s away", ledgerVariable)
			}
			if err := a.demo(cmd.Context(), dir); err != nil {
				return err
			}
			if breakIt {
				return a.breakDemo(cmd.Context(), dir)
			}
			if url == "" {
				a.printf("\nNow break something: weighmaster demo --break\n")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "weighmaster-demo", "the folder to make")
	cmd.Flags().BoolVar(&breakIt, "break", false, "then break different things in copies, one at a time, and show each refusal")
	return cmd
}

func (a *app) demo(ctx context.Context, dir string) error {
	start := time.Now()
	if err := clearDemo(dir); err != nil {
		return err
	}
	publisher, err := fixtures.ModelPublisher()
	if err != nil {
		return err
	}
	opt := initOptions{Repository: publisher.Repository, Revision: publisher.Revision, NoPassword: true}
	if err := a.initProject(ctx, dir, opt); err != nil {
		return err
	}
	if err := writeEvaluation(dir); err != nil {
		return err
	}
	if err := keys.WriteNewPublic(filepath.Join(dir, demoMark), []byte(demoMarkText)); err != nil {
		return err
	}
	hub, err := demoHub()
	if err != nil {
		return err
	}
	defer hub.Close()
	a.printf("%s@%s, from a hub on %s\n\n", publisher.Repository, publisher.Revision, hub.URL)

	demo := *a
	demo.project = dir
	packages, err := demo.demoRun(ctx, hub.URL)
	if err != nil {
		return err
	}
	a.printf("\n")
	verdict := schemas.Passed
	var file string
	for _, name := range packages {
		name = filepath.Join(dir, deliveredDir, filepath.Base(name)) // as the user named the folder
		file = strings.TrimSuffix(name, packageSuffix)
		res, err := a.verifyFile(ctx, verifyOptions{File: file, Evidence: []string{name}, Trust: filepath.Join(dir, trustFile), Decision: "redistribute"})
		if err != nil {
			return err
		}
		a.printf("%s %s: %d checks, %s\n     evidence: %s\n", mark(res.Verdict), file, len(res.Checks), res.Verdict, name)
		if res.Verdict != schemas.Passed {
			a.printVerification(res)
			verdict = res.Verdict
		}
	}
	a.printf("\n%.1f s in all. Look for yourself:\n\n", time.Since(start).Seconds())
	self := "go run ./cmd/weighmaster"
	a.printf("  %s verify %s --trust %s\n", self, file, filepath.Join(dir, trustFile))
	where := "--project " + dir
	if url, _ := a.ledgerURL(); url != "" { // which may hold a password
		where += " --ledger URL"
	}
	a.printf("  %s lineage %s %s\n", self, file, where)
	a.printf("  %s log verify %s\n", self, where)
	return answered(verdict)
}

// clearDemo makes room: an absent folder is fine, one of ours is made anew, any other is refused.
func clearDemo(dir string) error {
	_, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	mark, err := os.ReadFile(filepath.Join(dir, demoMark))
	if err != nil || string(mark) != demoMarkText {
		return usage("%s exists and is not a demo's folder; name another with --dir", dir)
	}
	return os.RemoveAll(dir)
}

// writeEvaluation gives a project the example model's evaluation fixtures and texts.
func writeEvaluation(dir string) error {
	evaluation, texts, err := fixtures.Evaluation()
	if err != nil {
		return err
	}
	if err := keys.WriteNewPublic(filepath.Join(dir, "eval", "fixtures.json"), evaluation); err != nil {
		return err
	}
	return keys.WriteNewPublic(filepath.Join(dir, "eval", "texts.json"), texts)
}

// demoHub serves the embedded snapshot as the Hub does.
func demoHub() (*hubtest.Server, error) {
	publisher, err := fixtures.ModelPublisher()
	if err != nil {
		return nil, err
	}
	listing, err := json.Marshal(publisher)
	if err != nil {
		return nil, err
	}
	snapshot, err := hubtest.FromPublisher(listing, fixtures.Snapshot())
	if err != nil {
		return nil, err
	}
	return hubtest.Serve(hubtest.Handler(snapshot))
}

// demoRun runs the pipeline against the demo's hub and prints a line a stage.
func (a *app) demoRun(ctx context.Context, endpoint string) ([]string, error) {
	p, err := a.open(ctx, true)
	if err != nil {
		return nil, err
	}
	defer p.close()
	a.machineRoot = p.dir
	runner, err := a.runner(ctx, p)
	if err != nil {
		return nil, err
	}
	runner.Stages["acquire"] = stages.Acquire{Env: func(name string) string {
		if name == "HF_ENDPOINT" {
			return endpoint
		}
		return ""
	}}
	runner.MachineRoot = "" // its model is small: no heavy job, for which others would wait
	runner.Observe = func(e stages.Event) {
		if line := stageLine(e); line != "" {
			a.printf("%s\n", line)
		}
	}
	if _, err := runner.Run(ctx); err != nil {
		return nil, err
	}
	return p.packDelivered(ctx)
}
