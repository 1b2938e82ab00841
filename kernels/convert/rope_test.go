package convert

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestRopeFactorsLieWithinFourULPOfTheConverters holds the factors of published
// scalings (Llama 3.1 8B, Llama 3.2 1B and others) against those that the
// converter's lines give in PyTorch 2.15 (testdata/rope.json).
func TestRopeFactorsLieWithinFourULPOfTheConverters(t *testing.T) {
	body, err := os.ReadFile("testdata/rope.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		HeadDim int64    `json:"head_dim"`
		Theta   float64  `json:"rope_theta"`
		Bits    []uint32 `json:"bits"`
	}
	if err := json.Unmarshal(body, &cases); err != nil {
		t.Fatal(err)
	}
	var fields []Rope
	if err := json.Unmarshal(body, &fields); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 4 {
		t.Fatalf("got %d cases, want 4", len(cases))
	}
	for i, c := range cases {
		fields[i].Type = "llama3"
		got := (&Config{HeadDim: &c.HeadDim, rope: fields[i]}).ropeFactors()
		if len(got) != len(c.Bits) || int64(len(got)) != c.HeadDim/2 {
			t.Fatalf("case %d: got %d factors, want %d", i, len(got), len(c.Bits))
		}
		worst := int64(0)
		for j, bits := range c.Bits {
			d := int64(math.Float32bits(got[j])) - int64(bits)
			worst = max(worst, d, -d)
		}
		t.Logf("head dimension %d, base %v, factor %v: at most %d ulp", c.HeadDim, c.Theta, *fields[i].Factor, worst)
		if worst > 4 {
			t.Errorf("case %d: got %d ulp, want at most 4", i, worst)
		}
	}
}
