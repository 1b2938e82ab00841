package stages

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// calibrated is a line whose ledger holds a calibrate run.
type calibrated struct {
	*line
	model, matrix Artifact
}

func newCalibrated(t *testing.T) *calibrated {
	t.Helper()
	c := newCalibrator(t)
	c.build()
	l := newLine(t)
	body, err := os.ReadFile(c.model.Path)
	if err != nil {
		t.Fatal(err)
	}
	l.source.do = func(_ context.Context, run *Run) (*Outcome, error) {
		f, err := run.Output("model.gguf", func(w io.Writer) error { _, err := w.Write(body); return err })
		a := FileArtifact(f)
		return &Outcome{Output: &a, Verdict: schemas.Passed}, err
	}
	runtime := &toy{uses: "exec", do: func(ctx context.Context, run *Run) (*Outcome, error) {
		if err := os.CopyFS(filepath.Join(run.Dir, "runtime"), os.DirFS(filepath.Join(c.project, "work", "runtime", "runtime"))); err != nil {
			return nil, err
		}
		a, err := FolderArtifact(ctx, "runtime", filepath.Join(run.Dir, "runtime"))
		return &Outcome{Output: &a, Verdict: schemas.Passed}, err
	}}
	corpus, err := os.ReadFile(filepath.Join(c.project, "corpus.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.Project, "corpus.txt"), corpus, 0o600); err != nil {
		t.Fatal(err)
	}
	with, err := json.Marshal(c.with)
	if err != nil {
		t.Fatal(err)
	}
	l.Stages["exec"], l.Stages["calibrate"] = runtime, Calibrate{}
	l.Pipeline.Stages = []schemas.StageDecl{
		{Name: "source", Uses: "acquire", With: json.RawMessage(`{"from":"hub"}`)},
		{Name: "runtime", Uses: "exec", With: json.RawMessage(`{"command":["build"]}`)},
		{Name: "imatrix", Uses: "calibrate", Inputs: map[string]string{"model": "source", "runtime": "runtime"}, With: with},
	}
	made := l.mustRun(t, "started source, finished source, started runtime, finished runtime, started imatrix, finished imatrix")
	l.mustRun(t, "resumed source, resumed runtime, resumed imatrix")
	return &calibrated{l, made["source"], made["imatrix"]}
}

func (c *calibrated) recheck(t *testing.T) error {
	t.Helper()
	claims, err := c.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return recheckMatrix(t.Context(), &Run{Project: c.Project, Objects: c.objects, Claims: claims}, c.matrix, c.model)
}

// replace puts other bytes in a file's place and gives back what was there.
func replace(t *testing.T, path string, body []byte) (before []byte) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, body, 0o755); err != nil {
		t.Fatal(err)
	}
	return before
}

// TestRecheckMatrix: what a matrix was bound to is held against what is here, each by got and want.
func TestRecheckMatrix(t *testing.T) {
	c := newCalibrated(t)
	if err := c.recheck(t); err != nil {
		t.Fatalf("nothing changed: got %v", err)
	}
	for _, x := range []struct{ name, path, says string }{
		{"the text changed", filepath.Join(c.Project, "corpus.txt"), "its corpus changed since the calibration: got sha256:"},
		{"the binary swapped", filepath.Join(c.Project, "work", "runtime", "runtime", "bin", "llama-imatrix"), "its binary changed since the calibration: got sha256:"},
		{"the matrix changed", c.matrix.Path, "imatrix.gguf changed since it was made: got sha256:"},
		{"the model changed", c.model.Path, "model of the importance matrix: "},
	} {
		before := replace(t, x.path, []byte("other bytes"))
		if err := c.recheck(t); err == nil || !strings.Contains(err.Error(), x.says) || !strings.Contains(err.Error(), ", want sha256:") {
			t.Errorf("%s: got %v, want %q with got and want", x.name, err, x.says)
		}
		replace(t, x.path, before)
		if err := c.recheck(t); err != nil {
			t.Errorf("%s, and put back: got %v", x.name, err)
		}
	}
	if err := os.Remove(filepath.Join(c.Project, "corpus.txt")); err != nil {
		t.Fatal(err)
	}
	if err := c.recheck(t); err == nil || !strings.Contains(err.Error(), "its corpus: ") {
		t.Errorf("the text gone: got %v", err)
	}
}

