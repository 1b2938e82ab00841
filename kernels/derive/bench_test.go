package derive

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// BenchmarkTensors reports bytes of source; controls and metadata are not in it.
func BenchmarkTensors(b *testing.B) {
	for _, c := range []struct{ name, file string }{
		{"BF16", "BF16.gguf"}, {"Q8_0", "Q8_0.gguf"}, {"Q6_K", "Q6_K.gguf"}, {"Q5_K_M", "Q5_K_M.gguf"}, {"Q4_K_M", "Q4_K_M.gguf"}, {"IQ4_XS", "IQ4_XS.gguf"},
	} {
		b.Run(c.name, func(b *testing.B) {
			src, err := open(Input{Snapshot: os.DirFS(grouped(b, "hf"))})
			if err != nil {
				b.Fatal(err)
			}
			defer src.close()
			dst, err := openFile(readFile(b, grouped(b, c.file)))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(src.size())
			for b.Loop() {
				inv, err := compareTensors(b.Context(), src, dst, Options{})
				if err != nil || len(inv.findings) > 0 {
					b.Fatal(err, inv.findings)
				}
			}
		})
	}
}

// BenchmarkLarge compares one large tensor in each type, beside bytes.Equal over the same reads.
func BenchmarkLarge(b *testing.B) {
	const rows, width = 4096, 4096
	r := rand.New(rand.NewPCG(1, 2))
	raw := make([]byte, 2*rows*width)
	for i := 0; i < len(raw); i += 2 {
		w := quant.FloatToBF16(float32(r.NormFloat64() * 0.02))
		raw[i], raw[i+1] = byte(w), byte(w>>8)
	}
	source, err := newTensor("blk.0.ffn_up.weight", []uint64{width, rows}, gguf.BF16)
	if err != nil {
		b.Fatal(err)
	}
	source.rows.R = bytes.NewReader(raw)
	b.Run("cmp", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		x, y := make([]byte, 2*chunk), make([]byte, 2*chunk)
		other := bytes.Clone(raw)
		for b.Loop() {
			p, q := bytes.NewReader(raw), bytes.NewReader(other)
			for range len(raw) / len(x) {
				_, _ = io.ReadFull(p, x)
				_, _ = io.ReadFull(q, y)
				if !bytes.Equal(x, y) {
					b.Fatal("they differ")
				}
			}
		}
	})
	for _, typ := range []gguf.Type{gguf.BF16, gguf.Q8_0, gguf.Q6_K, gguf.Q4_K} {
		product, err := newTensor(source.name, source.dims, typ)
		if err != nil {
			b.Fatal(err)
		}
		p := &pair{src: &source, dst: &product}
		body, err := p.product(rows * width)
		if err != nil {
			b.Fatal(err)
		}
		product.rows.R = bytes.NewReader(body)
		b.Run(typ.String(), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				diffs, err := compareAll(b.Context(), []*pair{p}, []making{plainly})
				if err != nil || diffs[0].blocks > 0 {
					b.Fatal(err, diffs)
				}
			}
		})
		if !quant.CodesFollow(typ) {
			continue
		}
		b.Run("codes/"+typ.String(), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if bad, err := p.codesDiffering(b.Context(), plainly, false); err != nil || bad > 0 {
					b.Fatal(err, bad)
				}
			}
		})
		b.Run("measure/"+typ.String(), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, err := measureAll(b.Context(), []*pair{p}, []making{plainly}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCheck is the whole check of a small model: mostly its fixed costs.
func BenchmarkCheck(b *testing.B) {
	product := readFile(b, grouped(b, "BF16.gguf"))
	b.SetBytes(product.Size)
	for b.Loop() {
		if _, err := Check(b.Context(), Input{Snapshot: os.DirFS(grouped(b, "hf"))}, product, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkErrors dequantizes a large tensor of every type and measures its error, in bytes of BF16 source.
// The products' blocks are one byte throughout, so that all numbers in them are finite.
func BenchmarkErrors(b *testing.B) {
	const rows, width = 1024, 4096
	raw := bytes.Repeat([]byte{0x12, 0x3c}, rows*width)
	source, err := newTensor("blk.0.ffn_up.weight", []uint64{width, rows}, gguf.BF16)
	if err != nil {
		b.Fatal(err)
	}
	source.rows.R = bytes.NewReader(raw)
	for typ := range gguf.Q2_0 + 1 {
		if !typ.Quantized() {
			continue
		}
		product, err := newTensor(source.name, source.dims, typ)
		if err != nil {
			b.Fatal(err)
		}
		product.rows.R = bytes.NewReader(bytes.Repeat([]byte{0x2c}, int(product.rows.Codec.Size(rows*width))))
		b.Run(typ.String(), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, err := errorOnly(b.Context(), &source, &product); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
