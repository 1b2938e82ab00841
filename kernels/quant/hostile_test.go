package quant

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// hostileBlocks makes blocks of a type that no quantizer would: random bytes, after blocks
// that repeat one binary16 number (zeros, infinities, NaNs, subnormals).
func hostileBlocks(c Codec) []byte {
	r := rand.New(rand.NewPCG(uint64(c.Type), 20260801))
	odd := []uint16{0, 0x8000, 1, 0x83FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7D55, 0xFFFF, 0x7F80, 0xFF80, 0x7F7F, 0x0101}
	var out []byte
	for _, h := range odd {
		pair := binary.LittleEndian.AppendUint16(nil, h)
		out = append(out, bytes.Repeat(pair, c.Bytes/2+1)[:c.Bytes]...)
	}
	for range 300 * c.Bytes {
		out = append(out, byte(r.Uint32()))
	}
	return out
}

// floatBytes gives weights as little-endian float32, every NaN as 0x7FC00000:
// which NaN an operation gives is the processor's choice.
func floatBytes(weights []float32) []byte {
	out := make([]byte, 0, 4*len(weights))
	for _, w := range weights {
		bits := math.Float32bits(w)
		if bits&0x7FFFFFFF > 0x7F800000 {
			bits = 0x7FC00000
		}
		out = binary.LittleEndian.AppendUint32(out, bits)
	}
	return out
}

func oneNaN(p []byte) []byte {
	weights := make([]float32, len(p)/4)
	dequantizeF32(weights, p)
	return floatBytes(weights)
}

func dequantized(c Codec, blocks []byte) []float32 {
	weights := make([]float32, len(blocks)/c.Bytes*c.Weights)
	c.Dequantize(weights, blocks)
	return weights
}

func everyType() []gguf.Type {
	var types []gguf.Type
	for t := range codecs {
		types = append(types, t)
	}
	slices.Sort(types)
	return types
}

// byDefinition are the types that ggml's library does not read.
var byDefinition = []gguf.Type{gguf.F32, gguf.Q8_1, gguf.I8, gguf.I16, gguf.I32, gguf.I64, gguf.F64}

// TestHostileBlocks compares with ggml's own C code on blocks that hold anything.
// testdata/hostile.json has the first eight bytes of the SHA-256 of what
// testdata/reference.c gave. To compare every bit with a build of it at hand, set
// WEIGHMASTER_GGML_REFERENCE to the program.
func TestHostileBlocks(t *testing.T) {
	raw, err := os.ReadFile("testdata/hostile.json")
	if err != nil {
		t.Fatal(err)
	}
	var digests map[string]string
	if err := json.Unmarshal(raw, &digests); err != nil {
		t.Fatal(err)
	}
	reference := os.Getenv("WEIGHMASTER_GGML_REFERENCE")
	for _, typ := range everyType() {
		if slices.Contains(byDefinition, typ) {
			continue
		}
		blocks := hostileBlocks(codecs[typ])
		got := floatBytes(dequantized(codecs[typ], blocks))
		if reference != "" {
			cmd := exec.Command(reference, fmt.Sprint(uint32(typ)))
			cmd.Stdin = bytes.NewReader(blocks)
			want, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			sameFloats(t, typ, got, oneNaN(want))
		}
		if sum := sha256.Sum256(got); hex.EncodeToString(sum[:8]) != digests[typ.String()] {
			t.Errorf("%s: got weights with digest %x, want %q", typ, sum[:8], digests[typ.String()])
		}
	}
}

func sameFloats(t *testing.T, typ gguf.Type, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d bytes of weights, the reference gives %d", typ, len(got), len(want))
	}
	for i := 0; i < len(got); i += 4 {
		if g, w := binary.LittleEndian.Uint32(got[i:]), binary.LittleEndian.Uint32(want[i:]); g != w {
			t.Fatalf("%s: weight %d is %v (%#08x), the reference gives %v (%#08x)",
				typ, i/4, math.Float32frombits(g), g, math.Float32frombits(w), w)
		}
	}
}

