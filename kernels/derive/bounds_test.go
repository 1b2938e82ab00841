package derive

import (
	"math"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// measuredAs measures every quantized tensor of a real file beside its recomputation in one way.
func measuredAs(t *testing.T, file string, o Options, how making) map[gguf.Type][]measured {
	t.Helper()
	src, err := open(gguf1(t, "BF16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	dst, err := open(gguf1(t, file))
	if err != nil {
		t.Fatal(err)
	}
	var pairs []*pair
	var ways []making
	matrix := newImportance(o)
	for i := range src.tensors {
		p, err := newPair(&src.tensors[i], dst.byName[src.tensors[i].name])
		if err != nil || p.same() || !quant.CodesFollow(p.dst.typ) {
			continue
		}
		if err := matrix.weigh(p); err != nil {
			t.Fatal(err)
		}
		pairs, ways = append(pairs, p), append(ways, how.of(p))
	}
	list, err := measureAll(t.Context(), pairs, ways)
	if err != nil {
		t.Fatal(err)
	}
	found := map[gguf.Type][]measured{}
	for i, m := range list {
		found[pairs[i].dst.typ] = append(found[pairs[i].dst.typ], m)
	}
	return found
}

// TestTheBoundsAreCalibratedOnRealBuilds measures files that a build with fused
// multiply-adds made beside the plain build's blocks: as if that build were not known.
func TestTheBoundsAreCalibratedOnRealBuilds(t *testing.T) {
	arithmetic(t)
	matrix := withMatrix(t, grouped(t, "imatrix.gguf"))
	for _, c := range []struct {
		file string
		with Options
	}{
		{"fma-build/Q4_K_M.gguf", Options{}}, {"fma-build/Q5_K_M.gguf", Options{}}, {"fma-build/Q6_K.gguf", Options{}},
		{"fma-build/Q4_K_M-im.gguf", matrix}, {"fma-build/Q5_K_M-im.gguf", matrix},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			how := plainly
			how.matrix = c.with.Matrix != nil
			for typ, list := range measuredAs(t, c.file, c.with, how) {
				var all measured
				for _, m := range list {
					all.add(m)
					if m.lost != 0 || m.badCodes != 0 || m.equal() < 0.65 || m.ratio() < 0.995 || m.ratio() > 1.005 || m.worst > 2 {
						t.Errorf("%s: got %d blocks with other codes, %.3f equal, error ratio %.4f, worst block %.2f; want 0, 0.65 and more, 0.995 to 1.005, at most 2: recalibrate the bounds",
							typ, m.badCodes, m.equal(), m.ratio(), m.worst)
					}
					if class, why := free(m); class != ClassB {
						t.Errorf("%s: got class %q, %s, want B", typ, class, why)
					}
				}
				if share := float64(all.differing) / float64(all.blocks); all.blocks > 2000 && share < leastDiffering[typ] {
					t.Errorf("%s: got %.5f of the blocks differing, want at least %.5f, by which edits are told from builds", typ, share, leastDiffering[typ])
				}
				if edited(typ, all.blocks, all.differing) {
					t.Errorf("%s: an honest build of %d differing blocks in %d is taken for an edit", typ, all.differing, all.blocks)
				}
			}
		})
	}
}

// TestTheBoundsHoldForWithheldMatrices measures files made with a matrix beside the blocks without one.
func TestTheBoundsHoldForWithheldMatrices(t *testing.T) {
	arithmetic(t)
	for _, file := range []string{"Q3_K_M-im.gguf", "Q4_K_M-im.gguf", "Q5_K_M-im.gguf", "Q6_K-im.gguf", "more/Q2_K-im.gguf"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			for typ, list := range measuredAs(t, file, Options{}, plainly) {
				for _, m := range list {
					if m.differing == 0 {
						continue // a tensor that the matrix has nothing about
					}
					if m.lost != 0 || m.badCodes != 0 || m.equal() > 0.1 || m.ratio() < 0.75 || m.ratio() > 1.2 || m.worst > 8 {
						t.Errorf("%s: got %d blocks with other codes, %.3f equal, error ratio %.4f, worst block %.2f; want 0, at most 0.1, 0.75 to 1.2, at most 8: recalibrate the bounds",
							typ, m.badCodes, m.equal(), m.ratio(), m.worst)
					}
					if class, why := free(m); class != ClassC {
						t.Errorf("%s: got class %q, %s, want C", typ, class, why)
					}
				}
			}
		})
	}
}

