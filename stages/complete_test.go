package stages

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// completeWorld runs the complete stage over a world whose tools were built for it,
// after a change and without the completion that it already has.
func completeWorld(t *testing.T, change func(w *policytest.World)) (*Outcome, *policytest.World, *policytest.Signed) {
	t.Helper()
	w := policytest.New(t, fixtures.Policy)
	policytest.Tools(t, w)
	w.Drop(t, "finished", "completion")
	if change != nil {
		change(w)
	}
	s := w.Sign(t)
	run := newRun(t, "finished", map[string]any{})
	file := filepath.Join(t.TempDir(), policytest.Artifact.Name)
	if err := os.WriteFile(file, []byte(policytest.ArtifactBytes), 0o444); err != nil {
		t.Fatal(err)
	}
	f, err := readFile(t.Context(), policytest.Artifact.Name, file)
	if err != nil {
		t.Fatal(err)
	}
	run.Inputs = map[string]Artifact{"q8": FileArtifact(f)}
	run.Claims, run.Objects = s.Claims, &mapObjects{body: s.Objects}
	run.Extra = &Extra{
		Policy: w.Policy, PolicyDigest: w.PolicyDigest(), PipelineDigest: godigest.FromString("pipeline"),
		Stages:     []schemas.StageDecl{{Name: "source", Uses: "acquire"}, {Name: "q8", Uses: "quantize"}, {Name: "given-back", Uses: "release"}, {Name: "finished", Uses: "complete"}},
		Checkpoint: func(context.Context) (string, error) { return "a checkpoint", nil },
	}
	out, err := (Complete{}).Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return out, w, s
}

func TestAFinishedRunIsRecorded(t *testing.T) {
	out, w, s := completeWorld(t, nil)
	if out.Verdict != schemas.Passed || len(out.Statements) != 1 {
		t.Fatalf("%s: %s", out.Verdict, out.Failure)
	}
	var done schemas.Completion
	body, err := out.Statements[0].GetPredicate().MarshalJSON()
	if err == nil {
		err = schemas.DecodeJSON(schemas.CompletionURI, body, &done)
	}
	if err != nil {
		t.Fatal(err)
	}
	if done.Compute != s.Claim(t, "given-back").PAE().String() || done.Delivered[0].Size != int64(len(policytest.ArtifactBytes)) {
		t.Errorf("compute %s, delivered %+v", done.Compute, done.Delivered)
	}
	for _, step := range []string{"source", "runtime-source", "runtime", "box", "scai", "vocabulary", "agreed", "matrix", "bf16", "q8", "q8-derived", "q8-evaluated", "q8-summary", "q8-delivered", "q8-reloaded", "given-back"} {
		if !slices.Contains(done.Finished, s.Claim(t, step).PAE()) {
			t.Errorf("the completion does not list %s", step)
		}
	}
	// Whoever has these claims reads the same record from them.
	record, err := policy.Record(w.Policy, s.Evidence, w.PolicyDigest(), done.Finished, done.Delivered)
	if err != nil || len(record.Outputs[0].Steps) != len(done.Record.Outputs[0].Steps) || !slices.Equal(record.NotTested, done.Record.NotTested) {
		t.Errorf("%v: read again: %+v, want %+v", err, record, done.Record)
	}
}

// What is open is listed whole, not up to the first.
func TestWhatIsOpenIsListed(t *testing.T) {
	failedRun := schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Failed, ExitStatus: 1, Failure: "it did not work", Facts: map[string]string{}}
	for name, c := range map[string]struct {
		change  func(w *policytest.World)
		verdict schemas.Verdict
		words   []string
	}{
		"nothing but the model": {func(w *policytest.World) {
			w.Drop(t, "q8-delivered", "q8-reloaded", "given-back")
		}, schemas.Undecided, []string{"open: (1)", "delivered: deliver: undecided", "reloaded: reload: undecided", "rented compute: no release claim", "stage given-back (release): it has no run"}},
		"not reloaded": {func(w *policytest.World) { w.Drop(t, "q8-reloaded") }, schemas.Undecided, []string{"model-Q8_0.gguf: reloaded: reload: undecided: got no claim"}},
		"still running": {func(w *policytest.World) {
			w.Step(t, "given-back").Result = failedRun
		}, schemas.Failed, []string{"released: rented compute: failed", "rented compute: the newest release did not pass: it did not work", "stage given-back (release): its newest run is failed"}},
		"a stage that failed again": {func(w *policytest.World) {
			again := *w.Step(t, "q8")
			again.Result, again.Outputs, again.Inputs = failedRun, nil, nil
			w.Add(t, "", &again)
		}, schemas.Undecided, []string{"stage q8 (quantize): its newest run is failed: it did not work"}},
		"never accepted": {func(w *policytest.World) { w.Drop(t, "q8-accepted", "q8-summary") }, schemas.Undecided, []string{"model-Q8_0.gguf: not accepted: no acceptance of"}},
		"a box that was taken back": {func(w *policytest.World) {
			w.Add(t, "", policytest.Withdrawal("w", "scai", "the probe was wrong", policytest.Gatekeeper))
		}, schemas.Failed, []string{"boxed: probe of the box of q8 (quantize): undecided"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, _ := completeWorld(t, c.change)
			if out.Verdict != c.verdict || len(out.Statements) != 0 {
				t.Errorf("got %s with %d statements: %s", out.Verdict, len(out.Statements), out.Failure)
			}
			for _, w := range c.words {
				if !strings.Contains(out.Failure, w) {
					t.Errorf("no words %q in\n%s", w, out.Failure)
				}
			}
		})
	}
}

