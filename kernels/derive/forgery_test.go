package derive

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// victim is a tensor of ordinary weights, Q4_K in the real Q4_K_M.
const victim = "blk.2.ffn_up.weight"

// requantized makes the victim's Q4_K bytes from changed weights, as an honest build does.
func requantized(t *testing.T, change func(weights []float32)) []byte {
	t.Helper()
	src, err := open(gguf1(t, "BF16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	s := src.byName[victim]
	weights, err := new(reader).floats(s, 0, s.rows.Weights())
	if err != nil {
		t.Fatal(err)
	}
	change(weights)
	q, err := quant.NewQuantizer(gguf.Q4_K, quant.Plain)
	if err != nil {
		t.Fatal(err)
	}
	codec, _ := quant.For(gguf.Q4_K)
	out := make([]byte, codec.Size(int64(len(weights))))
	q.Rows(out, weights, int(s.dims[0]), nil)
	return out
}

// lowRank adds a change of rank one, a hundredth of the weights' size.
func lowRank(weights []float32) {
	r := rand.New(rand.NewPCG(7, 8))
	rows := len(weights) / 256
	u, v := make([]float32, rows), make([]float32, 256)
	for i := range u {
		u[i] = float32(r.NormFloat64())
	}
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	var power float64
	for _, w := range weights {
		power += float64(float64(w) * float64(w))
	}
	size := float32(0.01 * math.Sqrt(power/float64(len(weights))))
	for i := range weights {
		weights[i] += float32(size * float32(u[i/256]*v[i%256]))
	}
	for i, w := range weights { // stored as BF16 before it is quantized
		weights[i] = quant.BF16ToFloat(quant.FloatToBF16(w))
	}
}

// ulp moves one weight to its neighbour in bfloat16.
func ulp(at int) func([]float32) {
	return func(weights []float32) {
		weights[at] = quant.BF16ToFloat(quant.FloatToBF16(weights[at]) + 1)
	}
}

// everyUlp moves one weight of every block.
func everyUlp(weights []float32) {
	for at := 100; at < len(weights); at += 256 {
		ulp(at)(weights)
	}
}

func withBody(t *testing.T, file string, body func(r *rewritten)) Input {
	f := rewrite(t, grouped(t, file), func(_ *testing.T, r *rewritten) { body(r) })
	return Input{GGUF: &f}
}

// TestForgeriesAreToldApart: each is refused, and for its own reason.
func TestForgeriesAreToldApart(t *testing.T) {
	none, matrix := Options{}, withMatrix(t, grouped(t, "imatrix.gguf"))
	for i, c := range []struct {
		name   string
		target func(t *testing.T) Input
		with   Options
		want   []string // parts of the finding about one tensor
	}{
		{"one code of Q8_0", func(t *testing.T) Input {
			return withBody(t, "Q8_0.gguf", func(r *rewritten) { r.bodies[victim][34*8*5+7] ^= 1 })
		}, none, []string{"values: tensor " + victim + " row 5 block 0", "1 of 6144 blocks"}},
		{"quantized from the Q8_0", func(t *testing.T) Input { return gguf1(t, "forged", "Q4_K_M-made-from-Q8_0.gguf") }, none,
			[]string{"codes: tensor " + victim, "the codes follow the source after a pass through Q8_0: made from a quantized file", " of 768 blocks of this tensor have such codes"}},
		{"a low-rank change of one percent", func(t *testing.T) Input {
			return withBody(t, "Q4_K_M.gguf", func(r *rewritten) { r.bodies[victim] = requantized(t, lowRank) })
		}, none, []string{"codes: tensor " + victim, "want those that it gives, on every build"}},
		{"one bfloat16 ulp in a weight of every block", func(t *testing.T) Input {
			return withBody(t, "Q4_K_M.gguf", func(r *rewritten) { r.bodies[victim] = requantized(t, everyUlp) })
		}, none, []string{"tensor " + victim + " row "}},
		{"one block of another row", func(t *testing.T) Input {
			return withBody(t, "Q4_K_M.gguf", func(r *rewritten) { copy(r.bodies[victim][144*5:144*6], r.bodies[victim][144*9:]) })
		}, none, []string{"codes: tensor " + victim + " row 5 block 0", "1 of 768 blocks"}},
		{"one scale", func(t *testing.T) Input {
			return withBody(t, "Q4_K_M.gguf", func(r *rewritten) { r.bodies[victim][144*5+4] ^= 1 })
		}, none, []string{"tensor " + victim + " row 5 block 0", "1 of 768 blocks"}},
		{"one scale, with codes that follow it", func(t *testing.T) Input {
			return withBody(t, "Q4_K_M.gguf", func(r *rewritten) { consistentScale(t, r.bodies[victim], 5) })
		}, none, []string{"tensor " + victim + " row 5 block 0", "no build differs in so few blocks", "1 of 768 blocks"}},
		{"one code", func(t *testing.T) Input {
			return withBody(t, "Q4_K_M.gguf", func(r *rewritten) { r.bodies[victim][144*5+20] ^= 1 })
		}, none, []string{"codes: tensor " + victim + " row 5 block 0", "1 of 768 blocks"}},
		{"one code of a file made with the matrix", func(t *testing.T) Input {
			return withBody(t, "Q4_K_M-im.gguf", func(r *rewritten) { r.bodies[victim][144*5+20] ^= 1 })
		}, matrix, []string{"codes: tensor " + victim + " row 5 block 0"}},
		{"one code of a file whose matrix is withheld", func(t *testing.T) Input {
			return withBody(t, "Q4_K_M-im.gguf", func(r *rewritten) { r.bodies[victim][144*5+20] ^= 1 })
		}, none, []string{"codes: tensor " + victim + " row 5 block 0", "1 of 768 blocks"}},
		{"one code of Q6_K", func(t *testing.T) Input {
			return withBody(t, "Q4_K_M.gguf", func(r *rewritten) { r.bodies["output.weight"][210*5+20] ^= 1 })
		}, none, []string{"codes: tensor output.weight row 5 block 0", "1 of 512 blocks"}},
		{"one block of zeros in a file whose matrix is withheld", func(t *testing.T) Input {
			return withBody(t, "Q4_K_M-im.gguf", func(r *rewritten) { clear(r.bodies[victim][144*5:][:4]) })
		}, none, []string{"scales: tensor " + victim, "1 blocks whose scales lose the weights"}},
		{"one block of zeros of Q2_K", func(t *testing.T) Input {
			return withBody(t, "more/Q2_K-im.gguf", func(r *rewritten) { clear(r.bodies[victim][84*5+80:][:4]) })
		}, none, []string{"scales: tensor " + victim, "1 blocks whose scales lose the weights"}},
		{"one block of Q3_K silenced", func(t *testing.T) Input {
			return withBody(t, "Q3_K_M-im.gguf", func(r *rewritten) { clear(r.bodies[victim][110*5+108:][:2]) })
		}, none, []string{"scales: tensor " + victim, "1 blocks whose scales lose the weights"}},
		{"one block of Q6_K silenced", func(t *testing.T) Input {
			return withBody(t, "Q6_K-im.gguf", func(r *rewritten) { clear(r.bodies[victim][210*5+208:][:2]) })
		}, none, []string{"scales: tensor " + victim, "1 blocks whose scales lose the weights"}},
		{"the scales of a tensor made worthless, codes following", func(t *testing.T) Input {
			return withBody(t, "Q4_K_M.gguf", func(r *rewritten) {
				for block := range len(r.bodies[victim]) / 144 {
					consistentHalf(t, r.bodies[victim], block)
				}
			})
		}, none, []string{"scales: tensor " + victim, "scales within the bounds of real builds"}},
	} {
		if i%thin != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := Compare(t.Context(), gguf1(t, "BF16.gguf"), c.target(t), c.with)
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind != NotDerived || r.Class != None || r.Whole != nil {
				t.Fatalf("got %q, class %q, want not derived", r.Kind, r.Class)
			}
			said := ""
			for _, f := range r.Findings {
				if strings.Contains(f.Where, c.want[0][strings.Index(c.want[0], "tensor "):]) {
					said = f.String()
				}
			}
			for _, part := range c.want {
				if !strings.Contains(said, part) {
					t.Errorf("got %.600q\nwant it to say: %s", said, part)
				}
			}
		})
	}
}

