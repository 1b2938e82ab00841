package derive

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// rewritten is a real product with keys or tensors changed before it is written again.
type rewritten struct {
	kvs     []gguf.KV
	tensors []gguf.TensorSource
	bodies  map[string][]byte
}

func rewrite(t *testing.T, path string, change func(t *testing.T, r *rewritten)) File {
	t.Helper()
	in := readFile(t, path)
	f, err := gguf.Open(in.R, in.Size)
	if err != nil {
		t.Fatal(err)
	}
	r := &rewritten{kvs: append([]gguf.KV(nil), f.KVs...), bodies: map[string][]byte{}}
	for _, info := range f.Tensors {
		body, err := io.ReadAll(f.Section(info))
		if err != nil {
			t.Fatal(err)
		}
		r.bodies[info.Name] = body
		r.tensors = append(r.tensors, gguf.TensorSource{Name: info.Name, Dims: info.Dims, Type: info.Type})
	}
	change(t, r)
	for i := range r.tensors {
		name := r.tensors[i].Name
		r.tensors[i].Data = func(w io.Writer) error { _, err := w.Write(r.bodies[name]); return err }
	}
	var out bytes.Buffer
	if err := gguf.Write(&out, r.kvs, r.tensors); err != nil {
		t.Fatal(err)
	}
	return File{R: bytes.NewReader(out.Bytes()), Size: int64(out.Len())}
}

func (r *rewritten) set(key string, v gguf.Value) {
	for i := range r.kvs {
		if r.kvs[i].Key == key {
			r.kvs[i].Value = v
			return
		}
	}
	r.kvs = append(r.kvs, gguf.KV{Key: key, Value: v})
}

func (r *rewritten) drop(key string) {
	for i := range r.kvs {
		if r.kvs[i].Key == key {
			r.kvs = append(r.kvs[:i], r.kvs[i+1:]...)
			return
		}
	}
}

// rows gives a tensor's rows another order.
func (r *rewritten) rows(name string, count int64, order convert.Order) {
	body := r.bodies[name]
	width := int64(len(body)) / count
	out := make([]byte, 0, len(body))
	for row := range count {
		out = append(out, body[order(row)*width:][:width]...)
	}
	r.bodies[name] = out
}

// inverse undoes an order of n rows.
func inverse(n int64, order convert.Order) convert.Order {
	back := make([]int64, n)
	for row := range n {
		back[order(row)] = row
	}
	return func(row int64) int64 { return back[row] }
}

