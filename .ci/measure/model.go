package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sort"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// The shape of the model: that of a Llama of 1.1 billion weights at 16 layers.
const (
	hidden, inner, heads, kvHeads, vocab = 2048, 8192, 32, 8, 32000
	headDim                              = hidden / heads
)

// model is the folder of the random model and its products.
type model struct {
	dir    string
	layers int
}

func (m model) path(name string) string { return filepath.Join(m.dir, name) }

// product is what llama-quantize makes of the model.
type product struct {
	recipe string
	flags  []string
	matrix bool
}

var products = []product{
	{recipe: "Q8_0"}, {recipe: "Q6_K"}, {recipe: "Q5_K_M"}, {recipe: "Q4_K_M"},
	{recipe: "Q6_K", matrix: true}, {recipe: "Q5_K_M", matrix: true}, {recipe: "Q4_K_M", matrix: true},
}

func (p product) file() string {
	if p.matrix {
		return p.recipe + "-im.gguf"
	}
	return p.recipe + ".gguf"
}

// make writes what is not there yet.
func (m model) make(ctx context.Context) error {
	if err := os.MkdirAll(m.path("snapshot"), 0o755); err != nil {
		return err
	}
	if err := once(m.path("snapshot/model.safetensors"), func(w io.Writer) error { return writeWeights(w, m.layers) }); err != nil {
		return err
	}
	if err := m.writeFiles(); err != nil {
		return err
	}
	bf16 := func(w io.Writer) error {
		opened, err := convert.Open(os.DirFS(m.path("snapshot")))
		if err != nil {
			return err
		}
		defer opened.Close()
		return opened.Write(ctx, w, convert.Options{Name: "Random"})
	}
	for _, name := range []string{"BF16.gguf", "BF16-copy.gguf"} {
		if err := once(m.path(name), bf16); err != nil {
			return err
		}
	}
	if err := once(m.path("imatrix.gguf"), func(w io.Writer) error { return writeMatrix(w, m.layers) }); err != nil {
		return err
	}
	quantize := os.Getenv("WEIGHMASTER_LLAMA_QUANTIZE")
	if quantize == "" {
		return nil
	}
	for _, p := range products {
		if _, err := os.Stat(m.path(p.file())); err == nil {
			continue
		}
		args := append([]string{}, p.flags...)
		if p.matrix {
			args = append(args, "--imatrix", m.path("imatrix.gguf"))
		}
		args = append(args, m.path("BF16.gguf"), m.path(p.file()+".partial"), p.recipe)
		if out, err := exec.CommandContext(ctx, quantize, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("llama-quantize %s: %w\n%.2000s", p.file(), err, out)
		}
		if err := os.Rename(m.path(p.file()+".partial"), m.path(p.file())); err != nil {
			return err
		}
	}
	return nil
}

// once writes a file that is not there yet.
func once(path string, write func(io.Writer) error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	f, err := os.Create(path + ".partial")
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(write(w), w.Flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".partial", path)
}

// writeFiles writes the config, and the embedded example model's tokenizer.
func (m model) writeFiles() error {
	config, err := json.Marshal(map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "hidden_act": "silu", "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": m.layers,
		"num_attention_heads": heads, "num_key_value_heads": kvHeads, "vocab_size": vocab, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
		"rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16",
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.path("snapshot/config.json"), config, 0o644); err != nil {
		return err
	}
	for _, name := range []string{"tokenizer.model", "tokenizer_config.json"} {
		body, err := fs.ReadFile(fixtures.Snapshot(), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(m.path("snapshot/"+name), body, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func shapes(layers int) map[string][]int {
	all := map[string][]int{"model.embed_tokens.weight": {vocab, hidden}, "lm_head.weight": {vocab, hidden}, "model.norm.weight": {hidden}}
	for i := range layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		for name, shape := range map[string][]int{
			"input_layernorm": {hidden}, "post_attention_layernorm": {hidden}, "self_attn.q_proj": {hidden, hidden}, "self_attn.o_proj": {hidden, hidden},
			"self_attn.k_proj": {kvHeads * headDim, hidden}, "self_attn.v_proj": {kvHeads * headDim, hidden},
			"mlp.gate_proj": {inner, hidden}, "mlp.up_proj": {inner, hidden}, "mlp.down_proj": {hidden, inner},
		} {
			all[at+name+".weight"] = shape
		}
	}
	return all
}

// writeWeights writes a safetensors file of BF16 weights with the tails of real ones.
func writeWeights(w io.Writer, layers int) error {
	all := shapes(layers)
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, at := map[string]entry{}, 0
	for _, name := range names {
		n := 2
		for _, d := range all[name] {
			n *= d
		}
		header[name] = entry{"BF16", all[name], [2]int{at, at + n}}
		at += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	if _, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)); err != nil {
		return err
	}
	state, block := uint64(1), make([]byte, 1<<16)
	for ; at > 0; at -= len(block) {
		block = block[:min(len(block), at)]
		for i := 0; i < len(block); i += 2 {
			state = state*6364136223846793005 + 1442695040888963407
			// The sum of four uniform numbers, cubed a little: near zero mostly, a few far out.
			u := float64(state>>48) + float64(state>>32&0xFFFF) + float64(state>>20&0xFFFF) + float64(state>>8&0xFFFF)
			x := (u/(2*0xFFFF) - 1) * 2
			binary.LittleEndian.PutUint16(block[i:], uint16(math.Float32bits(float32(0.03*x*(0.4+x*x)))>>16))
		}
		if _, err := w.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// writeMatrix writes an importance matrix for every matrix but the embedding and the output.
func writeMatrix(w io.Writer, layers int) error {
	state := uint64(7)
	floats := func(n int, f func(float64) float64) func(io.Writer) error {
		body := make([]byte, 4*n)
		for i := range n {
			state = state*6364136223846793005 + 1442695040888963407
			binary.LittleEndian.PutUint32(body[4*i:], math.Float32bits(float32(f(float64(state>>40)/(1<<24)))))
		}
		return func(w io.Writer) error { _, err := io.Copy(w, bytes.NewReader(body)); return err }
	}
	var tensors []gguf.TensorSource
	for i := range layers {
		for _, part := range []struct {
			name  string
			width int
		}{{"attn_q", hidden}, {"attn_k", hidden}, {"attn_v", hidden}, {"attn_output", hidden}, {"ffn_gate", hidden}, {"ffn_up", hidden}, {"ffn_down", inner}} {
			name := fmt.Sprintf("blk.%d.%s.weight", i, part.name)
			tensors = append(tensors,
				gguf.TensorSource{Name: name + ".in_sum2", Dims: []uint64{uint64(part.width), 1}, Type: gguf.F32, Data: floats(part.width, func(u float64) float64 { return 512 * (0.01 + u*u*u) })},
				gguf.TensorSource{Name: name + ".counts", Dims: []uint64{1, 1}, Type: gguf.F32, Data: floats(1, func(float64) float64 { return 512 })})
		}
	}
	return gguf.Write(w, []gguf.KV{
		{Key: "general.type", Value: gguf.String("imatrix")}, {Key: "imatrix.datasets", Value: gguf.Strings([]string{"random"})},
		{Key: "imatrix.chunk_count", Value: gguf.Uint32(1)}, {Key: "imatrix.chunk_size", Value: gguf.Uint32(512)},
	}, tensors)
}