// sourceBlock is the victim's weights of one block.
func sourceBlock(t *testing.T, block int) []float32 {
	src, err := open(gguf1(t, "BF16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	weights, err := new(reader).floats(src.byName[victim], int64(256*block), 256)
	if err != nil {
		t.Fatal(err)
	}
	return weights
}

// consistentScale changes the first scale of a block and takes its codes anew, as they follow from it.
func consistentScale(t *testing.T, body []byte, block int) {
	b := body[144*block:][:144]
	b[4] ^= 1
	follow(t, b, sourceBlock(t, block))
}

// consistentHalf halves the scale of all of a block's scales and takes its codes anew.
func consistentHalf(t *testing.T, body []byte, block int) {
	b := body[144*block:][:144]
	d := quant.HalfToFloat(binary.LittleEndian.Uint16(b))
	binary.LittleEndian.PutUint16(b, quant.FloatToHalf(d/4))
	follow(t, b, sourceBlock(t, block))
}

// follow searches the codes of a Q4_K block that follow from the source, one by one.
func follow(t *testing.T, b []byte, weights []float32) {
	t.Helper()
	codec, _ := quant.For(gguf.Q4_K)
	got := make([]float32, 256)
	best := make([]float32, 256)
	codes := make([]byte, 256)
	for code := byte(0); code < 16; code++ {
		for i := 16; i < 144; i++ {
			b[i] = code | code<<4
		}
		codec.Dequantize(got, b)
		for i := range got {
			d := got[i] - weights[i]
			if d < 0 {
				d = -d
			}
			if code == 0 || d < best[i] {
				best[i], codes[i] = d, code
			}
		}
	}
	put := func(i int, code byte) {
		at := 16 + 32*(i/64) + i%64%32
		if i%64 < 32 {
			b[at] = b[at]&0xF0 | code
		} else {
			b[at] = b[at]&0x0F | code<<4
		}
	}
	for i, code := range codes {
		put(i, code)
	}
	// Weights in the middle between two codes: rounding decides, so both are tried.
	if bad, _ := quant.CheckCodes(gguf.Q4_K, b, weights); bad == 0 {
		return
	}
	codec.Dequantize(got, b)
	var middle []int
	for i, code := range codes {
		if code == 15 {
			continue
		}
		put(i, code+1)
		codec.Dequantize(best, b)
		put(i, code)
		if below, above := math.Abs(float64(got[i]-weights[i])), math.Abs(float64(best[i]-weights[i])); above-below <= 1e-4*(above+below) {
			middle = append(middle, i)
		}
	}
	for choice := range 1 << min(len(middle), 12) {
		for j, i := range middle {
			put(i, codes[i]+byte(choice>>j&1))
		}
		if bad, _ := quant.CheckCodes(gguf.Q4_K, b, weights); bad == 0 {
			return
		}
	}
	t.Fatalf("no codes follow from the changed scales, with %d weights in the middle between two", len(middle))
}

// TestOneUlpIsFoundExactlyWhenItChangesABlock: a weight of the source that differs
// by one bfloat16 ulp is seen in the product where it changes a code or a
// scale, and cannot be seen where it does not.
func TestOneUlpIsFoundExactlyWhenItChangesABlock(t *testing.T) {
	arithmetic(t)
	for _, changes := range []bool{true, false} {
		body := requantized(t, ulp(weightWhoseUlp(t, changes)))
		target := withBody(t, "Q4_K_M.gguf", func(r *rewritten) { r.bodies[victim] = body })
		r, err := Compare(t.Context(), gguf1(t, "BF16.gguf"), target, Options{})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case changes && (r.Kind != NotDerived || len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Hint, "1 of 768 blocks")):
			t.Errorf("an ulp that changes a block: got %q with %v, want not derived for that block", r.Kind, r.Findings)
		case !changes && (r.Class != ClassA || !strings.Contains(r.Unproven, "a source whose weights round to the same codes and scales")):
			t.Errorf("an ulp that changes nothing: got class %q, %s; want A, and that such a source cannot be told apart", r.Class, r.Unproven)
		}
	}
}

