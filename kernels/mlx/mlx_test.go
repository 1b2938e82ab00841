package mlx

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/memfs"
)

// fixtures holds folders that mlx-lm made; see its README.md.
const fixtures = "../../fixtures/mlx"

func compare(t *testing.T, source, target fs.FS) Result {
	t.Helper()
	m, err := Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r, err := Compare(context.Background(), source, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func outcomes(r Result) map[Outcome]int {
	n := map[Outcome]int{}
	for _, t := range r.Tensors {
		n[t.Outcome]++
	}
	return n
}

func TestFixturesAreRecomputed(t *testing.T) {
	source := os.DirFS(filepath.Join(fixtures, "source"))
	seen := 0
	for _, name := range []string{"affine-3-32", "affine-4-64", "layered", "mxfp4", "nvfp4", "mxfp8", "mxfp4-0.30.0"} {
		r := compare(t, source, os.DirFS(filepath.Join(fixtures, name)))
		n := outcomes(r)
		if r.Verdict != kernels.Passed || n[Recomputed] == 0 || n[Recomputed]+n[Same] != len(r.Tensors) || len(r.Schemes) == 0 {
			t.Errorf("%s: got %s, %v, %v, %v, want all recomputed or the same bits", name, r.Verdict, n, r.Weights, r.Files)
		}
		backend := "cpu"
		if name == "mxfp4-0.30.0" {
			backend = "cpu, scales to nearest"
		}
		for _, one := range r.Tensors {
			if one.Outcome == Recomputed && (one.Backend != backend || !(one.OfBound <= 1) || !(one.RMS > 0)) {
				t.Errorf("%s: %s: got %+v, want CPU bits within the bound", name, one.Name, one)
			}
			seen++
		}
	}
	if seen < 100 {
		t.Errorf("got %d tensors, want those of seven folders", seen)
	}
}

// TestMadeFromEightBitsIsRefused: 4 bits from an 8-bit copy are near the source
// but not its rounding.
func TestMadeFromEightBitsIsRefused(t *testing.T) {
	r := compare(t, os.DirFS(filepath.Join(fixtures, "source")), os.DirFS(filepath.Join(fixtures, "from-8")))
	if r.Verdict != kernels.Failed || outcomes(r)[Differs] == 0 || !strings.Contains(r.Weights[0].String(), "weight beyond the bound") {
		t.Errorf("got %s, %v, want weights beyond the bound", r.Verdict, r.Weights)
	}
	for _, one := range r.Tensors {
		if one.Scheme != nil && one.Outcome != Differs {
			t.Errorf("%s: got %s, want every matrix refused", one.Name, one.Outcome)
		}
	}
}

// memory copies a folder, so that a test can change it.
func memory(t testing.TB, dir string) memfs.FS {
	t.Helper()
	m := memfs.FS{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		m[e.Name()] = data
	}
	return m
}

func replace(t *testing.T, m memfs.FS, name, old, new string) {
	t.Helper()
	if !bytes.Contains(m[name], []byte(old)) {
		t.Fatalf("%s: no %q", name, old)
	}
	m[name] = bytes.ReplaceAll(m[name], []byte(old), []byte(new))
}
