package mlx

import (
	"bytes"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

func TestPackedCodesComeBack(t *testing.T) {
	for _, bits := range []int{1, 2, 3, 4, 5, 6, 8} {
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

func benchmarkJudge(b *testing.B, s Scheme) {
	w := exampleWeights(s.Group)
	g := group{codes: make([]byte, s.Group)}
	cpu.affine(&g, w, s.Bits, number.BF16)
	if s.Mode != Affine {
		cpu.floats(&g, w, s, number.BF16, 1)
	}
	j := newJudge(Tensor{Scheme: &s}, number.BF16, safetensors.BF16)
	b.SetBytes(int64(2 * s.Group))
	for b.Loop() {
		if err := j.group(&g, w, 0, &matrixReader{}); err != nil {
			b.Fatal(err)
		}
	}
	if j.follow != j.groups {
		b.Error("a group does not follow")
	}
}

// The benchmarks' bytes are those of a BF16 source, one core.
func BenchmarkJudgeAffine4(b *testing.B) { benchmarkJudge(b, Scheme{Affine, 4, 64}) }
func BenchmarkJudgeAffine8(b *testing.B) { benchmarkJudge(b, Scheme{Affine, 8, 64}) }
func BenchmarkJudgeNVFP4(b *testing.B)   { benchmarkJudge(b, Scheme{NVFP4, 4, 16}) }
func BenchmarkJudgeMXFP8(b *testing.B)   { benchmarkJudge(b, Scheme{MXFP8, 8, 32}) }
