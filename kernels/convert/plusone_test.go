package convert

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// TestOneIsAddedInTheArithmeticOfTheStoredType holds sums against PyTorch's:
// torch.tensor(x, dtype=stored).to(float16 stays, else float32) + 1.
func TestOneIsAddedInTheArithmeticOfTheStoredType(t *testing.T) {
	for _, c := range []struct {
		typ    gguf.Type
		stored uint16
		want   float32
	}{
		{gguf.BF16, 0x3F80, 2},                             // 1
		{gguf.BF16, 0x3380, 1},                             // 2^-24: lost in F32
		{gguf.BF16, 0x3400, 1.00000011920928955078125},     // 2^-23: the last bit of F32
		{gguf.BF16, 0xBF80, 0},                             // -1
		{gguf.BF16, 0x7F80, float32(math.Inf(1))},          // infinity
		{gguf.F16, 0x1400, 1.0009765625},                   // 2^-10: the last bit of F16
		{gguf.F16, 0x1000, 1},                              // 2^-11: a tie in F16, to even; F32 would keep it
		{gguf.F16, 0x1200, 1.0009765625},                   // 1.5·2^-11: above the tie
		{gguf.F16, 0x7BFF, 65504},                          // the largest: 1 is below half a unit
		{gguf.F16, 0x6800, 2048}, {gguf.F16, 0x6801, 2052}, // 2048 + 1, 2050 + 1: ties to even
	} {
		codec, err := quant.For(c.typ)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := plusOne(Rows{R: bytes.NewReader(binary.LittleEndian.AppendUint16(nil, c.stored)), Codec: codec, Count: 1, Width: 1})
		if err != nil {
			t.Fatal(err)
		}
		raw, got := make([]byte, 4), make([]float32, 1)
		if err := rows.Raw(raw, 0); err != nil {
			t.Fatal(err)
		}
		rows.Codec.Dequantize(got, raw)
		if got[0] != c.want {
			t.Errorf("%s %#04x: got %v, want %v", c.typ, c.stored, got[0], c.want)
		}
	}
}

// FuzzView compares a part of a view with the whole, read in one go.
func FuzzView(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7}, uint16(1), uint16(2))
	f.Add(bytes.Repeat([]byte{0x80, 0x3F}, 3*viewChunk), uint16(viewChunk-1), uint16(2*viewChunk))
	f.Fuzz(func(t *testing.T, stored []byte, first, n uint16) {
		width := int64(len(stored) / 2)
		rows, err := plusOne(Rows{R: bytes.NewReader(stored), Codec: codecBF16(t), Count: 1, Width: width})
		if err != nil {
			t.Fatal(err)
		}
		whole, part := make([]byte, 4*width), make([]byte, 4*int64(n))
		if err := rows.Raw(whole, 0); err != nil {
			t.Fatal(err)
		}
		got, err := rows.R.ReadAt(part, 4*int64(first))
		want := min(max(width-int64(first), 0), int64(n))
		if int64(got) != 4*want || (err == nil) != (want == int64(n)) {
			t.Fatalf("read %d weights at %d of %d: got %d bytes and %v", n, first, width, got, err)
		}
		if want > 0 && !bytes.Equal(part[:4*want], whole[4*int64(first):][:4*want]) {
			t.Fatal("a part differs from the whole")
		}
	})
}

// FuzzStacked compares reads over the seams of a stack with its parts one after another.
func FuzzStacked(f *testing.F) {
	f.Add([]byte("abcdefghijkl"), uint8(4), uint8(2), uint8(7))
	f.Add([]byte("abc"), uint8(1), uint8(0), uint8(9))
	f.Fuzz(func(t *testing.T, body []byte, each, off, n uint8) {
		if each == 0 {
			return
		}
		s := stacked{each: int64(each)}
		for at := 0; at+int(each) <= len(body); at += int(each) {
			s.parts = append(s.parts, bytes.NewReader(body[at:][:each]))
		}
		whole := bytes.NewReader(body[:len(s.parts)*int(each)])
		got, want := make([]byte, n), make([]byte, n)
		a, aErr := s.ReadAt(got, int64(off))
		b, bErr := whole.ReadAt(want, int64(off))
		if b < int(n) && bErr == nil {
			bErr = io.EOF
		}
		if a != b || !bytes.Equal(got, want) || n > 0 && (aErr == nil) != (bErr == nil) {
			t.Fatalf("read %d bytes at %d: got %d %q %v, want %d %q %v", n, off, a, got, aErr, b, want, bErr)
		}
	})
}

func TestAStackThatIsCutShortIsAnError(t *testing.T) {
	s := stacked{each: 4, parts: []io.ReaderAt{bytes.NewReader([]byte("abcd")), bytes.NewReader([]byte("ef"))}}
	if n, err := s.ReadAt(make([]byte, 8), 0); n != 6 || err != io.ErrUnexpectedEOF {
		t.Errorf("got %d bytes and %v, want 6 and an unexpected end", n, err)
	}
}