// TestTamperedProductsFail changes a real product in one way each and asserts
// the one finding that says so.
func TestTamperedProductsFail(t *testing.T) {
	dir := shared.Path(t, "data", "llama-grouped")
	source := Input{Snapshot: os.DirFS(filepath.Join(dir, "hf"))}
	q := convert.HeadOrder(256, 8) // of blk.1.attn_q: 8 heads of 32
	k := convert.HeadOrder(64, 2)  // of blk.1.attn_k: 2 heads of 32
	for i, c := range []struct {
		name, file string
		change     func(t *testing.T, r *rewritten)
		want       []string // parts of the one finding
	}{
		{"one bit of a BF16 weight", "BF16.gguf", func(t *testing.T, r *rewritten) { r.bodies["blk.2.ffn_up.weight"][2*(256*7+9)] ^= 1 },
			[]string{"values: tensor blk.2.ffn_up.weight row 7 column 9: got 0x", "1 of 196608 weights of this tensor differ"}},
		{"Q rows not permuted", "BF16.gguf", func(t *testing.T, r *rewritten) { r.rows("blk.1.attn_q.weight", 256, inverse(256, q)) },
			[]string{"permutation: tensor blk.1.attn_q.weight", "no permutation", "want those of 8 heads"}},
		{"Q rows permuted twice", "BF16.gguf", func(t *testing.T, r *rewritten) { r.rows("blk.1.attn_q.weight", 256, q) },
			[]string{"permutation: tensor blk.1.attn_q.weight", "a permutation for 8 heads done twice, want once"}},
		{"K rows permuted for the query heads", "BF16.gguf", func(t *testing.T, r *rewritten) {
			back := inverse(64, k)
			wrong := convert.HeadOrder(64, 8)
			r.rows("blk.1.attn_k.weight", 64, func(row int64) int64 { return back(wrong(row)) })
		}, []string{"permutation: tensor blk.1.attn_k.weight", "a permutation for 8 heads, want 2"}},
		{"Q rows not permuted, in Q8_0", "Q8_0.gguf", func(t *testing.T, r *rewritten) { r.rows("blk.1.attn_q.weight", 256, inverse(256, q)) },
			[]string{"permutation: tensor blk.1.attn_q.weight", "no permutation"}},
		{"one Q8_0 scale", "Q8_0.gguf", func(t *testing.T, r *rewritten) { r.bodies["output.weight"][34*9] ^= 1 },
			[]string{"values: tensor output.weight row 1 block 1: got scale 0x", "1 of 4096 blocks"}},
		{"one Q8_0 code", "Q8_0.gguf", func(t *testing.T, r *rewritten) { r.bodies["output.weight"][34*9+2+31]++ },
			[]string{"values: tensor output.weight row 1 block 1: got code ", " at 31, want code "}},
		{"one ulp of a norm", "BF16.gguf", func(t *testing.T, r *rewritten) { r.bodies["output_norm.weight"][4*100] ^= 1 },
			[]string{"values: tensor output_norm.weight row 0 column 100: got 0x"}},
		{"a RoPE factor", "BF16.gguf", func(t *testing.T, r *rewritten) { r.bodies["rope_freqs.weight"][4*4] ^= 0x10 },
			[]string{"values: tensor rope_freqs.weight: got 1.3752", "within 4 ulp", "RoPE scaling does not follow config.json"}},
		{"RoPE factors left out", "BF16.gguf", func(t *testing.T, r *rewritten) { r.tensors = r.tensors[1:] },
			[]string{"inventory: tensor rope_freqs.weight: got no such tensor"}},
		{"a missing tensor", "BF16.gguf", func(t *testing.T, r *rewritten) { r.tensors = r.tensors[:len(r.tensors)-1] },
			[]string{"inventory: tensor output_norm.weight: got no such tensor, want the product of model.norm.weight"}},
		{"an extra tensor", "BF16.gguf", func(t *testing.T, r *rewritten) {
			r.bodies["blk.0.extra.weight"] = make([]byte, 4)
			r.tensors = append(r.tensors, gguf.TensorSource{Name: "blk.0.extra.weight", Dims: []uint64{1}, Type: gguf.F32})
		}, []string{"inventory: tensor blk.0.extra.weight: got a tensor that the source does not have"}},
		{"a transposed shape", "BF16.gguf", func(t *testing.T, r *rewritten) { r.tensors[3].Dims = []uint64{256, 768} },
			[]string{"shape: tensor blk.0.ffn_down.weight: got [256 768], want [768 256]"}},
		{"a norm in BF16", "BF16.gguf", func(t *testing.T, r *rewritten) {
			r.tensors[2].Type = gguf.BF16
			r.bodies["blk.0.attn_norm.weight"] = make([]byte, 512)
		}, []string{"type: tensor blk.0.attn_norm.weight: got BF16, want F32"}},
		{"BF16 made from the Q8_0", "BF16.gguf", func(t *testing.T, r *rewritten) {
			body := r.bodies["blk.2.ffn_up.weight"]
			bf16, _ := quant.For(gguf.BF16)
			q8, _ := quant.For(gguf.Q8_0)
			floats, blocks := make([]float32, len(body)/2), make([]byte, q8.Size(int64(len(body)/2)))
			bf16.Dequantize(floats, body)
			q8.Quantize(blocks, floats)
			q8.Dequantize(floats, blocks)
			bf16.Quantize(body, floats)
		}, []string{"values: tensor blk.2.ffn_up.weight", "the values follow the source after a pass through Q8_0: made from a quantized file"}},
		{"RoPE theta lost", "BF16.gguf", func(t *testing.T, r *rewritten) { r.drop("llama.rope.freq_base") },
			[]string{"metadata: key llama.rope.freq_base: got no such key, want 500000"}},
		{"RoPE theta defaulted", "Q8_0.gguf", func(t *testing.T, r *rewritten) { r.set("llama.rope.freq_base", gguf.Float32(10000)) },
			[]string{"metadata: key llama.rope.freq_base: got 10000, want 500000"}},
		{"another context length", "BF16.gguf", func(t *testing.T, r *rewritten) { r.set("llama.context_length", gguf.Uint32(131072)) },
			[]string{"metadata: key llama.context_length: got 131072, want 2048"}},
		{"another RMS epsilon", "BF16.gguf", func(t *testing.T, r *rewritten) {
			r.set("llama.attention.layer_norm_rms_epsilon", gguf.Float32(1e-6))
		}, []string{"metadata: key llama.attention.layer_norm_rms_epsilon"}},
		{"a chat template that the publisher does not have", "BF16.gguf", func(t *testing.T, r *rewritten) { r.set("tokenizer.chat_template", gguf.String("{{ evil }}")) },
			[]string{"metadata: key tokenizer.chat_template: got", "want no such key"}},
		{"another EOS", "BF16.gguf", func(t *testing.T, r *rewritten) { r.set("tokenizer.ggml.eos_token_id", gguf.Uint32(7)) },
			[]string{"metadata: key tokenizer.ggml.eos_token_id: got 7, want 2"}},
		{"BOS no longer added", "BF16.gguf", func(t *testing.T, r *rewritten) { r.set("tokenizer.ggml.add_bos_token", gguf.Bool(false)) },
			[]string{"metadata: key tokenizer.ggml.add_bos_token: got false, want true"}},
		{"a hyper-parameter that the source does not state", "BF16.gguf", func(t *testing.T, r *rewritten) { r.set("llama.rope.scaling.type", gguf.String("yarn")) },
			[]string{"metadata: key llama.rope.scaling.type", "the source does not give it"}},
		{"a label that does not fit", "Q8_0.gguf", func(t *testing.T, r *rewritten) { r.set("general.file_type", gguf.Uint32(32)) },
			[]string{"recipe: tensor output.weight: got Q8_0, want BF16, by general.file_type 32"}},
	} {
		if i%thin != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			report, err := Check(t.Context(), source, rewrite(t, filepath.Join(dir, c.file), c.change), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if report.Verdict != kernels.Failed || len(report.Findings) != 1 {
				t.Fatalf("got %s with %v, want failed with one finding", report.Verdict, report.Findings)
			}
			for _, part := range c.want {
				if !strings.Contains(report.Findings[0].String(), part) {
					t.Errorf("got %s\nwant it to say: %s", report.Findings[0], part)
				}
			}
		})
	}
}

