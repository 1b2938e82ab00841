package derive

import (
	"fmt"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// The bounds on what is free in a tensor that no known build makes bit for bit.
// They are calibrated on files of real builds against each other, see
// bounds_test.go, which fails when a real file comes near one.
const (
	// buildError is how far the error of another build's tensor may lie from the
	// recomputed one's, as a part of it.
	buildError = 0.03
	// buildEqual is the least share of blocks that another build's tensor has in
	// common with the recomputed one, byte for byte.
	buildEqual = 0.5
	// matrixError is the same as buildError for a tensor made with a matrix that is
	// not at hand, beside one made without. Such a matrix raises the error.
	matrixLow, matrixHigh = 0.97, 1.35
	// blockWorst is how many times the recomputed block's error a single block may have.
	blockWorst = 16
	// unrelated is the relative error from which weights say nothing about the source's.
	unrelated = 1.0
)

// leastDiffering is the smallest share of blocks in which two real builds were
// seen to differ where they differ at all. Ten times fewer are not a build but an edit.
var leastDiffering = map[gguf.Type]float64{}

// edited tells that so few blocks differ that no build explains it.
func edited(t gguf.Type, m measured) bool {
	expected := leastDiffering[t] * float64(m.blocks)
	if leastDiffering[t] == 0 { // not seen to differ at all
		return m.equal() > 0.999
	}
	return expected >= 20 && float64(m.differing) < expected/10
}

// free tells which class the bounds give to a tensor whose codes follow, and if none, why.
func free(m measured, matrixMissing bool) (Class, string) {
	ratio := m.ratio()
	switch {
	case m.worst > blockWorst:
		return None, fmt.Sprintf("the error of one block is %.3g times that of the recomputed one, bound %d", m.worst, blockWorst)
	case m.equal() >= buildEqual && ratio >= 1-buildError && ratio <= 1+buildError:
		return ClassB, ""
	case matrixMissing && ratio >= matrixLow && ratio <= matrixHigh:
		return ClassC, ""
	}
	return None, fmt.Sprintf("the error is %.4g times that of the recomputed tensor and %.3g of its blocks are the same", ratio, m.equal())
}
