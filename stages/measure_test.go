package stages

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/divergence"
	"github.com/weighmaster/weighmaster/kernels/evaluate"
	"github.com/weighmaster/weighmaster/schemas"
)

// bench is the example model, converted and quantized, and a project with its corpus.
type bench struct {
	t                   *testing.T
	project             string
	store               *mapObjects
	source, bf16, q8    Artifact
	fixtures, textsFile []byte
}

const measureWith = `{"fixtures":"fixtures.json","texts":"texts.json"}`

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, project: t.TempDir(), store: &mapObjects{}}
	source, err := FolderArtifact(t.Context(), "source", filepath.FromSlash("../fixtures/model/snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	b.source = source
	converted, err := runStage(t, Convert{}, `{"type":"BF16","file":"m-BF16.gguf"}`, map[string]Artifact{"snapshot": source})
	if err != nil {
		t.Fatal(err)
	}
	b.bf16 = *converted.Output
	quantized, err := runStage(t, Quantize{}, `{"type":"Q8_0","file":"m-Q8_0.gguf"}`, map[string]Artifact{"model": b.bf16})
	if err != nil {
		t.Fatal(err)
	}
	b.q8 = *quantized.Output
	data, err := os.ReadFile("../fixtures/model/eval/fixtures.json")
	if err != nil {
		t.Fatal(err)
	}
	all, err := evaluate.ParseFixtures(data)
	if err != nil {
		t.Fatal(err)
	}
	// Only what the model answers with a margin in bf16: see the fixtures' own record.
	all.Fixtures = slices.DeleteFunc(all.Fixtures, func(f evaluate.Fixture) bool { return *f.MinMarginBF16 < 0.5 || f.PromptTokens > 130 })
	if b.fixtures, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	if b.textsFile, err = os.ReadFile("../fixtures/model/reference/texts.json"); err != nil {
		t.Fatal(err)
	}
	b.write("fixtures.json", b.fixtures)
	b.write("texts.json", b.textsFile)
	return b
}

func (b *bench) write(name string, body []byte) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.project, name), body, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) run(s Stage, inputs map[string]Artifact) (*Outcome, error) {
	b.t.Helper()
	if err := schemas.StageParameters(s.Uses(), json.RawMessage(measureWith)); err != nil {
		b.t.Fatal(err)
	}
	return s.Run(b.t.Context(), &Run{Stage: s.Uses(), With: json.RawMessage(measureWith), Inputs: inputs, Dir: b.t.TempDir(), Project: b.project, Objects: b.store})
}

func metricOf(t *testing.T, o *Outcome, kernel, name string) float64 {
	t.Helper()
	for _, r := range o.Reports {
		for _, m := range r.Metrics {
			if r.Kernel == kernel && m.Name == name && m.Identity["text"] == "" {
				return m.Value
			}
		}
	}
	t.Fatalf("no metric %s of the kernel %s", name, kernel)
	return 0
}

