package derive

import (
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// build is a build of ggml's quantizers; see the package quant.
type build string

const plain build = "plain"

// rowWriter quantizes whole rows of width weights; importance has a number for each column, or is nil.
type rowWriter interface {
	Rows(dst []byte, src []float32, width int, importance []float32)
}

type codecWriter struct{ c quant.Codec }

func (w codecWriter) Rows(dst []byte, src []float32, _ int, _ []float32) { w.c.Quantize(dst, src) }

// newWriter gives the quantizer of a type as one build has it.
func newWriter(t gguf.Type, _ build) (rowWriter, error) {
	c, err := quant.Writer(t)
	return codecWriter{c}, err
}

// builds lists the builds whose bits can differ for a type, the plain one first.
func builds(gguf.Type) []build { return []build{plain} }

// codesFollow tells the types whose codes are a function of the source and the stored scales.
func codesFollow(gguf.Type) bool { return false }

// checkCodes counts the blocks whose codes do not follow.
func checkCodes(gguf.Type, []byte, []float32) (bad, first int64) { return 0, -1 }
