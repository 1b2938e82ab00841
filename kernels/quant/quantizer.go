package quant

import (
	"encoding/binary"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// Variant names a build of ggml's quantizers. Builds differ in which products
// the compiler fuses into the sum that follows (no rounding between), which can turn
// the choice between two nearly equal scales.
type Variant string

// The builds that are reproduced, bit for bit as gcc 12.2 and clang 14.0 make them (testdata/builds.sh);
// other versions may fuse other sums. On weights of a BF16 or F16 source GCCFMAARM64 differs
// from GCCFMA only where a block's largest weight is below about 1e-37: C leaves that conversion
// undefined, and the processors differ. Q8_0 is the same on every build apart from such blocks, where x86-64 is followed.
const (
	Plain       Variant = "plain"         // no fused multiply-add: x86-64 as CMake builds it
	GCCFMA      Variant = "gcc-fma"       // gcc -O3 -march=x86-64-v3 and the like: x86-64, tuned for no Zen
	GCCFMAZen   Variant = "gcc-fma-zen"   // gcc -O3 -march=native on AMD Zen, whose tuning fuses fewer sums
	GCCFMAARM64 Variant = "gcc-fma-arm64" // gcc -O3 for arm64
	ClangFMA    Variant = "clang-fma"     // clang -O3 for arm64
	ClangFMAX86 Variant = "clang-fma-x86" // clang -O3 -march=x86-64-v3
)

var allVariants = []Variant{Plain, GCCFMA, GCCFMAZen, GCCFMAARM64, ClangFMA, ClangFMAX86}

// rowsFunc quantizes whole rows; see [Quantizer.Rows].
type rowsFunc func(dst []byte, src []float32, width int, importance []float32)

var searches = map[gguf.Type]map[Variant]rowsFunc{
	gguf.Q4_0: {
		Plain: rowsQ4_0[plainBuild], GCCFMA: rowsQ4_0[gccBuild], GCCFMAZen: rowsQ4_0[gccZenBuild], GCCFMAARM64: rowsQ4_0[gccARMBuild],
		ClangFMA: rowsQ4_0[clangBuild], ClangFMAX86: rowsQ4_0[clangX86Build],
	},
	gguf.Q4_1: {
		Plain: rowsQ4_1[plainBuild], GCCFMA: rowsQ4_1[gccBuild], GCCFMAZen: rowsQ4_1[gccZenBuild], GCCFMAARM64: rowsQ4_1[gccARMBuild],
		ClangFMA: rowsQ4_1[clangBuild], ClangFMAX86: rowsQ4_1[clangX86Build],
	},
	gguf.Q5_0: {
		Plain: rowsQ5_0[plainBuild], GCCFMA: rowsQ5_0[gccBuild], GCCFMAZen: rowsQ5_0[gccZenBuild], GCCFMAARM64: rowsQ5_0[gccARMBuild],
		ClangFMA: rowsQ5_0[clangBuild], ClangFMAX86: rowsQ5_0[clangX86Build],
	},
	gguf.Q5_1: {
		Plain: rowsQ5_1[plainBuild], GCCFMA: rowsQ5_1[gccBuild], GCCFMAZen: rowsQ5_1[gccZenBuild], GCCFMAARM64: rowsQ5_1[gccARMBuild],
		ClangFMA: rowsQ5_1[clangBuild], ClangFMAX86: rowsQ5_1[clangX86Build],
	},
	gguf.Q2_K: {
		Plain: rowsQ2K[plainBuild], GCCFMA: rowsQ2K[gccBuild], GCCFMAZen: rowsQ2K[gccZenBuild], GCCFMAARM64: rowsQ2K[gccARMBuild],
		ClangFMA: rowsQ2K[clangBuild], ClangFMAX86: rowsQ2K[clangX86Build],
	},
	gguf.Q3_K: {
		Plain: rowsQ3K[plainBuild], GCCFMA: rowsQ3K[gccBuild], GCCFMAZen: rowsQ3K[gccZenBuild], GCCFMAARM64: rowsQ3K[gccARMBuild],
		ClangFMA: rowsQ3K[clangBuild], ClangFMAX86: rowsQ3K[clangX86Build],
	},
	gguf.Q4_K: {
		Plain: rowsQ4K[plainBuild], GCCFMA: rowsQ4K[gccBuild], GCCFMAZen: rowsQ4K[gccZenBuild], GCCFMAARM64: rowsQ4K[gccARMBuild],
		ClangFMA: rowsQ4K[clangBuild], ClangFMAX86: rowsQ4K[clangX86Build],
	},
	gguf.Q5_K: {
		Plain: rowsQ5K[plainBuild], GCCFMA: rowsQ5K[gccBuild], GCCFMAZen: rowsQ5K[gccZenBuild], GCCFMAARM64: rowsQ5K[gccARMBuild],
		ClangFMA: rowsQ5K[clangBuild], ClangFMAX86: rowsQ5K[clangX86Build],
	},
	gguf.Q6_K: {
		Plain: rowsQ6K[plainBuild], GCCFMA: rowsQ6K[gccBuild], GCCFMAZen: rowsQ6K[gccZenBuild], GCCFMAARM64: rowsQ6K[gccARMBuild],
		ClangFMA: rowsQ6K[clangBuild], ClangFMAX86: rowsQ6K[clangX86Build],
	},
	gguf.IQ4_NL: {
		Plain: rowsIQ4NL[plainBuild], GCCFMA: rowsIQ4NL[gccBuild], GCCFMAZen: rowsIQ4NL[gccZenBuild], GCCFMAARM64: rowsIQ4NL[gccARMBuild],
		ClangFMA: rowsIQ4NL[clangBuild], ClangFMAX86: rowsIQ4NL[clangX86Build],
	},
	gguf.IQ4_XS: {
		Plain: rowsIQ4XS[plainBuild], GCCFMA: rowsIQ4XS[gccBuild], GCCFMAZen: rowsIQ4XS[gccZenBuild], GCCFMAARM64: rowsIQ4XS[gccARMBuild],
		ClangFMA: rowsIQ4XS[clangBuild], ClangFMAX86: rowsIQ4XS[clangX86Build],
	},
}

// Variants lists the builds whose bits can differ for a type and that are
// reproduced, Plain first; nil where no search of the type is. A type on which all
// builds agree has only Plain.
func Variants(t gguf.Type) []Variant {
	if c, ok := codecs[t]; ok && c.Quantize != nil {
		return []Variant{Plain}
	}
	var list []Variant
	for _, v := range allVariants {
		if searches[t][v] != nil {
			list = append(list, v)
		}
	}
	return list
}

// Recomputed says whether the blocks of a type can be recomputed from source weights.
func Recomputed(t gguf.Type) bool { return len(Variants(t)) > 0 }

// Quantizer makes the blocks of one type as one build of ggml does.
type Quantizer struct {
	Type    gguf.Type
	Variant Variant
	rows    rowsFunc
}

// NewQuantizer returns the quantizer of a type as a build computes it, or a
// [NoCodecError]. For a type on which all builds agree any variant gives the same.
func NewQuantizer(t gguf.Type, v Variant) (Quantizer, error) {
	c, err := For(t)
	if err != nil {
		return Quantizer{}, err
	}
	if c.Quantize != nil {
		rows := func(dst []byte, src []float32, _ int, _ []float32) { c.Quantize(dst, src) }
		return Quantizer{t, v, rows}, nil
	}
	rows := searches[t][v]
	if rows == nil {
		return Quantizer{}, &NoCodecError{Type: t, Writing: true}
	}
	return Quantizer{t, v, rows}, nil
}

// Rows quantizes whole rows of width weights into dst, which has the bytes of
// their blocks. width is a multiple of the block and len(src) of width. importance
// has width numbers, one for each column, or is nil: then the search runs without a matrix. With other
// lengths it panics, as a slice expression does.
func (q Quantizer) Rows(dst []byte, src []float32, width int, importance []float32) {
	q.rows(dst, src, width, importance)
}

// column gives the importance of n columns from at on, nil without a matrix.
func column(importance []float32, at, n int) []float32 {
	if importance == nil {
		return nil
	}
	return importance[at : at+n]
}

// putHalf stores a number as binary16.
func putHalf(p []byte, f float32) { binary.LittleEndian.PutUint16(p, FloatToHalf(f)) }