func TestAnHonestRewriteStillPasses(t *testing.T) {
	dir := shared.Path(t, "data", "llama-grouped")
	report, err := Check(t.Context(), Input{Snapshot: os.DirFS(filepath.Join(dir, "hf"))}, rewrite(t, filepath.Join(dir, "BF16.gguf"), func(t *testing.T, r *rewritten) {
		r.set("general.name", gguf.String("another folder")) // a claim
		r.set("llama.attention.key_length", gguf.Uint32(32)) // what a reader assumes anyway
		r.tensors[0], r.tensors[5] = r.tensors[5], r.tensors[0]
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustPass(t, report)
}

func TestTruncatedProductNamesWhatIsMissing(t *testing.T) {
	arithmetic(t)
	dir := shared.Path(t, "data", "llama-grouped")
	whole := readFile(t, filepath.Join(dir, "BF16.gguf"))
	for _, size := range []int64{0, 3, 100, whole.Size / 2, whole.Size - 1} {
		report, err := Check(t.Context(), Input{Snapshot: os.DirFS(filepath.Join(dir, "hf"))}, File{R: io.NewSectionReader(whole.R, 0, size), Size: size}, Options{})
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if report.Verdict != kernels.Failed || len(report.Findings) != 1 || report.Findings[0].Check != "format" {
			t.Errorf("%d bytes: got %s with %v, want failed for its format", size, report.Verdict, report.Findings)
		}
	}
}

func TestOtherTypesAreUndecidedByName(t *testing.T) {
	arithmetic(t)
	dir := shared.Path(t, "data", "llama-grouped")
	report, err := Check(t.Context(), Input{Snapshot: os.DirFS(filepath.Join(dir, "hf"))}, readFile(t, filepath.Join(dir, "more", "IQ3_S.gguf")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Verdict != kernels.Undecided {
		t.Errorf("got %s, want undecided", report.Verdict)
	}
	for _, f := range report.Findings {
		if !strings.Contains(f.Got, "is not recomputed") {
			t.Errorf("got %s, want only what is not recomputed", f)
		}
	}
	if n := metric(report, "tensors/IQ3_S"); n <= 0 {
		t.Errorf("tensors/IQ3_S: got %v, want a count", n)
	}
}

// TestAnUndecidedTypeDoesNotHideADifference: one wrong norm beside IQ3_S fails.
func TestAnUndecidedTypeDoesNotHideADifference(t *testing.T) {
	arithmetic(t)
	dir := shared.Path(t, "data", "llama-grouped")
	report, err := Check(t.Context(), Input{Snapshot: os.DirFS(filepath.Join(dir, "hf"))}, rewrite(t, filepath.Join(dir, "more", "IQ3_S.gguf"), func(t *testing.T, r *rewritten) {
		r.bodies["output_norm.weight"][0] ^= 1
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Verdict != kernels.Failed {
		t.Errorf("got %s, want failed", report.Verdict)
	}
}
