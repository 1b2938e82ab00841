package mlx

import (
	"bytes"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/number"
)

func TestPackedCodesComeBack(t *testing.T) {
	for _, bits := range []int{2, 3, 4, 5, 6, 8} {
		codes := make([]byte, 128)
		for i := range codes {
			codes[i] = byte(i*37+i/7) & byte(1<<bits-1)
		}
		packed := pack(nil, codes, bits)
		got := make([]byte, len(codes))
		unpack(got, packed, bits)
		if len(packed) != len(codes)*bits/8 || !bytes.Equal(got, codes) {
			t.Errorf("%d bits: got %v in %d bytes, want %v", bits, got, len(packed), codes)
		}
	}
}

// TestSixBitsStraddleWords pins the layout: three bytes hold four codes, low bits first.
func TestSixBitsStraddleWords(t *testing.T) {
	got := make([]byte, 32)
	unpack(got, append([]byte{0x01, 0x20, 0x0C}, make([]byte, 21)...), 6)
	if !bytes.Equal(got[:4], []byte{1, 0, 2, 3}) {
		// 0x0C2001: bits 0-5 are 1, 6-11 are 0, 12-17 are 2, 18-23 are 3
		t.Errorf("got %v", got[:4])
	}
}

func BenchmarkCompareAffine(b *testing.B) {
	w := exampleWeights(64)
	g, own := group{codes: make([]byte, 64)}, group{codes: make([]byte, 64)}
	bf16 := number.BF16
	cpu.affine(&g, w, 4, bf16)
	b.SetBytes(2 * 64)
	for b.Loop() {
		for _, backend := range backends(Affine) {
			backend.affine(&own, w, 4, bf16)
		}
		boundAffine(&g, w, 4, bf16)
	}
}