// TestHostileBlocksAsInPython compares with llama.cpp's Python package at hand.
func TestHostileBlocksAsInPython(t *testing.T) {
	python := os.Getenv("WEIGHMASTER_GGUF_PYTHON")
	if python == "" {
		shared.Missing(t, "set WEIGHMASTER_GGUF_PYTHON to a Python that has the package gguf, see .ci/interop/install-gguf")
	}
	dir, blocks := t.TempDir(), map[gguf.Type][]byte{}
	for _, typ := range everyType() {
		blocks[typ] = hostileBlocks(codecs[typ])
		if err := os.WriteFile(filepath.Join(dir, typ.String()+".blocks"), blocks[typ], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(python, "testdata/dequantize.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var compared []string
	for _, typ := range everyType() {
		want, err := os.ReadFile(filepath.Join(dir, typ.String()+".floats"))
		if err != nil {
			continue // a type that the package does not read
		}
		sameFloats(t, typ, floatBytes(dequantized(codecs[typ], blocks[typ])), oneNaN(want))
		compared = append(compared, typ.String())
	}
	t.Logf("equal in every bit: %s", strings.Join(compared, ", "))
	if len(compared) < 25 {
		t.Errorf("the package read %d types, want at least 25: %s", len(compared), compared)
	}
}

// TestTypesByDefinition checks the types that ggml itself does not read back.
func TestTypesByDefinition(t *testing.T) {
	for _, c := range []struct {
		typ   gguf.Type
		block []byte
		want  []float32
	}{
		{gguf.I8, []byte{0x80}, []float32{-128}},
		{gguf.I16, []byte{0, 0x80}, []float32{-32768}},
		{gguf.I32, binary.LittleEndian.AppendUint32(nil, 1<<24+1), []float32{1 << 24}}, // a tie
		{gguf.I32, []byte{0xFF, 0xFF, 0xFF, 0xFF}, []float32{-1}},
		{gguf.I64, binary.LittleEndian.AppendUint64(nil, 1<<63), []float32{-(1 << 63)}},
		{gguf.I64, binary.LittleEndian.AppendUint64(nil, 1<<40+1<<16+1), []float32{1<<40 + 1<<17}}, // just above a tie
		{gguf.F64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(0.1)), []float32{0.1}},
		{gguf.F64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(-1e300)), []float32{float32(math.Inf(-1))}},
		{gguf.F64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(1e-46)), []float32{0}},
		{gguf.Q8_1, append([]byte{0, 0x38, 0xFF, 0xFF, 0x80, 3}, make([]byte, 30)...), append([]float32{-64, 1.5}, make([]float32, 30)...)},
	} {
		if got := dequantized(codecs[c.typ], c.block); !slices.Equal(got, c.want) {
			t.Errorf("%s %x: got %v, want %v", c.typ, c.block, got, c.want)
		}
	}
}

// FuzzDequantize reads arbitrary bytes as every type: no panic, the right
// length, and blocks do not influence one another.
func FuzzDequantize(f *testing.F) {
	for _, typ := range everyType() {
		f.Add(uint8(typ), hostileBlocks(codecs[typ])[:4*codecs[typ].Bytes])
		f.Add(uint8(typ), bytes.Repeat([]byte{0xFF}, codecs[typ].Bytes))
	}
	f.Fuzz(func(t *testing.T, typ uint8, data []byte) {
		c, err := For(gguf.Type(typ))
		if err != nil {
			return
		}
		blocks := data[:len(data)/c.Bytes*c.Bytes]
		all := floatBytes(dequantized(c, blocks))
		for n := 0; len(blocks) > 0 && n < 8; n++ {
			one := floatBytes(dequantized(c, blocks[:c.Bytes:c.Bytes]))
			if !bytes.Equal(one, all[:4*c.Weights]) {
				t.Fatalf("%s: a block alone gives other weights than among its neighbours", c.Type)
			}
			blocks, all = blocks[c.Bytes:], all[4*c.Weights:]
		}
	})
}

func BenchmarkDequantize(b *testing.B) {
	const n = 1 << 18
	r := rand.New(rand.NewPCG(7, 8))
	back := make([]float32, n)
	for _, typ := range everyType() {
		c := codecs[typ]
		src := make([]byte, c.Size(n))
		for i := range src {
			src[i] = byte(r.Uint32()) & 0x3B // small finite scales
		}
		b.Run(typ.String(), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				c.Dequantize(back, src)
			}
			b.ReportMetric(float64(b.N)*n/1e6/b.Elapsed().Seconds(), "Mweights/s")
		})
	}
}
