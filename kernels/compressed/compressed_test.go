package compressed

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
)

// fixtures holds folders that the two tools made; see its README.md.
const fixtures = "../../fixtures/compressed"

func dir(name string) fs.FS { return os.DirFS(filepath.Join(fixtures, name)) }

func open(t testing.TB, fsys fs.FS) *Model {
	t.Helper()
	m, err := Open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestRealFoldersAreWithinTheBound(t *testing.T) {
	for name, want := range map[string]struct {
		format  Format
		layouts map[Layout]bool
	}{
		"ct-fp8": {FP8, map[Layout]bool{PerTensor: true}}, "ct-fp8-channel": {FP8, map[Layout]bool{PerChannel: true}},
		"ct-fp8-block": {FP8, map[Layout]bool{PerTensor: true, PerBlock: true}}, "ct-nvfp4": {NVFP4, map[Layout]bool{PerGroup: true}},
		"modelopt-fp8": {FP8, map[Layout]bool{PerTensor: true}}, "modelopt-fp8-channel": {FP8, map[Layout]bool{PerChannel: true}},
		"modelopt-fp8-block": {FP8, map[Layout]bool{PerTensor: true, PerBlock: true}}, "modelopt-nvfp4": {NVFP4, map[Layout]bool{PerGroup: true}},
		"modelopt-nvfp4-kv": {NVFP4, map[Layout]bool{PerGroup: true}},
	} {
		r, err := Compare(context.Background(), dir("source"), open(t, dir(name)))
		if err != nil {
			t.Fatal(name, err)
		}
		bounded, worst, saturated, nearest, weights, rms := 0, 0.0, int64(0), int64(0), uint64(0), 0.0
		for _, one := range r.Tensors {
			if one.Outcome != Bounded {
				continue
			}
			bounded++
			worst, rms = max(worst, one.OfBound), max(rms, one.RMS)
			saturated += one.Saturated
			nearest += one.Nearest
			weights += one.Weights
			if one.Format != want.format || !want.layouts[one.Layout] {
				t.Errorf("%s: %s: got %s by %s", name, one.Name, one.Format, one.Layout)
			}
		}
		t.Logf("%s: worst %.4f of the bound, RMS %.4f, %d saturated, %d of %d nearest", name, worst, rms, saturated, nearest, weights)
		if r.Verdict != kernels.Passed || bounded != 7 || len(r.Tensors) != 12 {
			t.Errorf("%s: got %s, %d bounded of %d, %v, want 7 of 12", name, r.Verdict, bounded, len(r.Tensors), r.Findings)
		}
	}
}
