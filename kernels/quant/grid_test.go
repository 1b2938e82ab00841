package quant

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// TestGridsAreTheOnesOfTheREADME holds the embedded grids to the digests of
// grids/README.md, and their points to the codes that exist.
func TestGridsAreTheOnesOfTheREADME(t *testing.T) {
	readme, err := os.ReadFile("grids/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		packed []byte
		points []uint64
		codes  uint64 // there are codes 0 to codes-1
		count  int    // codes a point
	}{
		{"iq1s", packedIQ1S, gridIQ1S()[:], 3, 8},
		{"iq2xxs", packedIQ2XXS, gridIQ2XXS()[:], 3, 8},
		{"iq2xs", packedIQ2XS, gridIQ2XS()[:], 3, 8},
		{"iq2s", packedIQ2S, gridIQ2S()[:], 3, 8},
		{"iq3xxs", packedIQ3XXS, gridIQ3XXS()[:], 8, 4},
		{"iq3s", packedIQ3S, gridIQ3S()[:], 8, 4},
	} {
		sum := sha256.Sum256(c.packed)
		row := ""
		for line := range strings.Lines(string(readme)) {
			if strings.HasPrefix(line, "| `"+c.name+".bin`") {
				row = line
			}
		}
		if !strings.Contains(row, hex.EncodeToString(sum[:])) {
			t.Errorf("%s: the SHA-256 is %x, the README says: %q", c.name, sum, row)
		}
		seen := map[uint64]bool{}
		for i, p := range c.points {
			if seen[p] {
				t.Errorf("%s: point %d stands there twice", c.name, i)
			}
			seen[p] = true
			for j := range 8 {
				if code := p >> (8 * j) & 0xFF; code >= c.codes || j >= c.count && code != 0 {
					t.Errorf("%s: point %d has code %d at %d", c.name, i, code, j)
				}
			}
		}
	}
}

func TestEvenSigns(t *testing.T) {
	for s := range uint32(256) {
		got, ones := evenSigns(s), 0
		for j := range 8 {
			ones += int(got >> j & 1)
		}
		if got&127 != byte(s&127) || ones%2 != 0 {
			t.Errorf("%#x: got %#x with %d minus signs, want the same seven bits and an even number", s, got, ones)
		}
	}
}
