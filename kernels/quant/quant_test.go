package quant

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// halfValue gives a finite binary16 number by its definition.
func halfValue(h uint16) float64 {
	exponent, mantissa := int(h>>10&0x1F), float64(h&0x3FF)
	v := math.Ldexp(1+mantissa/1024, exponent-15)
	if exponent == 0 {
		v = math.Ldexp(mantissa, -24)
	}
	if h&0x8000 != 0 {
		v = -v
	}
	return v
}

// TestHalvesConvertFourByFour compares the wide path with the single one, on every number
// in every place.
func TestHalvesConvertFourByFour(t *testing.T) {
	var src []byte
	for i := range 1 << 16 {
		for place := range 4 {
			for lane := range 4 {
				h := uint16(0x3C00)
				if lane == place {
					h = uint16(i)
				}
				src = binary.LittleEndian.AppendUint16(src, h)
			}
		}
	}
	dst := make([]float32, len(src)/2)
	dequantizeF16(dst, src)
	for i, got := range dst {
		h := binary.LittleEndian.Uint16(src[2*i:])
		if want := HalfToFloat(h); math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("%#04x in lane %d: got %v, want %v", h, i%4, got, want)
		}
	}
}

func TestEveryHalfConvertsExactlyAndBack(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := HalfToFloat(h)
		switch {
		case h&0x7C00 == 0x7C00 && h&0x3FF != 0:
			if !math.IsNaN(float64(f)) || math.Float32bits(f)&0x400000 == 0 {
				t.Fatalf("%#04x: got %v (%#x), want a quiet NaN", h, f, math.Float32bits(f))
			}
			if got := FloatToHalf(f); got != h&0x8000|0x7E00 {
				t.Fatalf("NaN %#04x: back as %#04x, want its sign with 0x7E00", h, got)
			}
			continue
		case h&0x7C00 == 0x7C00:
			if !math.IsInf(float64(f), 0) {
				t.Fatalf("%#04x: got %v, want an infinity", h, f)
			}
		default:
			if float64(f) != halfValue(h) || math.Signbit(float64(f)) != (h&0x8000 != 0) {
				t.Fatalf("%#04x: got %v, want %v", h, f, halfValue(h))
			}
		}
		if got := FloatToHalf(f); got != h {
			t.Fatalf("%#04x: back as %#04x", h, got)
		}
	}
}

// TestFloatToHalfRoundsToNearestEven checks every gap between two neighbours: just
// below the middle, the middle, just above.
func TestFloatToHalfRoundsToNearestEven(t *testing.T) {
	for h := uint16(0); h < 0x7C00; h++ {
		middle := float32((halfValue(h) + halfValue2(h+1)) / 2) // 12 bits: exact
		even := h + h&1
		for _, c := range []struct {
			f    float32
			want uint16
		}{
			{math.Nextafter32(middle, 0), h}, {middle, even}, {math.Nextafter32(middle, math.MaxFloat32), h + 1},
		} {
			if got := FloatToHalf(c.f); got != c.want {
				t.Fatalf("%v between %#04x and its successor: got %#04x, want %#04x", c.f, h, got, c.want)
			}
			if got := FloatToHalf(-c.f); got != c.want|0x8000 {
				t.Fatalf("%v: got %#04x, want %#04x", -c.f, got, c.want|0x8000)
			}
		}
	}
}

// halfValue2 takes the number after the largest finite one to be 2^16.
func halfValue2(h uint16) float64 {
	if h == 0x7C00 {
		return 65536
	}
	return halfValue(h)
}

func TestBF16RoundsToNearestEvenAndQuietsNaN(t *testing.T) {
	for i := range 1 << 16 {
		b := uint16(i)
		want := b
		if b&0x7FFF > 0x7F80 {
			want |= 0x40
		}
		if got := FloatToBF16(BF16ToFloat(b)); got != want {
			t.Fatalf("%#04x: back as %#04x, want %#04x", b, got, want)
		}
		p := binary.LittleEndian.AppendUint16(nil, b)
		QuietBF16(p)
		if got := binary.LittleEndian.Uint16(p); got != want {
			t.Fatalf("QuietBF16(%#04x): got %#04x, want %#04x", b, got, want)
		}
	}
	for _, c := range []struct {
		bits uint32
		want uint16
	}{{0x3F808000, 0x3F80}, {0x3F818000, 0x3F82}, {0x3F808001, 0x3F81}, {0x3F807FFF, 0x3F80}, {0x7F7FFFFF, 0x7F80}, {0x00008000, 0}, {0x00018000, 2}} {
		if got := FloatToBF16(math.Float32frombits(c.bits)); got != c.want {
			t.Errorf("%#08x: got %#04x, want %#04x", c.bits, got, c.want)
		}
	}
}

func TestRoundAwayFromZero(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []float32{0, 0.5, 1.5, 2.5, 126.5, 127, 0.49999997, 0.50000006, 1.4999999, math.SmallestNonzeroFloat32}
	for range 100000 {
		values = append(values, (r.Float32()-0.5)*300)
	}
	for _, f := range values {
		for _, f := range []float32{f, -f} {
			if got, want := roundAway(f), int32(math.Round(float64(f))); got != want {
				t.Fatalf("%v: got %d, want %d", f, got, want)
			}
		}
	}
}

