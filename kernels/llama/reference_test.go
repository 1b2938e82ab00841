package llama

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/npy"
)

const modelDir = "../../fixtures/model"

func example(t testing.TB) *Snapshot {
	t.Helper()
	s, err := OpenSnapshot(os.DirFS(filepath.Join(modelDir, "snapshot")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

type text struct {
	Name string   `json:"name"`
	IDs  []uint32 `json:"ids"`
}

func texts(t testing.TB) []text {
	t.Helper()
	var f struct {
		Texts []text `json:"texts"`
	}
	data, err := os.ReadFile(filepath.Join(modelDir, "reference", "texts.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &f); err != nil || len(f.Texts) == 0 {
		t.Fatal("texts.json holds no texts", err)
	}
	return f.Texts
}

func array(t testing.TB, name string) []float32 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(modelDir, "reference", name+".npy"))
	if err != nil {
		t.Fatal(err)
	}
	_, values, err := npy.Read[float32](bytes.NewReader(data), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// distance is how far our logits are from transformers', over all rows.
type distance struct {
	kl, diff    float64 // largest KL of a row and largest log-probability difference, nats
	rows, agree int
}

func measure(t testing.TB, src Source, dtype string) distance {
	t.Helper()
	m, err := Load(context.Background(), src)
	if err != nil {
		t.Fatal(err)
	}
	var ids [][]uint32
	all := texts(t)
	for _, x := range all {
		ids = append(ids, x.IDs)
	}
	var d distance
	v := m.Config().Vocab
	err = m.Logits(context.Background(), ids, func(i int, logits []float64) error {
		want := array(t, all[i].Name+"."+dtype)
		if len(want) != len(logits) {
			t.Fatalf("%s: got %d logits, want %d", all[i].Name, len(logits), len(want))
		}
		for p := 0; p < len(logits); p += v {
			d.add(want[p:p+v], logits[p:p+v])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *distance) add(ref []float32, got []float64) {
	want := make([]float64, len(ref))
	for i, x := range ref {
		want[i] = float64(x)
	}
	a, b := logNorm(want), logNorm(got)
	kl, bestA, bestB := 0.0, 0, 0
	for i := range want {
		lp, lq := want[i]-a, got[i]-b
		kl += math.Exp(lp) * (lp - lq)
		d.diff = max(d.diff, math.Abs(lp-lq))
		if want[i] > want[bestA] {
			bestA = i
		}
		if got[i] > got[bestB] {
			bestB = i
		}
	}
	d.kl = max(d.kl, kl)
	d.rows++
	if bestA == bestB {
		d.agree++
	}
}

func logNorm(x []float64) float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}

// Bounds against transformers in float32: some ten times what is measured (the
// test logs it; float32's own rounding), and far below what the smallest planted fault gives.
const (
	boundKL   = 5e-9 // nats, any row
	boundDiff = 1e-3 // nats, any log-probability
)

func (d distance) within() bool { return d.kl < boundKL && d.diff < boundDiff && d.agree == d.rows }

func TestAgainstTransformers(t *testing.T) {
	d := measure(t, example(t), "float32")
	t.Logf("float32: largest KL %.3g nats, largest log-probability difference %.3g nats, top-1 %d/%d", d.kl, d.diff, d.agree, d.rows)
	if !d.within() {
		t.Errorf("got %+v, want KL below %g, difference below %g, all rows agreeing", d, boundKL, boundDiff)
	}
	d = measure(t, example(t), "bf16")
	t.Logf("bf16: largest KL %.3g nats, largest log-probability difference %.3g nats, top-1 %d/%d", d.kl, d.diff, d.agree, d.rows)
	if d.kl > 1 || d.within() {
		t.Errorf("bf16: got %+v, want a difference of bf16's size", d)
	}
}

// altered is a source with a planted fault.
type altered struct {
	Source
	config func(*Config)
	rows   func(name string, cols int, dst []float64)
}

func (a altered) Config() Config {
	c := a.Source.Config()
	if a.config != nil {
		a.config(&c)
	}
	return c
}

func (a altered) Rows(name string, rows, cols, first int, dst []float64) error {
	err := a.Source.Rows(name, rows, cols, first, dst)
	if err == nil && a.rows != nil {
		a.rows(name, cols, dst)
	}
	return err
}

func (a altered) Vector(name string, dst []float64) error {
	err := a.Source.Vector(name, dst)
	if err == nil && a.rows != nil {
		a.rows(name, 1, dst)
	}
	return err
}

// permute moves row from(r) to r.
func permute(cols int, dst []float64, from func(r int) int) {
	old := append([]float64(nil), dst...)
	for r := range len(dst) / cols {
		copy(dst[r*cols:(r+1)*cols], old[from(r)*cols:])
	}
}

// Each of these faults is outside the bounds of TestAgainstTransformers.
func TestPlantedFaultsBreakTheBounds(t *testing.T) {
	c := example(t).Config()
	ends := func(name, part string) bool { return strings.HasSuffix(name, part+".weight") }
	for name, f := range map[string]altered{
		"RoPE theta 10000":               {config: func(c *Config) { c.Theta = 10000 }},
		"RoPE theta off by a thousandth": {config: func(c *Config) { c.Theta *= 1.001 }},
		"epsilon 1e-5":                   {config: func(c *Config) { c.Eps = float64(float32(1e-5)) }},
		"llama3 factors":                 {config: func(c *Config) { c.FreqFactors = append(c.frequencies()[:0:0], ones(c.HeadDim/2, 8)...) }},
		"Q and K left interleaved": {rows: func(name string, cols int, dst []float64) {
			if ends(name, "q_proj") || ends(name, "k_proj") {
				permute(cols, dst, func(r int) int { return fileRow(r, c.HeadDim) })
			}
		}},
		"K alone left interleaved": {rows: func(name string, cols int, dst []float64) {
			if ends(name, "k_proj") {
				permute(cols, dst, func(r int) int { return fileRow(r, c.HeadDim) })
			}
		}},
		"K permuted for the query heads' number": {rows: func(name string, cols int, dst []float64) {
			if ends(name, "k_proj") {
				small := c.HeadDim * c.KVHeads / c.Heads
				permute(cols, dst, func(r int) int { return interleavedRow(fileRow(r, c.HeadDim), small) })
			}
		}},
		"heads grouped the other way": {rows: func(name string, cols int, dst []float64) {
			if ends(name, "q_proj") { // query head h uses key head h mod KVHeads
				permute(cols, dst, func(r int) int {
					head := r / c.HeadDim
					return (head%(c.Heads/c.KVHeads)*c.KVHeads+head/(c.Heads/c.KVHeads))*c.HeadDim + r%c.HeadDim
				})
			}
		}},
		"gate and up exchanged": {rows: func(name string, cols int, dst []float64) {
			other := strings.NewReplacer("gate_proj", "up_proj", "up_proj", "gate_proj").Replace(name)
			if other != name {
				if err := example(t).Rows(other, len(dst)/cols, cols, 0, dst); err != nil {
					t.Error(err)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f.Source = example(t)
			d := measure(t, f, "float32")
			t.Logf("largest KL %.3g nats, largest log-probability difference %.3g nats, top-1 %d/%d", d.kl, d.diff, d.agree, d.rows)
			if d.within() {
				t.Errorf("the fault stays within the bounds: %+v", d)
			}
		})
	}
}

// fileRow is the inverse of interleavedRow.
func fileRow(r, headDim int) int {
	head, in := r/headDim*headDim, r%headDim
	return head + in/2 + in%2*(headDim/2)
}

func ones(n int, v float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = v
	}
	return x
}
