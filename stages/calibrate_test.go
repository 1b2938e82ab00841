package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
	"github.com/weighmaster/weighmaster/kernels/recipe"
	"github.com/weighmaster/weighmaster/kernels/token"
	"github.com/weighmaster/weighmaster/schemas"
)

// calibrator is a project with the example model, a text, and a build whose
// llama-imatrix says and writes what a test gives it.
type calibrator struct {
	t       *testing.T
	project string
	model   Artifact
	tensors []gguf.TensorInfo
	tokens  int64
	content imatrix.Content
	log     string
	status  int
	script  string
	with    map[string]any
	store   *mapObjects
}

const fakeImatrix = `#!/bin/sh
here=$(dirname "$0")
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then out=$2; fi
  shift
done
cat "$here/log" >&2
if [ -f "$here/matrix" ]; then cat "$here/matrix" >"$out"; fi
exit $(cat "$here/status")
`

// loadLog is what llama-imatrix says of the example model on a CPU.
const loadLog = `llama_model_loader: loaded meta data with 35 key-value pairs and %d tensors from model.gguf (version GGUF V3 (latest))
print_info: file size   = 3.82 MiB (16.01 BPW)
load_tensors: loading model tensors, this can take a while... (load_mode = mmap)
load_tensors:   CPU_Mapped model buffer size =     3.82 MiB
llama_context: constructing llama_context
compute_imatrix: computing over %d chunks, n_ctx=%d, batch_size=%d, n_seq=1
llama_perf_context_print: prompt eval time =     147.85 ms / %5d tokens (    0.14 ms per token,  6926.13 tokens per second)
`

func newCalibrator(t *testing.T) *calibrator {
	t.Helper()
	c := &calibrator{t: t, project: t.TempDir(), store: &mapObjects{}, script: fakeImatrix}
	c.model = exampleGGUF(t)
	f, model, err := c.model.openGGUF("model")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c.tensors = model.Tensors
	corpus := strings.Repeat("The red hall has 7 doors, and <|user|> is no special token here. 你好\n", 20)
	if err := os.WriteFile(filepath.Join(c.project, "corpus.txt"), []byte(corpus), 0o600); err != nil {
		t.Fatal(err)
	}
	vocabulary, err := token.FromGGUF(model)
	if err != nil {
		t.Fatal(err)
	}
	c.tokens = int64(len(vocabulary.Plain(strings.TrimSuffix(corpus, "\n"), true)))
	if read := int64(len(vocabulary.Encode(corpus, true))); read == c.tokens {
		t.Fatal("the text does not show whether special tokens are read in it")
	}
	c.content = imatrix.Content{Datasets: []string{"corpus.txt"}, Chunks: 4, ChunkSize: 32}
	for _, x := range c.tensors {
		if !strings.HasPrefix(x.Name, "blk.") || !recipe.Allows("", x.Name, x.Dims) {
			continue
		}
		sums := make([]float32, x.Dims[0])
		for i := range sums {
			sums[i] = 1 + float32(i%7)
		}
		c.content.Entries = append(c.content.Entries, imatrix.Data{Name: x.Name, Counts: []float32{128}, Sums: sums})
	}
	c.log = fmt.Sprintf(loadLog, len(c.tensors), 4, 32, 32, 128)
	c.with = map[string]any{"corpus": "corpus.txt", "licence": "CC0-1.0", "file": "imatrix.gguf", "chunks": 4, "chunkSize": 32}
	return c
}