// weightWhoseUlp finds a weight of the victim whose neighbour in bfloat16 changes its block, or does not.
func weightWhoseUlp(t *testing.T, changes bool) int {
	t.Helper()
	q, err := quant.NewQuantizer(gguf.Q4_K, quant.Plain)
	if err != nil {
		t.Fatal(err)
	}
	for block := range 40 {
		weights := sourceBlock(t, block)
		honest, other := make([]byte, 144), make([]byte, 144)
		q.Rows(honest, weights, 256, nil)
		for i, w := range weights {
			ulp(i)(weights)
			q.Rows(other, weights, 256, nil)
			if bytes.Equal(honest, other) != changes {
				return 256*block + i
			}
			weights[i] = w
		}
	}
	t.Fatal("no such weight in 40 blocks")
	return 0
}

// otherCorpus is the real matrix with its columns exchanged: of the model's shapes, of another text.
func otherCorpus(t *testing.T) Options {
	t.Helper()
	real := withMatrix(t, grouped(t, "imatrix.gguf")).Matrix
	content := imatrix.Content{Datasets: []string{"another.txt"}, Chunks: real.Chunks, ChunkSize: real.ChunkSize}
	for _, e := range real.Entries {
		w, _, err := real.Weights(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, uint64(len(w))))
		r.Shuffle(len(w), func(i, j int) { w[i], w[j] = w[j], w[i] })
		content.Entries = append(content.Entries, imatrix.Data{Name: e.Name, Counts: []float32{1}, Sums: w})
	}
	var out bytes.Buffer
	if err := imatrix.WriteGGUF(&out, content); err != nil {
		t.Fatal(err)
	}
	m, err := imatrix.Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return Options{Matrix: m, MatrixDigest: "sha256:another"}
}

