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
	// recomputed one's, as a part of it. Real builds stay within 0.5 percent.
	buildError = 0.02
	// buildEqual is the least share of blocks that another build's tensor has in
	// common with the recomputed one, byte for byte. Real builds have 65 percent and more.
	buildEqual = 0.5
	// matrixLow and matrixHigh bound the error of a tensor that was made with a matrix that
	// is not at hand, over that of one made without. Real matrices give 0.97 to 1.15, and
	// down to 0.78 for Q2_K, whose search without one is a coarser procedure.
	matrixLow, matrixHigh = 0.7, 1.35
	// blockWorst is how many times the recomputed block's error a single block may have. Real ones reach 7.
	blockWorst = 16
	// lostError is the relative error of a single block from which it has lost weights that the recomputed
	// block keeps: one of zeros has 1, and the recomputed one at most kept. Real blocks reach 0.27, and 0.81 of
	// the coarse types Q2_K and Q3_K, for which lostCoarse stands.
	lostError, lostCoarse, kept = 0.5, 0.9, 0.5
	// unrelated is the relative error from which weights say nothing about the source's.
	unrelated = 1.0
)

// lostBlock tells that one block's scales silence it, in whole or nearly: within
// the bounds of a whole tensor a few such blocks would not show.
func lostBlock(t gguf.Type, m measured) bool {
	least := lostError
	if t == gguf.Q2_K || t == gguf.Q3_K {
		least = lostCoarse
	}
	return m.power > 0 && m.error >= least*least*m.power && m.recomputed <= kept*kept*m.power
}

// leastDiffering is the smallest share of blocks in which two real builds were
// seen to differ, of those that differ at all. Ten times fewer are not a build but an edit.
var leastDiffering = map[gguf.Type]float64{
	gguf.Q4_K: 0.008, gguf.Q5_K: 0.00018, gguf.Q6_K: 0.0009,
}

// edited tells that so few of a type's blocks differ that no build explains it.
func edited(t gguf.Type, blocks, differing int64) bool {
	least, differ := leastDiffering[t]
	switch {
	case !differ && builds(t) < 2: // all builds agree, so that what differs is an edit or another matrix
		return float64(differing) < (1-buildEqual)*float64(blocks)
	case !differ:
		least = 0.00018
	}
	expected := least * float64(blocks)
	return expected >= 20 && float64(differing) < expected/10
}

// free tells which class the bounds give to a tensor whose codes follow, and if none, why.
func free(m measured) (Class, string) {
	ratio := m.ratio()
	switch {
	case m.lost > 0:
		return None, fmt.Sprintf("%d blocks whose scales lose the weights: errors of %g of their size (Q2_K and Q3_K: %g) and more, where the recomputed block keeps them to %g", m.lost, lostError, lostCoarse, kept)
	case m.worst > blockWorst:
		return None, fmt.Sprintf("the error of one block is %.3g times that of the recomputed one, bound %d", m.worst, blockWorst)
	case m.equal() >= buildEqual && ratio >= 1-buildError && ratio <= 1+buildError:
		return ClassB, ""
	case m.equal() < buildEqual && ratio >= matrixLow && ratio <= matrixHigh:
		return ClassC, ""
	}
	return None, fmt.Sprintf("an error of %.4g times that of the recomputed tensor, %.3g of whose blocks are the same", ratio, m.equal())
}
