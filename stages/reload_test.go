package stages

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// TestMain is also the child of the reload stage, and the guard of a box.
func TestMain(m *testing.M) {
	if err := isolation.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if len(os.Args) == 2 && os.Args[1] == ReloadVerb {
		if err := ReloadChild(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// by runs the child in one given box.
func by(m isolation.Method) func(context.Context, string, ...string) (*boxed, error) {
	return func(ctx context.Context, path string, args ...string) (*boxed, error) {
		cmd, m, err := isolation.CommandBy(ctx, m, args...)
		return &boxed{cmd: cmd, method: m, path: path, close: func() error { return nil }}, err
	}
}

// reloadRun converts the example model and prepares its reload. The kind is one
// that the model answers with a wide margin.
func reloadRun(t *testing.T) *Run {
	t.Helper()
	snapshot, err := FolderArtifact(t.Context(), "snapshot", filepath.Join("..", "fixtures", "model", "snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	made := newRun(t, "converted", map[string]any{"type": "BF16", "file": "model.gguf"})
	made.Inputs["snapshot"] = snapshot
	out, err := Convert{}.Run(t.Context(), made)
	if err != nil {
		t.Fatal(err)
	}
	fixtures, err := filepath.Abs(filepath.Join("..", "fixtures", "model", "eval", "fixtures.json"))
	if err != nil {
		t.Fatal(err)
	}
	run := newRun(t, "reloaded", map[string]any{"fixtures": fixtures, "kind": "tool-call"})
	run.Inputs["artifact"] = *out.Output
	return run
}

func TestReloadAnswersWithoutNetworkInEveryBox(t *testing.T) {
	run := reloadRun(t)
	for _, m := range isolation.Methods() {
		t.Run(string(m), func(t *testing.T) {
			out, err := Reload{command: by(m)}.Run(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			if out.Verdict != schemas.Passed || out.Facts["network"] != "denied" || !strings.HasPrefix(out.Facts["enforcement"], string(m)+", connect: E") {
				t.Fatalf("%s %q %v", out.Verdict, out.Failure, out.Facts)
			}
			r := out.Reports[0]
			if err := ReloadKernel().CheckFaults(r.Controls); err != nil || r.Controls.Missed != 0 {
				t.Errorf("%v %+v", err, r.Controls)
			}
			if metric(t, r, "parity_mismatches") != 0 || metric(t, r, "prompts") < 10 {
				t.Errorf("metrics %v", r.Metrics)
			}
		})
	}
}

func TestReloadRunsInTheBoxOfTheTools(t *testing.T) {
	needsBox(t, isolation.Bubblewrap)
	out, err := Reload{}.Run(t.Context(), reloadRun(t))
	if err != nil {
		t.Fatal(err)
	}
	record, _ := out.Internal["box"].(map[string]any)
	if out.Verdict != schemas.Passed || out.Facts["network"] != "denied" || out.Facts["enforcement"] != "bubblewrap, connect: ECONNREFUSED, ENETUNREACH" || record["uid"] != isolation.UID {
		t.Errorf("%s %q %v %v", out.Verdict, out.Failure, out.Facts, record)
	}
}

func TestReloadWithoutABoxIsUndecided(t *testing.T) {
	out, err := Reload{command: by(isolation.None)}.Run(t.Context(), reloadRun(t))
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Undecided || out.Facts["network"] != "not enforced" || !strings.Contains(out.Failure, "could not be denied") {
		t.Errorf("%s %q %v", out.Verdict, out.Failure, out.Facts)
	}
}

func TestReloadRefusesOtherBytesWrongAnswersAndWrongIDs(t *testing.T) {
	run := reloadRun(t)
	edited := func(old, with string) *Run {
		t.Helper()
		var w reloadWith
		if err := decodeWith(run, &w); err != nil {
			t.Fatal(err)
		}
		body, err := os.ReadFile(w.Fixtures)
		if err != nil {
			t.Fatal(err)
		}
		at := strings.Index(string(body), `"tool-call-1"`)
		if changed := strings.Replace(string(body[at:]), old, with, 1); at < 0 || changed == string(body[at:]) {
			t.Fatalf("the fixtures have no %s", old)
		} else {
			body = append(body[:at:at], changed...)
		}
		r := newRun(t, "reloaded", map[string]any{"fixtures": "f.json", "kind": "tool-call"})
		r.Inputs = run.Inputs
		if err := os.WriteFile(filepath.Join(r.Project, "f.json"), body, 0o644); err != nil {
			t.Fatal(err)
		}
		return r
	}
	other := *run
	a := run.Inputs["artifact"]
	a.Digest = "sha256:" + "00" + a.Digest[len("sha256:")+2:]
	other.Inputs = map[string]Artifact{"artifact": a}
	for name, c := range map[string]struct {
		run   *Run
		check string
	}{
		"other bytes":    {&other, "digest"},
		"a wrong answer": {edited(`"text": "`, `"text": " `), "answer"},
		"wrong ids":      {edited("\"prompt_ids\": [\n    1,", "\"prompt_ids\": [\n    2,"), "token parity"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Reload{}.Run(t.Context(), c.run)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, x := range out.Reports[0].Findings {
				found = found || x.Check == c.check
			}
			if out.Verdict != schemas.Failed || !found {
				t.Errorf("%s, findings %v; want failed by %s", out.Verdict, out.Reports[0].Findings, c.check)
			}
		})
	}
}

func TestReloadOfAFileThatIsNoModelIsAnError(t *testing.T) {
	run := reloadRun(t)
	path := filepath.Join(run.Project, "broken.gguf")
	if err := os.WriteFile(path, []byte("GGUF\x03\x00\x00\x00"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := readFile(t.Context(), "broken.gguf", path)
	if err != nil {
		t.Fatal(err)
	}
	run.Inputs["artifact"] = FileArtifact(f)
	if _, err := (Reload{}).Run(t.Context(), run); err == nil || !strings.Contains(err.Error(), "gguf") {
		t.Errorf("got %v, want the child's own words", err)
	}
}

func TestReloadSelfCheck(t *testing.T) {
	r, err := ReloadKernel().SelfCheck(t.Context())
	if err != nil || r.Verdict != kernels.Passed {
		t.Fatalf("%s %+v %v", r.Verdict, r.Controls, err)
	}
	if err := ReloadKernel().CheckFaults(r.Controls); err != nil {
		t.Error(err)
	}
}