// TestAnotherMatrixIsToldApart: codes follow, the scales do not fit this matrix.
func TestAnotherMatrixIsToldApart(t *testing.T) {
	arithmetic(t)
	r, err := Compare(t.Context(), gguf1(t, "BF16.gguf"), gguf1(t, "Q4_K_M-im.gguf"), otherCorpus(t))
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != Quantization || r.Class != ClassC || r.Whole != nil {
		t.Fatalf("got %q, class %q, want a quantization of class C", r.Kind, r.Class)
	}
	if m := r.Matrix; len(m.Used) != 0 || len(m.Unfit) != 28 || !strings.Contains(r.Unproven, "do not fit the importance matrix at hand") {
		t.Errorf("got %d tensors that fit and %d that do not, %q; want 0, 28 and that said", len(m.Used), len(m.Unfit), r.Unproven)
	}
}

// TestAMatrixOfAnotherModelIsRefused by the shape of its entries.
func TestAMatrixOfAnotherModelIsRefused(t *testing.T) {
	odd := readFile(t, shared.Path(t, "data", "llama-odd", "BF16.gguf"))
	product := readFile(t, shared.Path(t, "data", "llama-odd", "Q4_K_M.gguf"))
	_, err := Compare(context.Background(), Input{GGUF: &odd}, Input{GGUF: &product}, withMatrix(t, grouped(t, "imatrix.gguf")))
	if err == nil || !strings.Contains(err.Error(), "got 256 numbers, 1 counts, want 320 columns × 1 experts; this is another model's matrix") {
		t.Errorf("got %v, want the matrix refused", err)
	}
}

// TestAMatrixClaimIsHeldAgainstTheBytes in both directions.
func TestAMatrixClaimIsHeldAgainstTheBytes(t *testing.T) {
	arithmetic(t)
	claims := withBody(t, "Q4_K_M.gguf", func(r *rewritten) {
		r.set(matrixFileKey, gguf.String("imatrix.gguf"))
		r.set(matrixEntriesKey, gguf.Uint32(28))
	})
	r, err := Compare(t.Context(), gguf1(t, "BF16.gguf"), claims, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Class != ClassA || len(r.Matrix.Findings) != 1 || !strings.Contains(r.Matrix.Findings[0].String(), "what a search without a matrix gives") {
		t.Errorf("got class %q with %v, want the claim refuted", r.Class, r.Matrix.Findings)
	}
	denies := withBody(t, "Q4_K_M-im.gguf", func(r *rewritten) {
		for _, key := range []string{matrixFileKey, matrixDatasetKey, matrixEntriesKey, matrixChunksKey} {
			r.drop(key)
		}
	})
	if r, err = Compare(t.Context(), gguf1(t, "BF16.gguf"), denies, withMatrix(t, grouped(t, "imatrix.gguf"))); err != nil {
		t.Fatal(err)
	}
	if r.Class != ClassA || len(r.Matrix.Findings) != 1 || !strings.Contains(r.Matrix.Findings[0].String(), "28 tensors fit the matrix at hand") {
		t.Errorf("got class %q with %v, want the silence named", r.Class, r.Matrix.Findings)
	}
}