// TestTheBuiltInQuantizerRechecksACalibration: a matrix of a calibrate run is held
// to it there as well, right before the product is made.
func TestTheBuiltInQuantizerRechecksACalibration(t *testing.T) {
	c := newCalibrated(t)
	claims, err := c.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	quantize := func() (*Outcome, error) {
		return Quantize{}.Run(t.Context(), &Run{
			Stage: "q4", With: json.RawMessage(`{"type":"Q4_K_M","file":"q4.gguf"}`), Inputs: map[string]Artifact{"model": c.model, "imatrix": c.matrix},
			Dir: t.TempDir(), Project: c.Project, Objects: c.objects, Claims: claims,
		})
	}
	if out, err := quantize(); err != nil || out.Verdict != schemas.Passed {
		t.Fatalf("nothing changed: got %v, %v", out, err)
	}
	replace(t, filepath.Join(c.Project, "corpus.txt"), []byte("other bytes"))
	if _, err := quantize(); err == nil || !strings.Contains(err.Error(), "input imatrix: importance matrix: its corpus changed since the calibration: got sha256:") {
		t.Errorf("the text changed: got %v", err)
	}
	claims = claims[:2]
	if out, err := quantize(); err != nil || out.Verdict != schemas.Passed {
		t.Errorf("a matrix of no calibration here: got %v, %v", out, err)
	}
}

func TestRecheckMatrixWantsTheSameModel(t *testing.T) {
	c := newCalibrated(t)
	path := filepath.Join(t.TempDir(), "other.gguf")
	if err := os.WriteFile(path, []byte("another model"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := readFile(t.Context(), "other.gguf", path)
	if err != nil {
		t.Fatal(err)
	}
	calibratedWith := c.model.Digest
	c.model = FileArtifact(other)
	err = c.recheck(t)
	if err == nil || !strings.Contains(err.Error(), "calibrated with another model: got "+calibratedWith.String()+", want "+c.model.Digest.String()) {
		t.Errorf("got %v, want both digests", err)
	}
}

// TestRecheckMatrixWantsAClaim: a matrix of nobody's, one whose claim is withdrawn, and one of a run that failed.
func TestRecheckMatrixWantsAClaim(t *testing.T) {
	c := newCalibrated(t)
	bundles := c.bundles
	c.bundles = bundles[:2]
	if err := c.recheck(t); err == nil || !strings.Contains(err.Error(), "got no calibrate run that made it") {
		t.Errorf("no claim: got %v", err)
	}
	c.bundles = bundles
	claims, err := c.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := claims[len(claims)-1]
	withdrawal, err := toStruct(schemas.Withdrawal{Claim: last.PAE(), Reason: "the text was not ours to use"})
	if err != nil {
		t.Fatal(err)
	}
	statement, err := attest.NewStatement(last.Statement().GetSubject(), attest.WithdrawalType, withdrawal)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := c.Signers["producer"].Sign(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	c.bundles = append(c.bundles, bundle)
	if err := c.recheck(t); err == nil || !strings.Contains(err.Error(), "was withdrawn: the text was not ours to use") {
		t.Errorf("withdrawn: got %v", err)
	}
	c.bundles = bundles
	for d := range c.objects.body {
		if strings.Contains(string(c.objects.body[d]), `"kernel":"calibration"`) {
			delete(c.objects.body, d)
		}
	}
	if err := c.recheck(t); err == nil || !strings.Contains(err.Error(), "evidence of its calibrate run") {
		t.Errorf("its report gone: got %v", err)
	}
}
