package mlx

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels"
)

// TestRealConversions has mlx-lm convert four random models in every mode, and
// recomputes each of them.
func TestRealConversions(t *testing.T) {
	python := os.Getenv("WEIGHMASTER_MLX_PYTHON")
	if python == "" {
		shared.Missing(t, "WEIGHMASTER_MLX_PYTHON does not name a Python with mlx-lm; .ci/interop/install-mlx installs one")
	}
	out := t.TempDir()
	if text, err := exec.Command(python, filepath.Join("testdata", "make.py"), out).CombinedOutput(); err != nil {
		t.Fatalf("make.py: %v\n%s", err, text)
	}
	folders, err := filepath.Glob(filepath.Join(out, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	schemes, compared, worst := map[string]bool{}, 0, 0.0
	for _, folder := range folders {
		name, _ := filepath.Rel(out, folder)
		if filepath.Base(folder) == "source" {
			continue
		}
		compared++
		r := compare(t, os.DirFS(filepath.Join(filepath.Dir(folder), "source")), os.DirFS(folder))
		if filepath.Base(folder) == "from-8" {
			if r.Verdict != kernels.Failed || outcomes(r)[Differs] == 0 {
				t.Errorf("%s: got %s, want failed", name, r.Verdict)
			}
			continue
		}
		n := outcomes(r)
		if r.Verdict != kernels.Passed || n[Recomputed]+n[Same]+n[Cast] != len(r.Tensors) {
			t.Errorf("%s: got %s, %v, %v, %v, want all recomputed, converted or the same bits", name, r.Verdict, n, r.Weights, r.Files)
		}
		for scheme := range r.Schemes {
			schemes[scheme] = true
		}
		for _, one := range r.Tensors {
			worst = max(worst, one.OfBound)
		}
	}
	if len(schemes) < 21+3 || compared < 55 {
		t.Errorf("got %d folders with %v, want 21 schemes of mode affine and 3 of floats", compared, schemes)
	}
	if worst > 1 || worst < 0.9 {
		t.Errorf("got an error of %v of the bound, want one that is reached and never passed", worst)
	}
	t.Logf("%d folders, %d schemes, largest error %.4f of the bound", compared, len(schemes), worst)
}
