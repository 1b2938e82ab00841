package mlx

import (
	"slices"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/lowfloat"
	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// tiedWeights have groups of whole numbers, whose codes are ties, and groups on
// one side of zero.
func tiedWeights() []float32 {
	w := exampleWeights(8 * 128)
	for i := range 64 {
		w[i] = float32(i%16) / 2
		w[64+i] = -1 - float32(i)/64
		w[128+i] = 0.75
		w[192+i] = 0
	}
	return w
}

// TestBackendsAreToldApart: the GPU's ties and its one-sided groups are
// recomputed as its own, and named.
func TestBackendsAreToldApart(t *testing.T) {
	for _, b := range backends(Affine) {
		source, product := exampleOf(b, tiedWeights())
		r := compare(t, source, product)
		one, _ := r.Tensor(exampleMatrix)
		if r.Verdict != kernels.Passed || one.Outcome != Recomputed || one.Backend != b.name {
			t.Errorf("%s: got %s, %+v, want its own bits", b.name, r.Verdict, one)
		}
		if got := slices.Contains(r.Notes, noteGPU); got != b.gpu {
			t.Errorf("%s: got the note on the GPU: %v, want %v", b.name, got, b.gpu)
		}
	}
}

// TestMixedTiesAreAccepted: half of the groups by one backend, half by the other.
func TestMixedTiesAreAccepted(t *testing.T) {
	w := tiedWeights()
	copy(w[512:], w[:256])
	source, product := exampleOf(cpu, w)
	_, other := exampleOf(gpu, w)
	m, err := Open(product)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	data := slices.Clone(product[safetensors.SingleName])
	for _, one := range m.Tensors {
		if one.Scheme != nil {
			for _, part := range []safetensors.SnapshotTensor{one.Packed, one.Scales, one.Biases} {
				half := (part.Begin + part.End) / 2
				copy(data[half:part.End], other[safetensors.SingleName][half:part.End])
			}
		}
	}
	product[safetensors.SingleName] = data
	if one, _ := compare(t, source, product).Tensor(exampleMatrix); one.Outcome != UpToTies || one.Follow != one.Groups {
		t.Errorf("got %+v, want every group, up to ties", one)
	}
}

// TestScalesOfPowersOfTwo pins E8M0: rounded up, and to the nearest logarithm before.
func TestScalesOfPowersOfTwo(t *testing.T) {
	for _, c := range []struct {
		ratio    float32
		up, near byte
	}{{1, 127, 127}, {1.01, 128, 127}, {1.5, 128, 128}, {2, 128, 128}, {0.5, 126, 126}, {0.51, 127, 126}, {0, 127, 127}} {
		if got := cpu.exponent(c.ratio, number.BF16); got != c.up {
			t.Errorf("%v: got %d, want %d", c.ratio, got, c.up)
		}
		if got := cpuPast.exponent(c.ratio, number.BF16); got != c.near {
			t.Errorf("%v, to nearest: got %d, want %d", c.ratio, got, c.near)
		}
	}
}

// TestNearestE2M1IsTheTablesFirst compares with the search that it stands for.
func TestNearestE2M1IsTheTablesFirst(t *testing.T) {
	for i := -2000; i <= 2000; i++ {
		x := float32(i) / 200
		best, want := float32(0), byte(0)
		for code := range byte(16) {
			if d := abs(x - lowfloat.E2M1(code)); code == 0 || d < best {
				best, want = d, code
			}
		}
		if got := nearestE2M1(x); got != want {
			t.Fatalf("%v: got code %d, want %d", x, got, want)
		}
	}
}
