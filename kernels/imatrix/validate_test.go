package imatrix

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

func matrixOf(t *testing.T, form string, c Content) *Matrix {
	t.Helper()
	var b bytes.Buffer
	write := WriteGGUF
	if form == FormDat {
		write = func(w io.Writer, c Content) error { return WriteDat(w, c) }
	}
	if err := write(&b, c); err != nil {
		t.Fatal(err)
	}
	return open(t, b.Bytes())
}

func constant(n int, x float32) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = x
	}
	return s
}

func with(s []float32, at int, values ...float32) []float32 {
	copy(s[at:], values)
	return s
}

// TestFaultsFromTheField: each case of a matrix that went wrong is named with its counts.
func TestFaultsFromTheField(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	up := []gguf.TensorInfo{{Name: "blk.0.ffn_up_exps.weight", Dims: []uint64{32, 8, 4}}}
	plain := []gguf.TensorInfo{{Name: "blk.0.attn_q.weight", Dims: []uint64{64, 8}}}
	one := func(name string, counts, sums []float32) Content {
		return Content{Datasets: []string{"text"}, Chunks: 4, ChunkSize: 16, Entries: []Data{{name, counts, sums}}}
	}
	for _, c := range []struct {
		name    string
		form    string
		content Content
		tensors []gguf.TensorInfo
		want    string // "" for nothing
	}{
		{"NaN and infinite sums", FormGGUF, one("blk.0.attn_q.weight", []float32{64}, with(ramp(64), 3, nan, nan, inf)), plain, CheckFinite + ": blk.0.attn_q.weight: got 3 of 64 sums are NaN"},
		{"zeros for a whole tensor", FormGGUF, one("blk.0.attn_q.weight", []float32{64}, constant(64, 0)), plain, "got 4 of 4 blocks of 16 columns are zero throughout (64 zeros in 64 sums)"},
		{"a block of zeros in the old form", FormDat, one("blk.0.attn_q.weight", []float32{4}, with(ramp(64), 16, constant(16, 0)...)), plain, "got 1 of 4 blocks of 16 columns are zero"},
		{"a last block of zeros that is short", FormGGUF, one("blk.0.attn_q.weight", []float32{64}, with(ramp(40), 32, constant(8, 0)...)), nil, "got 1 of 3 blocks of 16 columns are zero throughout"},
		{"a few dead columns", FormGGUF, one("blk.0.attn_q.weight", []float32{64}, with(ramp(64), 16, constant(15, 0)...)), plain, ""},
		{"negative sums", FormDat, one("blk.0.attn_q.weight", []float32{4}, with(ramp(64), 5, -1, -2)), plain, CheckNegative + ": blk.0.attn_q.weight: got 2 of 64"},
		{"a missing expert", FormGGUF, one("blk.0.ffn_up_exps.weight", []float32{64, 0, 64, 64}, ramp(128)), up, "got 1 of 4 experts have no data"},
		{"a missing expert in the old form", FormDat, one("blk.0.ffn_up_exps.weight", []float32{4}, with(ramp(128), 32, constant(32, 4)...)), up, "got 1 of 4 experts have no data"},
		{"all experts there in the old form", FormDat, one("blk.0.ffn_up_exps.weight", []float32{4}, with(ramp(128), 0, 1.5)), up, ""},
		{"a missing tensor", FormGGUF, one("blk.0.attn_q.weight", []float32{64}, ramp(64)), append(plain, gguf.TensorInfo{Name: "blk.0.attn_k.weight", Dims: []uint64{64, 8}}), CheckMissing + ": blk.0.attn_k.weight: got no entry; 1 of 2 weights have none"},
		{"a wrong chunk count", FormGGUF, one("blk.0.attn_q.weight", []float32{80}, ramp(64)), plain, CheckChunks + ": the file: got 4 chunks of 16 tokens, want 5, by the highest count 80"},
		{"a wrong chunk count in the old form", FormDat, one("blk.0.attn_q.weight", []float32{6}, ramp(64)), plain, "got 4 chunks, want a number that divides the 6 calls"},
		{"no calls in the old form", FormDat, one("blk.0.attn_q.weight", []float32{0}, ramp(64)), plain, CheckCounts + ": blk.0.attn_q.weight: got no activations"},
		{"a count that is a fraction", FormGGUF, one("blk.0.attn_q.weight", []float32{64.5}, ramp(64)), plain, "got 1 of 1 counts are no whole numbers"},
		{"a count below zero", FormGGUF, one("blk.0.attn_q.weight", []float32{-64}, ramp(64)), plain, "got 1 of 1 counts are no whole numbers"},
		{"a count that is NaN", FormGGUF, one("blk.0.attn_q.weight", []float32{nan}, ramp(64)), plain, "got 1 of 1 counts are no whole numbers"},
		{"another model's width", FormDat, one("blk.0.attn_q.weight", []float32{4}, ramp(128)), plain, CheckOtherSize + ": blk.0.attn_q.weight: got 128 numbers, 1 counts, want 64 columns × 1 experts"},
		{"another model's experts", FormGGUF, one("blk.0.ffn_up_exps.weight", []float32{64, 64}, ramp(64)), up, "got 64 numbers, 2 counts, want 32 columns × 4 experts"},
		{"another model's tensor", FormGGUF, one("blk.0.attn_qkv.weight", []float32{64}, ramp(64)), plain, CheckForeign + ": blk.0.attn_qkv.weight"},
		{"an output that was asked for", FormGGUF, Content{Datasets: []string{"t"}, Chunks: 4, ChunkSize: 16, Entries: []Data{{"blk.0.attn_q.weight", []float32{64}, ramp(64)}, {"output.weight", []float32{64}, ramp(64)}}},
			append(plain, gguf.TensorInfo{Name: "output.weight", Dims: []uint64{64, 100}}), ""},
		{"two runs mixed", FormGGUF, Content{Datasets: []string{"t"}, Chunks: 4, ChunkSize: 16, Entries: []Data{{"blk.0.attn_k.weight", []float32{32}, ramp(64)}, {"blk.0.attn_q.weight", []float32{64}, ramp(64)}}},
			nil, CheckDisagree + ": blk.0.attn_k.weight: got 32 activations, want 64"},
		{"more activations of an expert than tokens", FormGGUF, Content{Datasets: []string{"t"}, Chunks: 4, ChunkSize: 16, Entries: []Data{{"blk.0.attn_q.weight", []float32{64}, ramp(64)}, {"blk.0.ffn_up_exps.weight", []float32{65, 63}, ramp(64)}}},
			nil, "got 65 activations of expert 0, want at most 64"},
		{"experts that some tokens do not reach", FormGGUF, Content{Datasets: []string{"t"}, Chunks: 4, ChunkSize: 16, Entries: []Data{{"blk.0.attn_q.weight", []float32{64}, ramp(64)}, {"blk.0.ffn_up_exps.weight", []float32{60, 60}, ramp(64)}}},
			nil, "got 120 activations of all experts, want a multiple of 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := matrixOf(t, c.form, c.content).Validate(c.tensors)
			if c.want == "" {
				if len(found) > 0 {
					t.Errorf("got %v, want nothing", found)
				}
				return
			}
			if !contains(found, c.want) {
				t.Errorf("got %v, want a finding that says: %s", found, c.want)
			}
		})
	}
}

