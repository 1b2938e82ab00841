package lowfloat

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
)

// The digests are of conversions by PyTorch 2.15.0 (E4M3, E5M2, E8M0, FromE4M3) and
// by ml_dtypes 0.6.0 (all but FromE4M3); testdata/digests.py prints them.

func TestEveryCodeReadsAsInPyTorchAndMLDtypes(t *testing.T) {
	for _, c := range []struct {
		name  string
		codes int
		value func(byte) float32
		want  string
	}{
		{"E4M3", 256, E4M3, "fbfd40716d3eddc590ca82a86c34208d486f88eb69e6a04dbfc62b158dec4d2f"},
		{"E5M2", 256, E5M2, "e119e01810d2e0b12e435d3b12fc0a09a0d185442237494c1731ed1aedd7e4b5"},
		{"E8M0", 256, E8M0, "2fb2732a956043772ccd2c1664ae5d2558c62f9c06780c04d95f1ff0050f2f2f"},
		{"E3M2", 64, E3M2, "1f21874836838a0a1f329d5ff459699e3a0f786b93c85e22fcd353c1b6dca41d"},
		{"E2M3", 64, E2M3, "178eab5d385741cfac12154e83ad2b9616503fed5f08093c75b9c25065f0d3c4"},
		{"E2M1", 16, E2M1, "c736c7e2e761e08975d601fab3563265be14d8df46628e596c0989b97735b5f5"},
	} {
		var out []byte
		for code := range c.codes {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(c.value(byte(code))))
		}
		if sum := sha256.Sum256(out); hex.EncodeToString(sum[:]) != c.want {
			t.Errorf("%s: the SHA-256 of all values is %x, want %s", c.name, sum, c.want)
		}
	}
}

// samples calls f with every upper 20 bits of a float32, followed by the lower
// bits that tell a tie from its neighbours.
func samples(f func(x float32)) {
	for high := range uint32(1 << 20) {
		for _, low := range []uint32{0, 1, 0x7FF, 0x800, 0xFFF} {
			f(math.Float32frombits(high<<12 | low))
		}
	}
}

func TestWritingRoundsAsInPyTorchAndMLDtypes(t *testing.T) {
	for _, c := range []struct {
		name string
		code func(float32) byte
		want string
	}{
		{"FromE4M3", FromE4M3, "db765b00cc190ce75413cbf76e218dc0cd196c06874ef810d4f11c77db630c82"},
		{"FromE2M1", FromE2M1, "09b9a672f439f6aac553fcb51f29a1f16e9a0c2614cbcd7b8a7beb3cb67070d8"},
	} {
		var out []byte
		samples(func(x float32) { out = append(out, c.code(x)) })
		if sum := sha256.Sum256(out); hex.EncodeToString(sum[:]) != c.want {
			t.Errorf("%s: the SHA-256 of all codes is %x, want %s", c.name, sum, c.want)
		}
	}
}

// TestWritingIsNearest checks the definition itself: no other finite code is nearer,
// and of two equally near ones the even code is taken.
func TestWritingIsNearest(t *testing.T) {
	for _, c := range []struct {
		name    string
		code    func(float32) byte
		value   func(byte) float32
		largest byte
	}{{"E4M3", FromE4M3, E4M3, 0x7E}, {"E2M1", FromE2M1, E2M1, 7}} {
		check := func(x float32) {
			got := c.code(x)
			distance := func(code byte) float64 { return math.Abs(float64(x) - float64(c.value(code))) }
			for _, other := range []int{int(got) - 1, int(got) + 1} {
				if other < 0 || other > int(c.largest) {
					continue
				}
				if d, e := distance(got), distance(byte(other)); e < d || e == d && got%2 == 1 {
					t.Fatalf("%s: %v became %#x (%v), and %#x (%v) is better", c.name, x, got, c.value(got), other, c.value(byte(other)))
				}
			}
		}
		for code := range c.largest {
			a, b := c.value(code), c.value(code+1)
			middle := (a + b) / 2
			for _, x := range []float32{a, b, middle, math.Nextafter32(middle, a), math.Nextafter32(middle, b)} {
				check(x)
			}
		}
		for code := range c.largest + 1 {
			if got := c.code(c.value(code)); got != code {
				t.Errorf("%s: code %#x came back as %#x", c.name, code, got)
			}
		}
	}
}

func TestSpecials(t *testing.T) {
	inf, nan := float32(math.Inf(1)), math.Float32frombits(0x7F800001)
	minusNaN := math.Float32frombits(0xFFC00000)
	minusZero := math.Float32frombits(0x80000000)
	for _, c := range []struct {
		x          float32
		e4m3, e2m1 byte
	}{
		{inf, 0x7E, 7}, {-inf, 0xFE, 0xF}, {nan, 0x7F, 7}, {minusNaN, 0xFF, 7},
		{0, 0, 0}, {minusZero, 0x80, 8}, {math.MaxFloat32, 0x7E, 7},
		{5, 0x4A, 6}, {-2.5, 0xC2, 0xC}, {0.25, 0x28, 0}, {-0.75, 0xB4, 0xA},
	} {
		if a, b := FromE4M3(c.x), FromE2M1(c.x); a != c.e4m3 || b != c.e2m1 {
			t.Errorf("%v: got E4M3 %#x and E2M1 %#x, want %#x and %#x", c.x, a, b, c.e4m3, c.e2m1)
		}
	}
}

func BenchmarkConvert(b *testing.B) {
	codes, values := make([]byte, 1<<16), make([]float32, 1<<16)
	for i := range values {
		values[i] = float32(i-1<<15) / 64
	}
	for name, code := range map[string]func(float32) byte{"FromE4M3": FromE4M3, "FromE2M1": FromE2M1} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(4 << 16)
			for b.Loop() {
				for i, x := range values {
					codes[i] = code(x)
				}
			}
		})
	}
	b.Run("E4M3", func(b *testing.B) {
		b.SetBytes(1 << 16)
		for b.Loop() {
			for i, c := range codes {
				values[i] = E4M3(c)
			}
		}
	})
}