// The whole way: a BF16 file gives the source's logits in every bit, a Q8_0 a small distance.
func TestBaselineAndEvaluate(t *testing.T) {
	b := newBench(t)
	base, err := b.run(Baseline{}, map[string]Artifact{"snapshot": b.source})
	if err != nil {
		t.Fatal(err)
	}
	if base.Verdict != schemas.Passed || len(base.Reports) != 1 || len(base.Dependencies) != 2 || !base.Output.Multi {
		t.Fatalf("baseline: got %s (%s), %d reports, %d dependencies", base.Verdict, base.Failure, len(base.Reports), len(base.Dependencies))
	}
	if err := base.Output.Check(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("baseline: fixtures %s, smallest margin %.3g logits", base.Facts["fixtures"], metricOf(t, base, "evaluate", "min_margin"))
	for _, model := range []Artifact{b.bf16, b.q8} {
		out, err := b.run(Evaluate{}, map[string]Artifact{"model": model, "baseline": *base.Output})
		if err != nil {
			t.Fatal(err)
		}
		kl, top := metricOf(t, out, "divergence", "kl_mean"), metricOf(t, out, "divergence", "top1_agreement")
		t.Logf("%s: fixtures %s, mean KL %.3g nats, largest %.3g, top-1 %.4f", model.Name, out.Facts["fixtures"], kl, metricOf(t, out, "divergence", "kl_max"), top)
		if out.Verdict != schemas.Passed || out.Output != nil || len(out.Reports) != 2 {
			t.Errorf("%s: got %s (%s), %d reports", model.Name, out.Verdict, out.Failure, len(out.Reports))
		}
		if exact := model.Name == b.bf16.Name; exact != (kl == 0) || kl > 0.01 {
			t.Errorf("%s: got a mean KL of %v nats", model.Name, kl)
		}
		for _, r := range out.Reports {
			if r.Controls.Planted == 0 || r.Controls.Missed > 0 || len(r.Inputs) < 3 {
				t.Errorf("%s: kernel %s: %d controls planted, %d missed, inputs %v", model.Name, r.Kernel, r.Controls.Planted, r.Controls.Missed, r.Inputs)
			}
		}
		var answers evaluate.Result
		for _, e := range out.Evidence {
			if e.Name == "record/answers" {
				if err := json.Unmarshal(b.store.body[e.Digest], &answers); err != nil {
					t.Error(err)
				}
			}
		}
		if len(answers.Outcomes) == 0 || len(out.Evidence) != 4 {
			t.Errorf("%s: got %d recorded answers and %d evidence objects, want all answers and 4 objects", model.Name, len(answers.Outcomes), len(out.Evidence))
		}
	}
	b.notComparable(*base.Output)
}

// notComparable tries a changed corpus and a changed baseline.
func (b *bench) notComparable(base Artifact) {
	t := b.t
	inputs := map[string]Artifact{"model": b.bf16, "baseline": base}
	b.write("texts.json", append(bytes.Clone(b.textsFile), '\n'))
	if _, err := b.run(Evaluate{}, inputs); !errors.Is(err, divergence.ErrNotComparable) || !strings.Contains(err.Error(), "texts") {
		t.Errorf("other texts: got %v, want them refused", err)
	}
	b.write("texts.json", b.textsFile)
	b.write("fixtures.json", append(bytes.Clone(b.fixtures), '\n'))
	if _, err := b.run(Evaluate{}, inputs); !errors.Is(err, divergence.ErrNotComparable) || !strings.Contains(err.Error(), "fixtures") {
		t.Errorf("other fixtures: got %v, want them refused", err)
	}
	b.write("fixtures.json", b.fixtures)
	for name, change := range map[string]func(dir string) (file string, old, new []byte){
		"another domain": func(string) (string, []byte, []byte) {
			return "baseline.json", []byte(`"real-ids"`), []byte(`"full-width"`)
		},
		"other engine": func(string) (string, []byte, []byte) {
			return "baseline.json", []byte(`"schema":`), []byte(`"scheme":`)
		},
		"narrower": func(string) (string, []byte, []byte) {
			return "baseline.json", []byte(`"width":640`), []byte(`"width":639`)
		},
		"other array": func(string) (string, []byte, []byte) { return "logits/code.npy", []byte("NUMPY"), []byte("NUMPZ") },
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(base.Path)); err != nil {
			t.Fatal(err)
		}
		file, from, to := change(dir)
		path := filepath.Join(dir, file)
		body, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(body, from) {
			t.Fatalf("%s: %v, no %s in %s", name, err, from, file)
		}
		if err := errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, bytes.Replace(body, from, to, 1), 0o644)); err != nil {
			t.Fatal(err)
		}
		other, err := FolderArtifact(t.Context(), "baseline", dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.run(Evaluate{}, map[string]Artifact{"model": b.bf16, "baseline": other}); err == nil {
			t.Errorf("baseline with %s: evaluated all the same", name)
		}
	}
}

// A fixture whose answer is wrong fails the stage with its name; the run is kept.
func TestBaselineFailsOnAWrongAnswer(t *testing.T) {
	b := newBench(t)
	f, err := evaluate.ParseFixtures(b.fixtures)
	if err != nil {
		t.Fatal(err)
	}
	f.Fixtures = f.Fixtures[:2]
	f.Fixtures[1].Expect.Text += "!"
	body, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	b.write("fixtures.json", body)
	out, err := b.run(Baseline{}, map[string]Artifact{"snapshot": b.source})
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Failed || !strings.Contains(out.Failure, f.Fixtures[1].ID) || out.Facts["fixtures"] != "1/2" || out.Reports[0].Verdict != kernels.Failed {
		t.Errorf("got %s (%s), fixtures %s", out.Verdict, out.Failure, out.Facts["fixtures"])
	}
	b.write("texts.json", bytes.Replace(b.textsFile, []byte("493"), []byte("494"), 1))
	if _, err := b.run(Baseline{}, map[string]Artifact{"snapshot": b.source}); err == nil || !strings.Contains(err.Error(), "english") {
		t.Errorf("a text with another token: got %v, want it refused by name", err)
	}
}