func contains(found []kernels.Finding, want string) bool {
	for _, f := range found {
		if strings.Contains(f.String(), want) {
			return true
		}
	}
	return false
}

// TestWeightsAsLlamaQuantizeTakesThem: counts are rounded, an expert without one weighs 1.
func TestWeightsAsLlamaQuantizeTakesThem(t *testing.T) {
	m := matrixOf(t, FormGGUF, Content{Datasets: []string{"t"}, Chunks: 1, ChunkSize: 1, Entries: []Data{{"x", []float32{2.5, 0}, []float32{3, 6, 9, 12}}}})
	w, ok, err := m.Weights("x")
	if err != nil || !ok || w[0] != 1 || w[1] != 2 || w[2] != 1 || w[3] != 1 {
		t.Errorf("got %v, %v, %v; want 1 2 1 1", w, ok, err)
	}
	d := matrixOf(t, FormDat, Content{Chunks: 1, Entries: []Data{{"x", []float32{0}, []float32{3, 6}}, {"y", []float32{3}, []float32{3, 6}}}})
	for name, want := range map[string]float32{"x": 6, "y": 2} {
		if w, _, err := d.Weights(name); err != nil || w[1] != want {
			t.Errorf("%s: got %v, %v; want %v", name, w, err, want)
		}
	}
	nan := matrixOf(t, FormGGUF, Content{Datasets: []string{"t"}, Chunks: 1, ChunkSize: 1, Entries: []Data{{"x", []float32{float32(math.NaN())}, []float32{3}}}})
	if _, _, err := nan.Weights("x"); err == nil || !strings.Contains(err.Error(), "count of expert 0: got NaN") {
		t.Errorf("got %v, want the count refused", err)
	}
}

