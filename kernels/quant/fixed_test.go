package quant

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// fixedTypes are written by a fixed rule, without a search.
var fixedTypes = []gguf.Type{gguf.Q8_0, gguf.MXFP4, gguf.NVFP4, gguf.TQ1_0, gguf.TQ2_0, gguf.Q1_0, gguf.Q2_0}

// hostileWeights makes weights that reach every branch of the rules: random bits,
// magnitudes from the smallest to the largest, values at and beside ties, powers of two and
// their predecessors, infinities, NaNs, zeros of both signs. The number divides by every block.
func hostileWeights() []float32 {
	r := rand.New(rand.NewPCG(11, 20260801))
	spread := func() float64 { return r.Float64() + r.Float64() - 1 }
	var out []float32
	block := func(fill func(i int) float32) {
		for i := range 256 {
			out = append(out, fill(i))
		}
	}
	for range 64 {
		block(func(int) float32 { return math.Float32frombits(r.Uint32()) })
	}
	for e := -150; e <= 128; e++ {
		scale := math.Ldexp(1, e)
		block(func(int) float32 { return float32(spread() * scale) })
		block(func(int) float32 { return float32((r.Float64()*2 - 1) * scale) })
		// Multiples of an eighth of the scale below it, and the scale itself or one of
		// its predecessors as the largest.
		top := math.Float32frombits(math.Float32bits(float32(scale)) - uint32(e&63))
		block(func(i int) float32 {
			if i%16 == 5 {
				return top
			}
			return float32(float64(r.IntN(193)-96) / 96 * scale)
		})
		block(func(i int) float32 { return float32(float64(i%25-12) / 2 * scale) })
	}
	specials := []float32{
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 0, math.Float32frombits(1 << 31), math.MaxFloat32,
		-math.MaxFloat32, math.SmallestNonzeroFloat32, 1, -0.5, 3e9, -3e19, 448, 256 * 6, 250 * 6, 1e-38, 0x1p-126, -0x1p-127,
	}
	for range 128 {
		some := specials[r.IntN(len(specials)):]
		odds := 1 + r.IntN(100)
		block(func(int) float32 {
			if r.IntN(100) < odds {
				return some[r.IntN(len(some))]
			}
			return float32(spread())
		})
	}
	for _, s := range specials {
		block(func(int) float32 { return s })
	}
	return out
}

// TestFixedRulesEqualGGML compares with ggml's own C code, on a plain x86-64
// build. testdata/fixed.json has the first eight bytes of the SHA-256 of the blocks that
// testdata/reference.c gave for hostileWeights. To compare every block with a
// build of it at hand, set WEIGHMASTER_GGML_REFERENCE to the program.
func TestFixedRulesEqualGGML(t *testing.T) {
	raw, err := os.ReadFile("testdata/fixed.json")
	if err != nil {
		t.Fatal(err)
	}
	var digests map[string]string
	if err := json.Unmarshal(raw, &digests); err != nil {
		t.Fatal(err)
	}
	src := hostileWeights()
	in := make([]byte, 4*len(src))
	quantizeF32(in, src)
	for _, typ := range fixedTypes {
		c := codecs[typ]
		got := make([]byte, c.Size(int64(len(src))))
		c.Quantize(got, src)
		if reference := os.Getenv("WEIGHMASTER_GGML_REFERENCE"); reference != "" {
			cmd := exec.Command(reference, fmt.Sprint(uint32(typ)), "quantize")
			cmd.Stdin = bytes.NewReader(in)
			want, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(got); i += c.Bytes {
				if g, w := got[i:i+c.Bytes], want[i:i+c.Bytes]; !bytes.Equal(g, w) {
					t.Errorf("%s, block %d: got %x, the reference gives %x\nof %v", typ, i/c.Bytes, g, w, src[i/c.Bytes*c.Weights:][:c.Weights])
					break
				}
			}
		}
		if sum := sha256.Sum256(got); hex.EncodeToString(sum[:8]) != digests[typ.String()] {
			t.Errorf("%s: got blocks with digest %x, want %q", typ, sum[:8], digests[typ.String()])
		}
	}
}

// TestFixedRulesEqualLlamaQuantize compares with tensors that llama-quantize
// made of BF16.gguf. testdata/stored.json has the first eight bytes of the SHA-256 of each
// tensor's bytes, of files made with, for each TYPE,
//
//	llama-quantize --pure --tensor-type 'blk\.0\.ffn_gate=q8_0' --tensor-type weight=TYPE \
//	  --output-tensor-type TYPE --token-embedding-type TYPE BF16.gguf TYPE.gguf Q8_0
//
// and printed by dequantize.py --stored. The tensor left out has rows near 1e-38: for
// them ggml's MXFP4 scale wraps around, and llama-quantize refuses its own result.
func TestFixedRulesEqualLlamaQuantize(t *testing.T) {
	raw, err := os.ReadFile("testdata/stored.json")
	if err != nil {
		t.Fatal(err)
	}
	var files map[string]map[string]string
	if err := json.Unmarshal(raw, &files); err != nil {
		t.Fatal(err)
	}
	source := model(t, "llama-grouped", "BF16.gguf")
	for _, typ := range fixedTypes {
		digests := files[strings.ToLower(typ.String())+".gguf"]
		if len(digests) == 0 {
			t.Errorf("%s: no digests in testdata/stored.json", typ)
		}
		q, err := NewQuantizer(typ, Plain)
		if err != nil {
			t.Fatal(err)
		}
		for _, tensor := range source.Tensors {
			if tensor.Type != gguf.BF16 || tensor.Name == "blk.0.ffn_gate.weight" {
				continue
			}
			got := make([]byte, codecs[typ].Size(int64(tensor.Elements())))
			q.Rows(got, floats(t, source, tensor.Name), int(tensor.Dims[0]), nil)
			if sum := sha256.Sum256(got); hex.EncodeToString(sum[:8]) != digests[tensor.Name] {
				t.Errorf("%s as %s: got bytes with digest %x, want %s", tensor.Name, typ, sum[:8], digests[tensor.Name])
			}
		}
	}
}

func BenchmarkFixedRules(b *testing.B) {
	src := make([]float32, 1<<18)
	r := rand.New(rand.NewPCG(9, 10))
	for i := range src {
		src[i] = float32(r.NormFloat64())
	}
	for _, typ := range fixedTypes {
		c := codecs[typ]
		dst := make([]byte, c.Size(int64(len(src))))
		b.Run(typ.String(), func(b *testing.B) {
			b.SetBytes(int64(2 * len(src))) // of a BF16 source
			for b.Loop() {
				c.Quantize(dst, src)
			}
			b.ReportMetric(float64(b.N)*float64(len(src))/1e6/b.Elapsed().Seconds(), "Mweights/s")
		})
	}
}
