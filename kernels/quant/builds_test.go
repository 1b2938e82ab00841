package quant

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
)

//go:embed testdata/builds.json
var buildsJSON []byte

// splitMix is the generator of testdata/builds.c.
type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

const buildRows, buildWidth = 128, 512

// buildWeights gives the weights and the importance of testdata/builds.c: a row of
// zeros, a constant one, two of very small numbers, and heavy-tailed ones, all with 24 significant bits.
func buildWeights() (weights, importance []float32) {
	state := splitMix(1)
	for r := range buildRows {
		for range buildWidth {
			bits := state.next()
			x := float32(int32(bits&0xFFFFFF)) - 8388608
			exponent := 28 + r%5
			switch r {
			case 2:
				exponent = 120
			case 3:
				exponent = 149
			}
			for drop := 0; drop < 6 && bits>>(32+drop)&1 == 0; drop++ {
				exponent++
			}
			for range exponent {
				x *= 0.5
			}
			switch r {
			case 0:
				x = 0
			case 1:
				x = 0.25
			}
			weights = append(weights, x)
		}
	}
	for range buildWidth {
		bits := state.next()
		f := float32(0)
		if bits>>60 != 0 {
			f = float32(bits&0xFFFF) / 256
		}
		importance = append(importance, f)
	}
	return weights, importance
}

// TestEveryBuildIsRecomputed compares with what six real builds of ggml's quantizers
// made, type by type, without and with a matrix (testdata/builds.sh).
func TestEveryBuildIsRecomputed(t *testing.T) {
	var want map[Variant]map[string]string
	if err := json.Unmarshal(buildsJSON, &want); err != nil {
		t.Fatal(err)
	}
	weights, importance := buildWeights()
	for typ := range searches {
		variants := Variants(typ)
		if len(variants) != len(want) {
			t.Errorf("%s: %d variants, want %d", typ, len(variants), len(want))
		}
		for _, v := range variants {
			if thin > 1 && v != Plain {
				continue
			}
			for matrix, column := range [][]float32{nil, importance} {
				t.Run(fmt.Sprintf("%s/%s/%d", typ, v, matrix), func(t *testing.T) {
					t.Parallel()
					q, err := NewQuantizer(typ, v)
					if err != nil {
						t.Fatal(err)
					}
					dst := make([]byte, codecs[typ].Size(int64(len(weights))))
					q.Rows(dst, weights, buildWidth, column)
					sum := sha256.Sum256(dst)
					if got, want := hex.EncodeToString(sum[:8]), want[v][fmt.Sprintf("%d-%d", uint32(typ), matrix)]; got != want {
						t.Errorf("got %s, want %s", got, want)
					}
				})
			}
		}
	}
}

// TestBuildsDiffer shows that the reference tells the builds apart: no two agree on all types.
func TestBuildsDiffer(t *testing.T) {
	var reference map[Variant]map[string]string
	if err := json.Unmarshal(buildsJSON, &reference); err != nil {
		t.Fatal(err)
	}
	seen := map[string]Variant{}
	for v, digests := range reference {
		all := fmt.Sprint(digests)
		if other, ok := seen[all]; ok {
			t.Errorf("%s and %s make the same blocks", v, other)
		}
		seen[all] = v
	}
	if len(seen) != len(allVariants) {
		t.Errorf("%d builds, want %d", len(seen), len(allVariants))
	}
}

// TestFusedBuildIsRecomputed compares the files of a real llama-quantize that was built
// with gcc -march=native on a Zen machine. The plain build differs from each.
func TestFusedBuildIsRecomputed(t *testing.T) {
	source := model(t, "llama-grouped", "BF16.gguf")
	for _, name := range madeBy(t, "fma-build") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, matrix := model(t, "llama-grouped", name), matrixFor(t, name)
			blocks, differ := recompute(t, source, target, matrix, GCCFMAZen)
			for typ, n := range blocks {
				if differ[typ] != 0 {
					t.Errorf("%s: %d of %d blocks differ", typ, differ[typ], n)
				}
			}
			_, plain := recompute(t, source, target, matrix, Plain)
			total := 0
			for _, n := range plain {
				total += n
			}
			if total == 0 && thin == 1 {
				t.Errorf("the plain build makes the same blocks: nothing is told apart")
			}
			t.Logf("blocks %v, of which the plain build differs in %v", blocks, plain)
		})
	}
}