// TestGGUFRefuses: what llama-quantize cannot read, and what two readers would read differently.
func TestGGUFRefuses(t *testing.T) {
	keys := []gguf.KV{{Key: keyDatasets, Value: gguf.Strings([]string{"t"})}, {Key: keyChunks, Value: gguf.Uint32(1)}, {Key: keyChunkSize, Value: gguf.Uint32(1)}}
	f32 := func(name string, dims ...uint64) gguf.TensorSource {
		n := uint64(1)
		for _, d := range dims {
			n *= d
		}
		return gguf.TensorSource{Name: name, Dims: dims, Type: gguf.F32, Data: writer(make([]float32, n))}
	}
	f16 := gguf.TensorSource{Name: "x.counts", Dims: []uint64{1}, Type: gguf.F16, Data: func(w io.Writer) error { _, err := w.Write([]byte{0, 0}); return err }}
	for _, c := range []struct {
		name    string
		kvs     []gguf.KV
		tensors []gguf.TensorSource
		want    string
	}{
		{"sums without counts", keys, []gguf.TensorSource{f32("x.in_sum2", 4)}, `got no tensor "x.counts"`},
		{"counts without sums", keys, []gguf.TensorSource{f32("x.counts", 1)}, `got no tensor "x.in_sum2"`},
		{"counts that do not divide the sums", keys, []gguf.TensorSource{f32("x.in_sum2", 4), f32("x.counts", 1, 3)}, "got 3 counts for sums of shape [4]"},
		{"counts along the wrong dimension", keys, []gguf.TensorSource{f32("x.in_sum2", 4, 2), f32("x.counts", 4)}, "got 4 counts for sums of shape [4 2]"},
		{"counts of another type", keys, []gguf.TensorSource{f32("x.in_sum2", 4), f16}, "got type F16, want F32"},
		{"a weight without a name", keys, []gguf.TensorSource{f32(".in_sum2", 4), f32(".counts", 1)}, "a weight without a name"},
		{"no entries", keys, []gguf.TensorSource{f32("x", 4)}, "but no importance matrix"},
		{"no chunk count", append([]gguf.KV{keys[0]}, keys[2]), []gguf.TensorSource{f32("x.in_sum2", 4), f32("x.counts", 1)}, `key "imatrix.chunk_count": got none`},
		{"no texts", keys[1:], []gguf.TensorSource{f32("x.in_sum2", 4), f32("x.counts", 1)}, `key "imatrix.datasets": got none`},
		{"texts that are one text", append([]gguf.KV{{Key: keyDatasets, Value: gguf.String("t")}}, keys[1:]...), []gguf.TensorSource{f32("x.in_sum2", 4), f32("x.counts", 1)}, "want an array of strings"},
		{"a chunk size of another type", append(keys[:2:2], gguf.KV{Key: keyChunkSize, Value: gguf.Int64(1)}), []gguf.TensorSource{f32("x.in_sum2", 4), f32("x.counts", 1)}, "want a UINT32 below 2^31"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := gguf.Write(&b, c.kvs, c.tensors); err != nil {
				t.Fatal(err)
			}
			_, err := Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says: %s", err, c.want)
			}
		})
	}
}

// TestWhatNothingReadsIsNamed: tensors beside sums and counts.
func TestWhatNothingReadsIsNamed(t *testing.T) {
	keys := []gguf.KV{{Key: keyDatasets, Value: gguf.Strings([]string{"t"})}, {Key: keyChunks, Value: gguf.Uint32(1)}, {Key: keyChunkSize, Value: gguf.Uint32(1)}}
	var b bytes.Buffer
	var tensors []gguf.TensorSource
	for _, name := range []string{"x.in_sum2", "x.counts", "x.in_sum"} {
		tensors = append(tensors, gguf.TensorSource{Name: name, Dims: []uint64{1}, Type: gguf.F32, Data: writer([]float32{1})})
	}
	if err := gguf.Write(&b, keys, tensors); err != nil {
		t.Fatal(err)
	}
	if m := open(t, b.Bytes()); len(m.Ignored) != 1 || m.Ignored[0] != "x.in_sum" {
		t.Errorf("got %q, want x.in_sum", m.Ignored)
	}
}