// No release is needed where none is declared, demanded or claimed; each of these alone demands one.
func TestNothingRented(t *testing.T) {
	for name, demand := range map[string]func(p *schemas.Policy, x *Extra){
		"": nil,
		"a decision requires it": func(p *schemas.Policy, _ *Extra) {
			p.Released = &schemas.ReleasedRule{Compute: "azure", State: "PowerState/deallocated"}
			d := p.Decisions[policy.Redistribute]
			d.Requires = append(slices.Clone(d.Requires), "released")
			p.Decisions[policy.Redistribute] = d
		},
		"the policy names a state": func(p *schemas.Policy, _ *Extra) {
			p.Released = &schemas.ReleasedRule{Compute: "azure", State: "PowerState/deallocated"}
		},
		"the pipeline declares it": func(_ *schemas.Policy, x *Extra) {
			x.Stages = []schemas.StageDecl{{Name: "finished", Uses: "complete"}, {Name: "given-back", Uses: "release"}}
		},
	} {
		w := policytest.New(t, fixtures.Policy)
		w.Drop(t, "finished", "completion")
		extra := &Extra{PipelineDigest: godigest.FromString("pipeline"), Checkpoint: func(context.Context) (string, error) { return "a checkpoint", nil }}
		if demand != nil {
			w.Policy.Signers["release"] = schemas.SignerRule{Functionaries: []string{policytest.Producer}, Threshold: 1}
			demand(&w.Policy, extra)
		}
		s := w.Sign(t)
		run := newRun(t, "finished", map[string]any{})
		run.Inputs = map[string]Artifact{"q8": {Name: policytest.Artifact.Name, Digest: policytest.Artifact.Digest, Files: []File{{Name: policytest.Artifact.Name}}}}
		run.Claims, run.Objects, run.Extra = s.Claims, &mapObjects{body: s.Objects}, extra
		extra.Policy, extra.PolicyDigest = w.Policy, w.PolicyDigest()
		out, err := (Complete{}).Run(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		open := strings.Contains(out.Failure, "rented compute: no release claim by those who may sign one (signers.release)")
		if (demand != nil) != (out.Verdict != schemas.Passed) || (demand != nil) != open || demand == nil && out.Facts["compute"] != "none rented" {
			t.Errorf("%q: %s: %s, compute %s", name, out.Verdict, out.Failure, out.Facts["compute"])
		}
	}
}

// The digests of tokens and templates are of what the file's header holds.
func TestTokenMetadata(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	tokens := gguf.KV{Key: "tokenizer.ggml.tokens", Value: gguf.Strings([]string{"a", "\xff"})}
	if err := gguf.Write(f, []gguf.KV{{Key: "general.name", Value: gguf.String("m")}, {Key: "tokenizer.chat_template", Value: gguf.String("{{ x }}")}, tokens}, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	sums, err := readFile(t.Context(), "model.gguf", path)
	if err != nil {
		t.Fatal(err)
	}
	got := tokenMetadata(FileArtifact(sums))
	if len(got) != 2 || got["tokenizer.chat_template"] != godigest.FromString("{{ x }}") || got["tokenizer.ggml.tokens"] == "" {
		t.Error(fmt.Sprint(got))
	}
	if list := tokenMetadata(Artifact{Name: "elsewhere", Remote: true}); len(list) != 0 {
		t.Errorf("bytes that are not here have metadata: %v", list)
	}
}
