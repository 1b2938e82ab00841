package llama

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

var background = context.Background()

func openGGUF(t testing.TB, path string) Source {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func logits(t testing.TB, m *Model, ids []uint32) []float64 {
	t.Helper()
	var all []float64
	if err := m.Logits(background, [][]uint32{ids}, func(_ int, l []float64) error {
		all = slices.Clone(l)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func load(t testing.TB, s Source) *Model {
	t.Helper()
	m, err := Load(background, s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// llama.cpp's own conversion of a model with llama3 scaling gives the logits of its source, bit for bit.
func TestConvertedByLlamaCppGivesTheSameBits(t *testing.T) {
	for _, name := range []string{"llama-grouped", "llama-odd"} {
		s, err := OpenSnapshot(os.DirFS(shared.Path(t, "data", name, "hf")))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f := openGGUF(t, shared.Path(t, "data", name, "BF16.gguf"))
		a, b := s.Config(), f.Config()
		for i, x := range a.FreqFactors {
			if y := b.FreqFactors[i]; math.Abs(x-y) > 4*(math.Nextafter(x, 100)-x)*float64(1<<29) {
				t.Errorf("%s: frequency factor %d: got %v from config.json, %v from the file, want within 4 float32 steps", name, i, x, y)
			}
		}
		ids := []uint32{1}
		for i := range uint32(60) {
			ids = append(ids, (i*i*7+11*i+3)%uint32(a.Vocab))
		}
		// The converter computes the factors through float32 pow; the rest must be equal in every bit.
		want := logits(t, load(t, altered{Source: s, config: func(c *Config) { c.FreqFactors = b.FreqFactors }}), ids)
		if got := logits(t, load(t, f), ids); !slices.Equal(got, want) {
			t.Errorf("%s: logits of the GGUF differ from the source's", name)
		}
		wrong := altered{Source: f, rows: func(name string, cols int, dst []float64) {
			if strings.HasSuffix(name, "q_proj.weight") || strings.HasSuffix(name, "k_proj.weight") {
				permute(cols, dst, func(r int) int { return fileRow(r, a.HeadDim) })
			}
		}}
		if got := logits(t, load(t, wrong), ids); slices.Equal(got, want) {
			t.Errorf("%s: rows left as the file has them give the same logits", name)
		}
	}
}

// perplexityFile is what llama-perplexity saves: window length, tokens, and log-probabilities in
// 16 bits over at most 16 nats for the second half of each window.
type perplexityFile struct {
	window, vocab, chunks int
	tokens                []int32
	rows                  []byte
}

func readPerplexity(t testing.TB) perplexityFile {
	t.Helper()
	data, err := os.ReadFile(shared.Path(t, "data", "llama-grouped", "perplexity", "BF16.logits.dat"))
	if err != nil {
		t.Fatal(err)
	}
	rest, ok := bytes.CutPrefix(data, []byte("_logits_"))
	if !ok {
		t.Fatal("no magic")
	}
	n := func(i int) int { return int(int32(binary.LittleEndian.Uint32(rest[4*i:]))) }
	p := perplexityFile{window: n(0), vocab: n(1), chunks: n(2)}
	for i := range p.window * p.chunks {
		p.tokens = append(p.tokens, int32(n(3+i)))
	}
	p.rows = rest[4*(3+len(p.tokens)):]
	return p
}

// against compares our logits with the saved ones, in the first windows. KL is
// signed: the saved numbers are rounded, so a row's can come out a little below zero.
func (p perplexityFile) against(t testing.TB, m *Model, windows int) (mean float64, rows, agree int) {
	t.Helper()
	first := p.window / 2
	stride := 2 * (p.vocab + 4 + p.vocab%2)
	for c := range windows {
		ids := []uint32{1} // the tool puts BOS in each window's first place
		for _, id := range p.tokens[c*p.window+1 : (c+1)*p.window] {
			ids = append(ids, uint32(id))
		}
		ours := logits(t, m, ids)
		for i := range p.window - 1 - first {
			saved := p.rows[(c*(p.window-1-first)+i)*stride:][:stride]
			scale := float64(math.Float32frombits(binary.LittleEndian.Uint32(saved)))
			low := float64(math.Float32frombits(binary.LittleEndian.Uint32(saved[4:])))
			lp := make([]float64, p.vocab)
			for j := range lp {
				lp[j] = float64(binary.LittleEndian.Uint16(saved[8+2*j:]))*scale + low
			}
			row := ours[(first+i)*p.vocab:][:p.vocab]
			norm := logNorm(row)
			for j, x := range row {
				mean += math.Exp(lp[j]) * (lp[j] - (x - norm))
			}
			rows++
			if slices.Index(lp, slices.Max(lp)) == slices.Index(row, slices.Max(row)) {
				agree++
			}
		}
	}
	return mean / float64(rows), rows, agree
}

// llama.cpp rounds activations to BF16 and saves 16 bits over 16 nats, so the
// distance is larger than from transformers in float32.
func TestAgainstLlamaCpp(t *testing.T) {
	const bound = 1e-5 // nats
	p := readPerplexity(t)
	src := openGGUF(t, shared.Path(t, "data", "llama-grouped", "BF16.gguf"))
	kl, rows, agree := p.against(t, load(t, src), 4)
	t.Logf("%d rows: mean KL %.3g nats, top-1 %d/%d", rows, kl, agree, rows)
	if rows != 252 || kl > bound || agree*100 < rows*98 {
		t.Errorf("got a mean KL of %v nats, top-1 %d of %d, want at most %v and 98 in 100", kl, agree, rows, bound)
	}
	plain := altered{Source: src, config: func(c *Config) { c.FreqFactors = nil }}
	kl, _, agree = p.against(t, load(t, plain), 4)
	t.Logf("without the llama3 factors: mean KL %.3g nats, top-1 %d/%d", kl, agree, rows)
	if kl <= bound {
		t.Errorf("without the llama3 factors: got a mean KL of %v nats, want more than %v", kl, bound)
	}
}

// written is the example model as a GGUF of one type, made here.
func written(t testing.TB, typ gguf.Type, change func(kvs []gguf.KV, tensors []gguf.TensorSource) ([]gguf.KV, []gguf.TensorSource)) (*gguf.File, error) {
	t.Helper()
	s := example(t)
	c := s.Config()
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: gguf.String("llama")},
		{Key: "llama.block_count", Value: gguf.Uint32(uint32(c.Layers))},
		{Key: "llama.context_length", Value: gguf.Uint32(uint32(c.Context))},
		{Key: "llama.embedding_length", Value: gguf.Uint32(uint32(c.Hidden))},
		{Key: "llama.feed_forward_length", Value: gguf.Uint32(uint32(c.FFN))},
		{Key: "llama.attention.head_count", Value: gguf.Uint32(uint32(c.Heads))},
		{Key: "llama.attention.head_count_kv", Value: gguf.Uint32(uint32(c.KVHeads))},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: gguf.Float32(float32(c.Eps))},
		{Key: "llama.rope.freq_base", Value: gguf.Float32(float32(c.Theta))},
		{Key: "llama.rope.dimension_count", Value: gguf.Uint32(uint32(c.HeadDim))},
		{Key: "tokenizer.ggml.eos_token_id", Value: gguf.Uint32(c.EOS[0])},
	}
	var tensors []gguf.TensorSource
	for _, p := range c.parts() {
		tensors = append(tensors, ggufTensor(t, s, p, typ))
	}
	if change != nil {
		kvs, tensors = change(kvs, tensors)
	}
	var out bytes.Buffer
	if err := gguf.Write(&out, kvs, tensors); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenGGUF(f)
	return f, err
}

func ggufTensor(t testing.TB, s Source, p part, typ gguf.Type) gguf.TensorSource {
	t.Helper()
	values := make([]float64, max(p.rows, 1)*p.cols)
	dims := []uint64{uint64(p.cols)}
	var err error
	if p.rows == 0 {
		typ = gguf.F32
		err = s.Vector(p.name, values)
	} else {
		dims = append(dims, uint64(p.rows))
		err = s.Rows(p.name, p.rows, p.cols, 0, values)
	}
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(p.name, "q_proj.weight") || strings.HasSuffix(p.name, "k_proj.weight") {
		permute(p.cols, values, func(r int) int { return fileRow(r, s.Config().HeadDim) })
	}
	codec, err := quant.Writer(typ)
	if err != nil {
		t.Fatal(err)
	}
	narrow := make([]float32, len(values))
	for i, v := range values {
		narrow[i] = float32(v)
	}
	raw := make([]byte, codec.Size(int64(len(values))))
	codec.Quantize(raw, narrow)
	return gguf.TensorSource{Name: ggufName(p.name), Dims: dims, Type: typ, Data: func(w io.Writer) error { _, err := w.Write(raw); return err }}
}

// The example model as a GGUF: the same bits from BF16, and about the same from Q8_0.
func TestExampleAsGGUF(t *testing.T) {
	ids := texts(t)[0].IDs
	want := logits(t, load(t, example(t)), ids)
	f, err := written(t, gguf.BF16, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	if got := logits(t, load(t, s), ids); !slices.Equal(got, want) {
		t.Error("BF16: logits differ from the snapshot's")
	}
	f, err = written(t, gguf.Q8_0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = OpenGGUF(f); err != nil {
		t.Fatal(err)
	}
	var d distance
	got, v := logits(t, load(t, s), ids), s.Config().Vocab
	for p := 0; p < len(got); p += v {
		ref := make([]float32, v)
		for i := range ref {
			ref[i] = float32(want[p+i])
		}
		d.add(ref, got[p:p+v])
	}
	t.Logf("Q8_0: largest KL %.3g nats, largest log-probability difference %.3g nats, top-1 %d/%d", d.kl, d.diff, d.agree, d.rows)
	if d.kl == 0 || d.kl > 0.2 {
		t.Errorf("Q8_0: got a largest KL of %v, want rounding of 8 bits", d.kl)
	}
}

func TestGGUFIsRefusedByName(t *testing.T) {
	type kvs = []gguf.KV
	type tensors = []gguf.TensorSource
	set := func(key string, v gguf.Value) func(kvs, tensors) (kvs, tensors) {
		return func(k kvs, s tensors) (kvs, tensors) {
			k = slices.DeleteFunc(k, func(x gguf.KV) bool { return x.Key == key })
			return append(k, gguf.KV{Key: key, Value: v}), s
		}
	}
	for name, c := range map[string]struct {
		change func(kvs, tensors) (kvs, tensors)
		want   string
	}{
		"another architecture": {set("general.architecture", gguf.String("qwen2")), "general.architecture"},
		"experts":              {set("llama.expert_count", gguf.Uint32(8)), "llama.expert_count"},
		"yarn":                 {set("llama.rope.scaling.type", gguf.String("yarn")), "llama.rope.scaling.type"},
		"part of a head":       {set("llama.rope.dimension_count", gguf.Uint32(16)), "rope.dimension_count"},
		"heads of text":        {set("llama.attention.head_count", gguf.String("8")), "head_count"},
		"no heads":             {set("llama.attention.head_count", gguf.Uint32(0)), "heads"},
		"other grouping":       {set("llama.attention.head_count_kv", gguf.Uint32(4)), "attn_k.weight"},
		"2^32-1 layers":        {set("llama.block_count", gguf.Uint32(1<<32-1)), "block_count"},
		"epsilon zero":         {set("llama.attention.layer_norm_rms_epsilon", gguf.Float32(0)), "epsilon"},
		"a bias": {func(k kvs, s tensors) (kvs, tensors) {
			b := s[1]
			b.Name = "blk.0.attn_q.bias"
			return k, append(s, b)
		}, "blk.0.attn_q.bias"},
		"a tensor missing": {func(k kvs, s tensors) (kvs, tensors) { return k, s[:len(s)-1] }, "blk.2.ffn_down.weight"},
		"another shape": {func(k kvs, s tensors) (kvs, tensors) {
			i := slices.IndexFunc(s, func(x gguf.TensorSource) bool { return x.Name == "blk.1.attn_v.weight" })
			s[i].Dims = []uint64{s[i].Dims[1], s[i].Dims[0]}
			return k, s
		}, "blk.1.attn_v.weight"},
	} {
		if _, err := written(t, gguf.BF16, c.change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error about %s", name, err, c.want)
		}
	}
}
