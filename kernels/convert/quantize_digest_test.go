package convert

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
	"github.com/weighmaster/weighmaster/kernels/quant"
	"github.com/weighmaster/weighmaster/kernels/recipe"
)

// digests is what the real llama-quantize made: see fixtures/recipes/README.md.
const digests = "../../fixtures/recipes/digests.json"

// noise gives weights that are the same on every platform, most small and some large.
func noise(r *rand.Rand, n uint64) []float32 {
	s := make([]float32, n)
	for i := range s {
		x := float32(r.Int32()-1<<30) / (1 << 30)
		s[i] = float32(float32(x*x)*x) / 16
	}
	return s
}

// mixture is a small mixture of experts with everything that a header and an
// order can get wrong: keys that move, tensors out of order, layers 2 and 10.
func mixture(t testing.TB, typ gguf.Type) []byte {
	t.Helper()
	to, err := quant.NewQuantizer(typ, quant.Plain)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var tensors []gguf.TensorSource
	add := func(name string, typ gguf.Type, dims ...uint64) {
		n := uint64(1)
		for _, d := range dims {
			n *= d
		}
		weights := noise(r, n)
		tensors = append(tensors, gguf.TensorSource{Name: name, Dims: dims, Type: typ, Data: func(w io.Writer) error {
			if typ == gguf.F32 {
				return binary.Write(w, binary.LittleEndian, weights)
			}
			size, err := typ.Size(dims)
			if err != nil {
				return err
			}
			b := make([]byte, size)
			to.Rows(b, weights, int(dims[0]), nil)
			_, err = w.Write(b)
			return err
		}})
	}
	add("output.weight", typ, 256, 32)
	for n := 10; n >= 0; n-- {
		if n%4 != 2 {
			continue
		}
		layer := fmt.Sprintf("blk.%d.", n)
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			add(layer+name+".weight", typ, 256, 24)
		}
		add(layer+"ffn_gate_inp.weight", gguf.F32, 256, 4)
		add(layer+"attn_norm.weight", gguf.F32, 256)
		for _, name := range []string{"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"} {
			add(layer+name+".weight", typ, 256, 12, 4)
		}
	}
	add("token_embd.weight", typ, 256, 32)
	var b bytes.Buffer
	err = gguf.Write(&b, []gguf.KV{
		{Key: "general.architecture", Value: gguf.String("llama")}, {Key: "general.file_type", Value: gguf.Uint32(1)},
		{Key: "general.quantization_version", Value: gguf.Uint32(2)}, {Key: "general.name", Value: gguf.String("Mixture")},
		{Key: "llama.block_count", Value: gguf.Uint32(11)}, {Key: "llama.context_length", Value: gguf.Uint32(64)},
		{Key: "llama.embedding_length", Value: gguf.Uint32(256)}, {Key: "llama.feed_forward_length", Value: gguf.Uint32(256)},
		{Key: "llama.attention.head_count", Value: gguf.Uint32(8)}, {Key: "llama.attention.head_count_kv", Value: gguf.Uint32(2)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: gguf.Float32(1e-5)}, {Key: "llama.vocab_size", Value: gguf.Uint32(32)},
		{Key: "llama.expert_count", Value: gguf.Uint32(4)}, {Key: "llama.expert_used_count", Value: gguf.Uint32(2)},
		{Key: "quantize.imatrix.file", Value: gguf.String("an older one")}, {Key: "tokenizer.ggml.model", Value: gguf.String("none")},
	}, tensors)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// mixtureMatrix is a matrix with an expert that was never used, a tensor that
