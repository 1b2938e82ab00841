package compressed

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/number"
)

func configOf(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(fixtures, name, configName))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// hidden is a real folder in which matrices of fp8 are silenced: a scale so large that every code that follows from it is zero.
func hidden(t *testing.T, name string, rows func(row int) bool) (Result, string) {
	t.Helper()
	all := tensors(t, name)
	for tensor, scale := range all {
		base, ok := strings.CutSuffix(tensor, ".weight_scale")
		if !ok {
			continue
		}
		codes := all[base+".weight"]
		wide := number.F32
		if scale.DType == number.BF16.DType {
			wide = number.BF16
		}
		count, width := len(scale.Data)/wide.Bytes, int(codes.Shape[1])
		for i := range count {
			if rows != nil && !rows(i) {
				continue
			}
			copy(scale.Data[i*wide.Bytes:], wide.Append(nil, 1e30))
			if rows != nil {
				clear(codes.Data[i*width : (i+1)*width])
			}
		}
		if rows == nil {
			clear(codes.Data)
		}
	}
	r, err := Compare(context.Background(), dir("source"), open(t, store(all, configOf(t, name))))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range r.Findings {
		found = append(found, f.String())
	}
	return r, strings.Join(found, "\n")
}

// TestScalesThatSilenceAMatrixAreRefused: every code follows from them.
func TestScalesThatSilenceAMatrixAreRefused(t *testing.T) {
	for _, name := range []string{"ct-fp8", "ct-fp8-channel", "ct-fp8-block", "modelopt-fp8-block"} {
		if _, found := hidden(t, name, nil); !strings.Contains(found, "a relative error of 1: codes that follow from scales that do not fit the weights") {
			t.Errorf("%s: got %q, want the scales refused", name, found)
		}
	}
}

// TestAScaleThatSilencesARowIsCounted: such a matrix does not follow, whatever its error as a whole.
func TestAScaleThatSilencesARowIsCounted(t *testing.T) {
	r, found := hidden(t, "ct-fp8-channel", func(row int) bool { return row == 5 })
	for _, one := range r.Tensors {
		if one.Outcome == Bounded && (one.Loose == 0 || one.Follows()) {
			t.Errorf("got %+v, %s; want a loose scale and no codes that follow", one, found)
		}
	}
}

// TestRealScalesAreNotLoose, so that codes that follow from them count.
func TestRealScalesAreNotLoose(t *testing.T) {
	for _, name := range []string{"ct-fp8", "ct-fp8-channel", "ct-fp8-block", "ct-nvfp4", "modelopt-fp8", "modelopt-fp8-channel", "modelopt-fp8-block", "modelopt-nvfp4"} {
		r, err := Compare(context.Background(), dir("source"), open(t, dir(name)))
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range r.Tensors {
			if one.Outcome == Bounded && (one.Loose != 0 || one.Saturated != 0 || one.RMS > one.Format.usual()) {
				t.Errorf("%s: %+v, want no loose or short scale and the usual error", name, one)
			}
		}
	}
}

// TestAnotherBlockIsAnotherModel: the same codes and scales under blocks of another size are other weights.
func TestAnotherBlockIsAnotherModel(t *testing.T) {
	const name = "ct-fp8-block"
	edited := strings.ReplaceAll(configOf(t, name), "128,\n", "144,\n")
	if edited == configOf(t, name) {
		t.Fatal("the configuration has no block of 128")
	}
	s := same(t, dir(name), store(tensors(t, name), edited))
	if s.Relation != Different || len(s.Findings) == 0 || !strings.Contains(s.Findings[0].String(), "blocks of 144 by 128") {
		t.Errorf("got %s, %v, want other weights for other blocks", s.Relation, s.Findings)
	}
}