// TestTheBoundsAreKept judges measurements on both sides of every bound.
func TestTheBoundsAreKept(t *testing.T) {
	at := func(ratio, equal, worst float64) measured {
		return measured{blocks: 1000, differing: int64(math.Round(1000 * (1 - equal))), recomputed: 1, error: ratio * ratio, worst: worst}
	}
	silenced := at(1, 0.9, 2)
	silenced.lost = 1
	for name, c := range map[string]struct {
		m    measured
		want Class
		why  string
	}{
		"another build":                     {at(1.004, 0.7, 1.5), ClassB, ""},
		"another build, at the bound":       {at(1.019, 0.51, 15.9), ClassB, ""},
		"too far for a build":               {at(1.021, 0.51, 1.5), None, "an error of 1.021 times"},
		"too near for a build":              {at(0.979, 0.51, 1.5), None, "an error of 0.979 times"},
		"too few equal blocks for a build":  {at(1.004, 0.49, 1.5), ClassC, ""},
		"another matrix":                    {at(1.1, 0, 5), ClassC, ""},
		"another matrix, at the high bound": {at(1.349, 0, 5), ClassC, ""},
		"another matrix, at the low bound":  {at(0.701, 0, 5), ClassC, ""},
		"too far for a matrix":              {at(1.351, 0, 5), None, "an error of 1.351 times"},
		"too near for a matrix":             {at(0.699, 0, 5), None, "an error of 0.699 times"},
		"one bad block":                     {at(1.1, 0, 16.1), None, "the error of one block is 16.1 times"},
		"one silent block":                  {silenced, None, "1 blocks whose scales lose the weights"},
	} {
		if class, why := free(c.m); class != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: got class %q, %q; want %q, %q", name, class, why, c.want, c.why)
		}
	}
	for name, c := range map[string]struct {
		typ        gguf.Type
		error, own float64 // over the weights' size, of the block and of the recomputed one
		want       bool
	}{
		"zeros": {gguf.Q4_K, 1, 0.08, true}, "nearly": {gguf.Q4_K, 0.51, 0.08, true}, "as real blocks": {gguf.Q4_K, 0.27, 0.08, false}, "a block that nothing can hold": {gguf.Q4_K, 1, 0.6, false},
		"zeros of a coarse type": {gguf.Q2_K, 1, 0.4, true}, "as real blocks of a coarse type": {gguf.Q3_K, 0.81, 0.17, false}, "zeros of zeros": {gguf.Q4_K, math.NaN(), math.NaN(), false},
	} {
		m := measured{power: 4, error: 4 * c.error * c.error, recomputed: 4 * c.own * c.own}
		if math.IsNaN(c.error) {
			m = measured{}
		}
		if got := lostBlock(c.typ, m); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestBuildsDifferOftenEnough holds the shares by which edits are told from builds against all builds that are reproduced.
func TestBuildsDifferOftenEnough(t *testing.T) {
	arithmetic(t)
	for _, c := range []struct{ file string }{{"Q4_K_M.gguf"}, {"Q5_K_M.gguf"}} {
		for _, v := range []quant.Variant{quant.GCCFMA, quant.ClangFMA} {
			for typ, list := range measuredAs(t, c.file, Options{}, making{build: v}) {
				var all measured
				for _, m := range list {
					all.add(m)
				}
				share := float64(all.differing) / float64(all.blocks)
				t.Logf("%s %s: %d of %d blocks differ from the plain build's, %.5f", v, typ, all.differing, all.blocks, share)
				if all.differing > 0 && edited(typ, all.blocks, all.differing) {
					t.Errorf("%s %s: %d differing blocks in %d are taken for an edit", v, typ, all.differing, all.blocks)
				}
			}
		}
	}
}