// exampleGGUF is the example model in BF16.
func exampleGGUF(t *testing.T) Artifact {
	t.Helper()
	snapshot, err := FolderArtifact(t.Context(), "source", filepath.FromSlash("../fixtures/model/snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := runStage(t, Convert{}, `{"type":"BF16","file":"model.gguf"}`, map[string]Artifact{"snapshot": snapshot})
	if err != nil {
		t.Fatal(err)
	}
	return *out.Output
}

// build is the folder of a build with the fake tool.
func (c *calibrator) build() Artifact {
	c.t.Helper()
	dir := filepath.Join(c.project, "work", "runtime", "runtime")
	files := map[string][]byte{"llama-imatrix": []byte(c.script), "log": []byte(c.log), "status": fmt.Appendf(nil, "%d", c.status)}
	if c.content.Entries != nil {
		var b bytes.Buffer
		if err := imatrix.WriteGGUF(&b, c.content); err != nil {
			c.t.Fatal(err)
		}
		files["matrix"] = b.Bytes()
	}
	if err := os.RemoveAll(dir); err != nil {
		c.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		c.t.Fatal(err)
	}
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(dir, "bin", name), body, 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	a, err := FolderArtifact(c.t.Context(), "runtime", dir)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

func (c *calibrator) run(t *testing.T) (*Outcome, *Run, error) {
	t.Helper()
	with, err := json.Marshal(c.with)
	if err != nil {
		t.Fatal(err)
	}
	if err := schemas.StageParameters("calibrate", with); err != nil {
		t.Fatal(err)
	}
	run := &Run{Stage: "imatrix", With: with, Inputs: map[string]Artifact{"model": c.model, "runtime": c.build()}, Dir: t.TempDir(), Project: c.project, Objects: c.store, Progress: func(string, int64, int64) {}}
	out, err := Calibrate{}.Run(context.Background(), run)
	return out, run, err
}

func TestCalibrateFinalizesAWholeRun(t *testing.T) {
	c := newCalibrator(t)
	out, run, err := c.run(t)
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Passed || out.Output == nil || out.Output.Name != "imatrix.gguf" || out.ExitStatus != 0 {
		t.Fatalf("got %s (%s) with output %v, want passed with the matrix", out.Verdict, out.Failure, out.Output)
	}
	names := []string{}
	for _, r := range out.Reports {
		names = append(names, r.Kernel)
		if r.Verdict != kernels.Passed {
			t.Errorf("%s: got %s", r.Kernel, r.Verdict)
		}
	}
	if got := strings.Join(names, ", "); got != "importance matrix, placement, calibration" {
		t.Errorf("got the reports %s", got)
	}
	for name, want := range map[string]string{"corpus-licence": "CC0-1.0", "chunks": "4", "chunk-size": "32", "processed-tokens": "128", "selected-tokens": fmt.Sprint(c.tokens), "model": c.model.Digest.String(), "device": "CPU"} {
		if out.Facts[name] != want {
			t.Errorf("fact %s: got %q, want %q", name, out.Facts[name], want)
		}
	}
	var corpus, binary bool
	for _, d := range out.Dependencies {
		corpus = corpus || d.Name == "corpus/corpus.txt" && d.Digest.String() == out.Facts["corpus"]
		binary = binary || d.Name == "tool/llama-imatrix" && d.Digest.String() == out.Facts["binary"]
	}
	if !corpus || !binary {
		t.Errorf("got the dependencies %v and facts %v, want corpus and binary in both", out.Dependencies, out.Facts)
	}
	resolved, err := Calibrate{}.Resolve(t.Context(), run)
	if err != nil || len(resolved) != len(out.Dependencies) {
		t.Errorf("resolved %v %v, want what the run names: %v", resolved, err, out.Dependencies)
	}
}

// TestCalibrateKeepsCandidates: whatever is wrong, nothing has the matrix' name, and the reason is said.
func TestCalibrateKeepsCandidates(t *testing.T) {
	base := newCalibrator(t)
	for _, x := range []struct {
		name    string
		change  func(*calibrator)
		verdict schemas.Verdict
		says    string
	}{
		{"another model's matrix", func(c *calibrator) { c.content.Entries[0].Name = "blk.0.ssm_in.weight" }, schemas.Failed, "this is another model's matrix"},
		{"a size of another model", func(c *calibrator) { c.content.Entries[0].Sums = c.content.Entries[0].Sums[:32] }, schemas.Failed, "size that is not the model's"},
		{"the matrix of half the run", func(c *calibrator) { c.content.Chunks, c.content.Entries = 2, counted(c.content.Entries, 64) }, schemas.Failed, "the matrix: got 2, want 4"},
		{"a chunk count that is not the counts'", func(c *calibrator) { c.content.Chunks = 5 }, schemas.Failed, "chunk count"},
		{"fewer activations than the log counts", func(c *calibrator) { c.content.Entries = counted(c.content.Entries, 130) }, schemas.Failed, "activations of the matrix: got 130, want 128"},
		{"zeros throughout a block", func(c *calibrator) { clear(c.content.Entries[1].Sums[:32]) }, schemas.Failed, "zeros throughout a block"},
		{"a NaN", func(c *calibrator) { c.content.Entries[1].Sums[3] = float32(math.NaN()) }, schemas.Failed, "sums that are no numbers"},
		{"a missing entry", func(c *calibrator) { c.content.Entries = c.content.Entries[1:] }, schemas.Failed, "weight missing in the matrix"},
		{"earlier matrices merged in", func(c *calibrator) { c.content.Datasets = []string{"earlier.txt", "corpus.txt"} }, schemas.Failed, "got 2 texts"},
		{"the log says fewer chunks", func(c *calibrator) { c.log = strings.Replace(c.log, "over 4 chunks", "over 3 chunks", 1) }, schemas.Failed, "the log: got 3, want 4"},
		{"the log counts fewer tokens", func(c *calibrator) { c.log = strings.Replace(c.log, "  128 tokens", "  120 tokens", 1) }, schemas.Failed, "the log's end: got 120, want 128"},
		{"the embedding on another device", func(c *calibrator) { c.with["device"] = "CUDA0" }, schemas.Failed, "buffer CPU_Mapped"},
		{"the log of another model", func(c *calibrator) {
			c.log = strings.Replace(c.log, fmt.Sprintf("and %d tensors", len(c.tensors)), "and 471 tensors", 1)
		}, schemas.Failed, "this is another model's log"},
		{"a log cut before its end", func(c *calibrator) { c.log = c.log[:strings.Index(c.log, "llama_perf")] }, schemas.Undecided, "0 lines that count the tokens at the end"},
		{"no load log", func(c *calibrator) { c.log = c.log[strings.Index(c.log, "compute_imatrix"):] }, schemas.Undecided, "none with a buffer of weights"},
		{"a log with a hole", func(c *calibrator) { c.log = strings.Repeat("x", 1<<21) + "\n" + c.log }, schemas.Undecided, "a part is left out"},
		{"no output", func(c *calibrator) { c.content.Entries = nil }, schemas.Failed, "the command ended with 0, but it made no imatrix.gguf.partial"},
		{"a failed tool beside a whole file", func(c *calibrator) { c.status = 3 }, schemas.Failed, "exit status 3"},
		{"a text that is too short", func(c *calibrator) { c.with["chunks"] = 400 }, schemas.Failed, "corpus too short"},
		{"an error of the tool", func(c *calibrator) {
			c.log += "collect_imatrix: non-finite values detected in blk.0.attn_q.weight\n"
		}, schemas.Failed, "errors of the tool"},
		{"a link in the output's place", func(c *calibrator) {
			c.script = strings.Replace(c.script, `if [ -f "$here/matrix" ]; then`, `if ln -s /etc/passwd "$out"; then :; elif true; then`, 1)
		}, schemas.Failed, "no regular file"},
	} {
		c := *base
		c.with = map[string]any{}
		for k, v := range base.with {
			c.with[k] = v
		}
		c.content.Entries = counted(base.content.Entries, 128)
		x.change(&c)
		out, run, err := c.run(t)
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		if out.Verdict != x.verdict || !strings.Contains(kernels.Lines(findingsOf(out))+out.Failure, x.says) || out.Failure == "" {
			t.Errorf("%s: got %s (%s) with %s, want %s that says %q", x.name, out.Verdict, out.Failure, kernels.Lines(findingsOf(out)), x.verdict, x.says)
		}
		if out.Output != nil || exists(filepath.Join(run.Dir, "imatrix.gguf")) {
			t.Errorf("%s: the candidate got its name", x.name)
		}
	}
}

func findingsOf(out *Outcome) (all []kernels.Finding) {
	for _, r := range out.Reports {
		all = append(all, r.Findings...)
	}
	return all
}

// counted copies entries with another number of activations.
func counted(entries []imatrix.Data, n float32) []imatrix.Data {
	var list []imatrix.Data
	for _, e := range entries {
		list = append(list, imatrix.Data{Name: e.Name, Counts: []float32{n}, Sums: append([]float32{}, e.Sums...)})
	}
	return list
}

func TestCalibrateRefusesBeforeItRuns(t *testing.T) {
	c := newCalibrator(t)
	for _, x := range []struct {
		name  string
		with  map[string]any
		wants string
	}{
		{"another text by argument", map[string]any{"arguments": []string{"-f", "/etc/passwd"}}, `got "-f", want options of devices`},
		{"a matrix to merge", map[string]any{"arguments": []string{"-ngl", "0", "--in-file", "a.gguf"}}, `got "--in-file"`},
		{"a log that is turned off", map[string]any{"arguments": []string{"--log-disable"}}, `got "--log-disable"`},
		{"an option hidden as a value", map[string]any{"arguments": []string{"-fa", "-f", "-ngl", "0"}}, `-fa: got the value "-f", want one that is no option`},
		{"another text hidden as a value", map[string]any{"arguments": []string{"-fa", "--in-file=/etc/passwd"}}, `-fa: got the value "--in-file=/etc/passwd"`},
		{"an option without its value", map[string]any{"arguments": []string{"-ngl"}}, "-ngl: got no value"},
		{"no such tool", map[string]any{"tool": "bin/other"}, `got "bin/other", want a file of the build`},
		{"a tool outside the build", map[string]any{"tool": "../../../bin/sh"}, "want a file of the build"},
		{"no such text", map[string]any{"corpus": "none.txt"}, "corpus: "},
	} {
		d := *c
		d.with = map[string]any{}
		for k, v := range c.with {
			d.with[k] = v
		}
		for k, v := range x.with {
			d.with[k] = v
		}
		if _, _, err := d.run(t); err == nil || !strings.Contains(err.Error(), x.wants) {
			t.Errorf("%s: got %v, want %q", x.name, err, x.wants)
		}
	}
}
