package stages

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

// TestAnExternalStageIsResumedByItsTools: an unchanged build proves the product
// complete; another program in the build's folder, or another library of a
// command that nobody built, makes the stage run again.
func TestAnExternalStageIsResumedByItsTools(t *testing.T) {
	example := exampleProducts(t)
	l := newLine(t)
	l.source.do = func(_ context.Context, run *Run) (*Outcome, error) {
		body, err := os.ReadFile(example.model.Path)
		if err != nil {
			return nil, err
		}
		f, err := run.Output("model.gguf", text(string(body)))
		a := FileArtifact(f)
		return &Outcome{Output: &a, Verdict: schemas.Passed}, err
	}
	words := "one"
	build := &toy{uses: "build", do: func(ctx context.Context, run *Run) (*Outcome, error) {
		dir := filepath.Join(run.Dir, "runtime")
		writeTree(t, dir, map[string]string{"bin/llama-quantize": "#!/bin/sh\n# " + words + "\ncp ${0%/*}/good.gguf $2\n"})
		body, err := os.ReadFile(example.good.Path)
		if err != nil {
			return nil, err
		}
		writeTree(t, dir, map[string]string{"bin/good.gguf": string(body)})
		if err := os.Chmod(filepath.Join(dir, "bin", "llama-quantize"), 0o755); err != nil {
			return nil, err
		}
		a, err := FolderArtifact(ctx, "runtime", dir)
		return &Outcome{Output: &a, Verdict: schemas.Passed}, err
	}}
	l.Stages["build"], l.Stages["quantize"], l.Stages["exec"] = build, Quantize{}, Exec{}
	script := filepath.Join(l.Project, "count.sh")
	writeTree(t, l.Project, map[string]string{"count.sh": "#!/bin/sh\nwc -c < $1 > n.txt\n"})
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	l.Pipeline.Stages = []schemas.StageDecl{
		l.Pipeline.Stages[0],
		{Name: "runtime", Uses: "build", Inputs: map[string]string{"source": "source"}, With: json.RawMessage(`{"commands":[["true"]],"products":["bin/*"],"compilers":["cc"]}`)},
		{Name: "small", Uses: "quantize", Inputs: map[string]string{"model": "source", "runtime": "runtime"}, With: json.RawMessage(`{"type":"Q8_0","file":"small.gguf"}`)},
		{Name: "count", Uses: "exec", Inputs: map[string]string{"of": "small"}, With: json.RawMessage(`{"command":["./count.sh","{input/of}"],"outputs":["n.txt"]}`)},
	}
	first := l.mustRun(t, "started source, finished source, started runtime, finished runtime, started small, finished small, started count, finished count")
	if first["small"].Digest != example.good.Digest {
		t.Errorf("made %s", first["small"].Digest)
	}
	l.mustRun(t, "resumed source, resumed runtime, resumed small, resumed count")

	// A program that was changed in the folder of the build is no product of it any more: the build runs again, and what it feeds.
	words = "two"
	program := filepath.Join(l.Project, "work", "runtime", "runtime", "bin", "llama-quantize")
	writeTree(t, filepath.Dir(program), map[string]string{"llama-quantize": "#!/bin/sh\ncp ${0%/*}/good.gguf $2 # swapped\n"})
	l.mustRun(t, "resumed source, started runtime, finished runtime, started small, finished small, resumed count")

	writeTree(t, l.Project, map[string]string{"count.sh": "#!/bin/sh\nwc -c < $1 > n.txt; # as before\n"})
	l.mustRun(t, "resumed source, resumed runtime, resumed small, started count, finished count")
}
