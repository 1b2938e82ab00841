package derive

import (
	"fmt"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
)

// computedFrom stands for the source's type of a tensor that no source holds; scalesChosen begins what is unproven of a folder's matrix.
const (
	computedFrom = "computed from config.json"
	scalesChosen = "How the scales were chosen"
)

// unproven says what remains unproven of one tensor, in one sentence.
func (r *result) unproven(t TensorRelation) string {
	switch {
	case r.state == differs || r.state == misplaced:
		return "That this tensor follows from the source: it does not."
	case r.state == reordered:
		return "Nothing about the rows: every encoded one is the source's, at another place."
	case t.Class == ClassA && (r.pair == nil || r.pair.same() || !r.pair.dst.typ.Quantized()):
		return "Nothing: every bit follows from the source."
	case t.Class == ClassA:
		return "Nothing about the bytes; only that a source whose weights round to the same codes and scales would give them too."
	case t.Class == ClassB && r.pair == nil:
		return fmt.Sprintf("The last bits: each number lies within %d units in the last place of the one that config.json gives.", ropeTolerance)
	case t.Class == ClassB:
		return fmt.Sprintf("Which build chose the scales of %d of %d blocks; its codes are exact, its error is bounded as a whole to %g percent of the recomputed one's.", t.Differing, t.Blocks, 100*buildError)
	case t.Class == ClassC && t.Matrix:
		return "The scales: they do not fit the importance matrix at hand; all codes are exact; " + freeBounds
	case t.Class == ClassC:
		return "The scales: they do not come from a search without a matrix, and the importance matrix is not at hand; all codes are exact; " + freeBounds
	case t.Class == ClassD:
		return "Everything but the error: " + r.reason() + "."
	}
	return "Everything: the type of this tensor cannot be read here."
}

// freeBounds states what bounds the scales that a matrix chose.
var freeBounds = fmt.Sprintf("the error as a whole is %g to %g times that of a search without a matrix, of no block more than %d times.", matrixLow, matrixHigh, blockWorst)

func (r *result) reason() string {
	if r.why != "" {
		return r.why
	}
	return "its codes cannot be checked against its scales"
}

// unprovenFile says what remains unproven of the whole file, in one sentence.
func unprovenFile(r Relation) string {
	said := unprovenWeights(r)
	switch r.MetadataVerdict() {
	case kernels.Failed:
		return strings.TrimSuffix(said, ".") + "; what stands beside the weights does not follow from the source."
	case kernels.Undecided:
		for _, f := range r.Metadata {
			if f.Check == checkScales {
				return strings.TrimSuffix(said, ".") + "; and the scales of activations or of the KV cache, which no weight determines."
			}
		}
		return strings.TrimSuffix(said, ".") + "; and the vocabulary, which could not be derived from the source."
	}
	return said
}

// unprovenWeights is unprovenFile for the tensors alone.
func unprovenWeights(r Relation) string {
	counts := map[Class]int{}
	chosen, computed := 0, 0
	for _, t := range r.Tensors {
		counts[t.Class]++
		switch {
		case t.Class != ClassB:
		case t.SourceType == computedFrom:
			computed++
		case strings.HasPrefix(t.Unproven, scalesChosen):
			chosen++
		}
	}
	n := len(r.Tensors)
	switch {
	case r.Class == ClassB && chosen > 0:
		return fmt.Sprintf("How the scales of %d of %d tensors were chosen, or ties between codes: every code follows from its scale, which is no more than such weights need.", chosen, n)
	case r.Class == ClassB && computed > 0 && computed == counts[ClassB]:
		return fmt.Sprintf("The last bits of the RoPE factors, which lie within %d units in the last place of those that config.json gives: every other bit follows from the source.", ropeTolerance)
	case r.Kind == NotDerived:
		return "That the target follows from the source: it does not."
	case r.Kind == RowsMoved:
		return "Nothing about the rows; that a reader of the target expects them in this order is not looked at."
	case r.Class == ClassA && r.Kind == Quantization:
		return "Nothing about the tensors' bytes; only that a source whose weights round to the same codes and scales would give them too."
	case r.Class == ClassA:
		return "Nothing about the tensors: every bit follows from the source."
	case r.Class == ClassB && counts[ClassB] == 0:
		return "That one build made the file: every tensor is exact, but no single build makes them all."
	case r.Class == ClassB:
		return fmt.Sprintf("Which build chose some scales of %d of %d tensors: codes are exact in every block, the errors are bounded as a whole to %g percent of the recomputed ones.", counts[ClassB], n, 100*buildError)
	case r.Class == ClassC && r.Matrix != nil && r.Matrix.Digest != "":
		return fmt.Sprintf("The scales of %d of %d tensors: they do not fit the importance matrix at hand; codes are exact in every block.", counts[ClassC], n)
	case r.Class == ClassC:
		return fmt.Sprintf("The scales of %d of %d tensors: the importance matrix is not at hand; codes are exact in every block.", counts[ClassC], n)
	case r.Class == ClassD:
		return fmt.Sprintf("Everything but the error of %d of %d tensors, whose codes cannot be checked.", counts[ClassD], n)
	}
	return "Everything about the tensors that could be neither recomputed nor read."
}