// TestQ8_0Definition recomputes blocks from the definition, in exact arithmetic where it rounds once.
func TestQ8_0Definition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		src := make([]float32, 32)
		scale := math.Exp(r.Float64()*40 - 30)
		var peak float32
		for i := range src {
			src[i] = float32(r.NormFloat64() * scale)
			peak = max(peak, float32(math.Abs(float64(src[i]))))
		}
		d, _ := new(big.Float).Quo(big.NewFloat(float64(peak)), big.NewFloat(127)).Float32()
		id, _ := new(big.Float).Quo(big.NewFloat(1), big.NewFloat(float64(d))).Float32()
		want := binary.LittleEndian.AppendUint16(nil, FloatToHalf(d))
		for _, x := range src {
			want = append(want, byte(int8(math.Round(float64(float32(x*id))))))
		}
		got := make([]byte, 34)
		quantizeQ8_0(got, src)
		if !bytes.Equal(got, want) {
			t.Fatalf("got  %x\nwant %x", got, want)
		}
	}
}

func TestQ8_0EdgeBlocks(t *testing.T) {
	block := func(fill func(i int) float32) []byte {
		src := make([]float32, 32)
		for i := range src {
			src[i] = fill(i)
		}
		dst := make([]byte, 34)
		quantizeQ8_0(dst, src)
		return dst
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name  string
		fill  func(i int) float32
		scale uint16
		code0 int8
		code1 int8
	}{
		{"zeros", func(int) float32 { return 0 }, 0, 0, 0},
		{"constant", func(int) float32 { return -127 }, 0x3C00, -127, -127},
		{"a maximum whose inverse scale overflows", func(int) float32 { return 1e-38 }, 0, 0, 0},
		{"an infinity", func(i int) float32 {
			if i == 0 {
				return inf
			}
			return 1
		}, 0x7C00, 0, 0},
		{"a NaN at the end takes the maximum", func(i int) float32 {
			if i == 31 {
				return nan
			}
			return 1
		}, 0x7E00, 0, 0},
		{"a NaN before the end starts the maximum anew", func(i int) float32 {
			return []float32{1000, nan, 127}[min(i, 2)]
		}, 0x3C00, -24, 0}, // 1000 wraps to -24 in eight bits
	} {
		got := block(c.fill)
		if s := binary.LittleEndian.Uint16(got); s != c.scale || int8(got[2]) != c.code0 || int8(got[3]) != c.code1 {
			t.Errorf("%s: got scale %#04x, codes %d %d; want %#04x, %d %d", c.name, s, int8(got[2]), int8(got[3]), c.scale, c.code0, c.code1)
		}
	}
}

func TestTypeWithoutCodecIsNamed(t *testing.T) {
	_, err := For(99)
	var missing *NoCodecError
	if !errors.As(err, &missing) || err.Error() != "no codec for type unknown tensor type 99" {
		t.Errorf("got %v, want: no codec for type unknown tensor type 99", err)
	}
}

func TestTypesThatAreOnlyReadCannotBeWritten(t *testing.T) {
	_, err := Writer(gguf.Q4_K)
	var missing *NoCodecError
	if !errors.As(err, &missing) || !missing.Writing {
		t.Errorf("got %v, want: no codec that writes type Q4_K", err)
	}
}

func TestEveryTypeOfTheFormatHasACodecOfItsGeometry(t *testing.T) {
	known := 0
	for typ := range gguf.Type(1 << 10) {
		weights, bytes, ok := typ.Block()
		c, err := For(typ)
		if ok != (err == nil) {
			t.Errorf("%s: the format knows it: %v; its codec: %v", typ, ok, err)
		}
		if !ok || err != nil {
			continue
		}
		known++
		if int(weights) != c.Weights || int(bytes) != c.Bytes || c.Type != typ {
			t.Errorf("%s: got %d weights in %d bytes as %s, want %d in %d", typ, c.Weights, c.Bytes, c.Type, weights, bytes)
		}
	}
	if known != len(codecs) || known != 35 {
		t.Errorf("%d types of the format have one of the %d codecs, want 35", known, len(codecs))
	}
}

func BenchmarkCodecs(b *testing.B) {
	const n = 1 << 20
	src := make([]float32, n)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range src {
		src[i] = float32(r.NormFloat64())
	}
	for _, t := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0} {
		c := codecs[t]
		dst := make([]byte, c.Size(n))
		b.Run("Quantize/"+t.String(), func(b *testing.B) {
			b.SetBytes(2 * n) // of a BF16 source
			for b.Loop() {
				c.Quantize(dst, src)
			}
		})
		c.Quantize(dst, src)
		back := make([]float32, n)
		b.Run("Dequantize/"+t.String(), func(b *testing.B) {
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				c.Dequantize(back, dst)
			}
		})
	}
}
