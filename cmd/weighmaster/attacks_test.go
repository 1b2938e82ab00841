package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/attacks"
	"github.com/weighmaster/weighmaster/fixtures/attacks/forge"
	"github.com/weighmaster/weighmaster/verify"
)

// minAttacks is how many attacks the corpus must hold: fewer means that some were lost.
const minAttacks = 150

// spoken is what a command line said.
type spoken struct {
	code     int
	out, err string
}

// say runs a command line in this process.
func say(t *testing.T, args ...string) spoken {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{out: &out, err: &errs, in: strings.NewReader("")}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	a.sayError(err)
	return spoken{exitCode(err), out.String(), errs.String()}
}

// Every attack of the corpus, put to the verbs that a user has.
func TestEveryAttackIsRefusedOnTheCommandLine(t *testing.T) {
	corpus := attacks.Dir()
	list, err := attacks.Load(corpus)
	if err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(t.TempDir(), "whole")
	if err := forge.Project(whole); err != nil {
		t.Fatal(err)
	}
	good, err := attacks.Load(filepath.Join(corpus, "valid"))
	if err != nil || len(good) == 0 {
		t.Fatalf("%d valid packages, %v: a runner that refuses everything proves nothing", len(good), err)
	}
	for _, c := range good {
		if got := say(t, packageArgs(corpus, c)...); got.code != exitHolds {
			t.Errorf("%s: exit code %d, want it accepted:\n%s%s", c.Title, got.code, got.out, got.err)
		}
	}
	if got := say(t, "--project", whole, "log", "verify"); got.code != exitHolds {
		t.Errorf("the untouched ledger: exit code %d:\n%s%s", got.code, got.out, got.err)
	}
	// No verb reads the manifest of a folder by itself, nor a folder's links alone.
	list = slices.DeleteFunc(list, func(c attacks.Case) bool { return c.Kind == attacks.KindManifest || c.Kind == attacks.KindFolder })
	if len(list) < minAttacks {
		t.Errorf("the corpus has %d attacks for the command line, want at least %d: some were lost", len(list), minAttacks)
	}
	seen := 0
	if underRace { // a part is enough to see races; without the detector all are run
		list = slices.DeleteFunc(list, func(attacks.Case) bool { seen++; return seen%4 != 0 })
	}
	refused := 0
	for _, c := range list {
		t.Run(c.Slug, func(t *testing.T) {
			if why := notRefused(c, put(t, corpus, whole, c)); why != "" {
				t.Errorf("%s: %s", c.Title, why)
				return
			}
			refused++
		})
	}
	fmt.Printf("%d attacks: %d refused for the right reason (command line)\n", len(list), refused)
}

// put puts a case to the verb that it is for.
func put(t *testing.T, corpus, whole string, c attacks.Case) spoken {
	t.Helper()
	switch c.Kind {
	case attacks.KindLedger:
		project := filepath.Join(t.TempDir(), "project")
		if err := os.CopyFS(project, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		description, err := os.ReadFile(c.Path(corpus, "tamper.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := forge.Tamper(project, description); err != nil {
			t.Fatal(err)
		}
		return say(t, "--project", project, "log", "verify")
	case attacks.KindCommand:
		t.Chdir(t.TempDir())
		if err := os.WriteFile("empty", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		valid := filepath.Join(corpus, "valid", "whole")
		args := slices.Clone(c.Args)
		for i, a := range args {
			switch a {
			case "FILE":
				args[i] = filepath.Join(valid, "model-Q8_0.gguf")
			case "TRUST":
				args[i] = filepath.Join(valid, "trust.yaml")
			}
		}
		return say(t, args...)
	}
	return say(t, packageArgs(corpus, c)...)
}

// packageArgs verify a case's file with its package and trust file.
func packageArgs(corpus string, c attacks.Case) []string {
	args := []string{"verify", c.Path(corpus, c.File), "--evidence", c.Path(corpus, c.File+packageSuffix), "--trust", c.Path(corpus, "trust.yaml"), "--json"}
	for i, a := range c.Args {
		if i > 0 && c.Args[i-1] == "--policy" {
			a = c.Path(corpus, a)
		}
		args = append(args, a)
	}
	return args
}

// notRefused says what is wrong with an answer; nothing where it refuses as the case wants.
func notRefused(c attacks.Case, got spoken) string {
	all := got.out + got.err
	switch {
	case got.code == exitHolds:
		return "ACCEPTED"
	case got.code != c.Expect.Exit:
		return fmt.Sprintf("exit code %d, want %d:\n%s", got.code, c.Expect.Exit, all)
	case c.Expect.Check == 0 && !strings.Contains(all, c.Expect.Reason):
		return fmt.Sprintf("want it to say %q, it said:\n%s", c.Expect.Reason, all)
	case c.Expect.Check == 0:
		return ""
	}
	var res verify.Result
	if err := json.Unmarshal([]byte(got.out), &res); err != nil {
		return fmt.Sprintf("%v in:\n%s", err, all)
	}
	for _, check := range res.Checks {
		if check.Number != c.Expect.Check || check.Name != c.Expect.Name || check.Verdict == "passed" {
			continue
		}
		for _, f := range check.Findings {
			if strings.Contains(f.String(), c.Expect.Reason) {
				return ""
			}
		}
	}
	return fmt.Sprintf("want check %d %s to say %q, it said:\n%s", c.Expect.Check, c.Expect.Name, c.Expect.Reason, all)
}