// is missing, one of the output, and one of the embedding that does not fit and is not used.
func mixtureMatrix(t testing.TB, form string) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	c := imatrix.Content{Datasets: []string{"a first text", "a second"}, Chunks: 5, ChunkSize: 20}
	add := func(name string, counts []float32, n uint64) {
		sums := noise(r, n)
		for i, s := range sums {
			sums[i] = float32(s*s) + 1e-6
		}
		if form == imatrix.FormDat {
			counts = counts[:1]
		}
		c.Entries = append(c.Entries, imatrix.Data{Name: name, Counts: counts, Sums: sums})
	}
	for _, n := range []int{10, 2, 6} {
		layer := fmt.Sprintf("blk.%d.", n)
		for _, name := range []string{"attn_k", "attn_output", "attn_q", "attn_v"} {
			if n != 6 || name != "attn_output" {
				add(layer+name+".weight", []float32{100}, 256)
			}
		}
		for _, name := range []string{"ffn_down_exps", "ffn_gate_exps", "ffn_up_exps"} {
			add(layer+name+".weight", []float32{90, 0, 61, 49}, 1024)
		}
	}
	add("output.weight", []float32{100}, 256)
	add("token_embd.weight", []float32{100}, 128)
	var b bytes.Buffer
	write := imatrix.WriteGGUF
	if form == imatrix.FormDat {
		write = imatrix.WriteDat
	}
	if err := write(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// runs are the command lines to compare: SOURCE OPTIONS… RECIPE.
func runs() []string {
	list := []string{
		"F32 --imatrix-dat Q4_K_M", "F32 --imatrix-dat Q5_0", "F32 --pure Q6_K", "BF16 --output-tensor-type Q8_0 --token-embedding-type Q5_1 Q3_K_L",
		"BF16 --imatrix-gguf --output-tensor-type IQ4_NL Q4_K_S", "F16 --leave-output-tensor Q4_1", "F16 --tensor-type attn_(q|k)=Q8_0 --tensor-type exps=Q4_0 --imatrix-gguf Q5_K_M",
		"Q8_0 --allow-requantize Q4_K_M", "Q8_0 COPY", "F32 --override-kv general.name=str:" + strings.Repeat("ö", 60) + " Q8_0",
		"F32 --override-kv llama.context_length=int:77 --imatrix-gguf Q4_0", "F16 BF16", "F16 F32", "BF16 F16", "F32 F16", "F32 BF16",
	}
	for _, r := range recipe.Recipes() {
		if quant.Recomputed(r.Default) && r.Default.Quantized() {
			list = append(list, "F16 "+r.Name, "F16 --imatrix-gguf "+r.Name)
		}
	}
	return slices.DeleteFunc(list, func(s string) bool { return strings.HasSuffix(s, " Q2_K_S") }) // it needs a matrix with every tensor
}

// quantizeOptions reads a command line's options.
func quantizeOptions(t testing.TB, args []string) QuantizeOptions {
	t.Helper()
	o := QuantizeOptions{Recipe: find(t, args[len(args)-1])}
	typ := func(s string) *gguf.Type {
		typ, ok := gguf.ParseType(s)
		if !ok {
			t.Fatalf("unknown type %s", s)
		}
		return &typ
	}
	for args = args[:len(args)-1]; len(args) > 0; args = args[1:] {
		switch args[0] {
		case "--pure":
			o.Types.Pure = true
		case "--leave-output-tensor":
			o.Types.LeaveOutput = true
		case "--allow-requantize":
			o.Requantize = true
		case "--imatrix-gguf", "--imatrix-dat":
			form := strings.TrimPrefix(args[0], "--imatrix-")
			b := mixtureMatrix(t, form)
			m, err := imatrix.Open(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			o.Matrix, o.MatrixFile = m, "matrix."+form
		case "--output-tensor-type":
			o.Types.Output, args = typ(args[1]), args[1:]
		case "--token-embedding-type":
			o.Types.TokenEmbedding, args = typ(args[1]), args[1:]
		case "--tensor-type":
			v, err := recipe.ParseOverride(args[1])
			if err != nil {
				t.Fatal(err)
			}
			o.Types.Overrides, args = append(o.Types.Overrides, v), args[1:]
		case "--override-kv":
			key, value, _ := strings.Cut(args[1], "=")
			kind, value, _ := strings.Cut(value, ":")
			v := gguf.String(value)
			if kind == "int" {
				v = gguf.Uint32(77)
			}
			o.Overrides, args = append(o.Overrides, gguf.KV{Key: key, Value: v}), args[1:]
		default:
			t.Fatalf("unknown option %s", args[0])
		}
	}
	return o
}

// TestMixturesEqualLlamaQuantizes compares whole files by digest: every
// recomputed recipe from F16, F32, BF16 and Q8_0, with matrices in both forms.
func TestMixturesEqualLlamaQuantizes(t *testing.T) {
	redigest(t)
	b, err := os.ReadFile(digests)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]godigest.Digest
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(slices.Sorted(slices.Values(runs())), slices.Sorted(maps.Keys(want))) {
		t.Errorf("the fixture holds %d runs, want these %d", len(want), len(runs()))
	}
	sources := map[string][]byte{}
	for run, digest := range want {
		args := strings.Fields(run)
		typ, _ := gguf.ParseType(args[0])
		if sources[args[0]] == nil {
			sources[args[0]] = mixture(t, typ)
		}
		src, err := gguf.Open(bytes.NewReader(sources[args[0]]), int64(len(sources[args[0]])))
		if err != nil {
			t.Fatal(err)
		}
		if got := godigest.FromBytes(made(t, src, quantizeOptions(t, args[1:]))); got != digest {
			t.Errorf("%s: got %s, want %s", run, got, digest)
		}
	}
}

// redigest asks the real tool, where LLAMA_QUANTIZE names it, and writes the digests anew.
func redigest(t *testing.T) {
	tool := os.Getenv("LLAMA_QUANTIZE")
	if tool == "" {
		return
	}
	dir := t.TempDir()
	files := map[string][]byte{"matrix.gguf": mixtureMatrix(t, imatrix.FormGGUF), "matrix.dat": mixtureMatrix(t, imatrix.FormDat)}
	for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0} {
		files[typ.String()] = mixture(t, typ)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made := map[string]godigest.Digest{}
	for _, run := range runs() {
		args := strings.Fields(run)
		line := []string{}
		for _, a := range args[1 : len(args)-1] {
			if form, is := strings.CutPrefix(a, "--imatrix-"); is {
				line = append(line, "--imatrix", "matrix."+form)
			} else {
				line = append(line, a)
			}
		}
		cmd := exec.Command(tool, append(line, args[0], "out.gguf", args[len(args)-1], "1")...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", run, err, out)
		}
		b, err := os.ReadFile(filepath.Join(dir, "out.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		made[run] = godigest.FromBytes(b)
	}
	b, err := json.MarshalIndent(made, "", " ")
	if err := errors.Join(err, os.WriteFile(digests, append(b, '\n'), 0o644)); err != nil {
		t.Fatal(err)
	}
}
