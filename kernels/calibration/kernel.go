package calibration

import (
	"bytes"
	"context"
	"fmt"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
)

// Kernel describes what finalizes an importance matrix.
func Kernel() kernels.Kernel {
	k := kernels.Kernel{
		Name:    "calibration",
		Version: "1.0.0",
		Spec:    "https://github.com/ggml-org/llama.cpp/blob/master/tools/imatrix/imatrix.cpp",
		Summary: "An importance matrix is of the whole run that was asked for, its counts agree, and it is bound to model, corpus and binary.",
		Limits:  kernelLimits(),
		Gates: []kernels.Gate{
			{Metric: "chunks", Unit: "chunks", Compare: kernels.AtLeast, Value: 1},
			{Metric: "chunk_size", Unit: "tokens", Compare: kernels.AtLeast, Value: 1},
			{Metric: "processed_tokens", Unit: "tokens", Compare: kernels.AtLeast, Value: 1},
			{Metric: "selected_tokens", Unit: "tokens", Compare: kernels.AtLeast, Value: 1},
			{Metric: "entries", Unit: "weights", Compare: kernels.AtLeast, Value: 1},
		},
	}
	for _, c := range controls {
		k.Faults = append(k.Faults, c.fault)
	}
	k.SelfCheck = func(ctx context.Context) (kernels.Report, error) {
		all, err := Finalize(ctx, sample())
		return all.Calibration, err
	}
	return k
}

// controls change one thing of a run that is accepted; check is what has to be found.
var controls = []struct {
	name, fault, check string
	plant              func(*Run)
}{
	{"the matrix of the first half of the run", "half of the run", CheckChunks, func(r *Run) { r.matrix(1, 16, 16, "text") }},
	{"one chunk more asked for", "wrong chunk count", CheckChunks, func(r *Run) { r.Chunks = 1 }},
	{"another chunk size asked for", "wrong chunk size", CheckSize, func(r *Run) { r.ChunkSize = 8 }},
	{"a corpus of fewer tokens", "corpus too short", CheckCorpus, func(r *Run) { r.Selected, r.Chunks = 31, 2 }},
	{"a matrix with an earlier one in it", "merged matrix", CheckTexts, func(r *Run) { r.matrix(2, 16, 32, "earlier", "text") }},
	{"more activations than tokens", "other activations", CheckTokens, func(r *Run) { r.matrix(2, 16, 33, "text") }},
	{"an entry less", "missing entry", imatrix.CheckMissing, func(r *Run) { r.without() }},
	{"the log's end cut off", "log cut", CheckLog, func(r *Run) { r.Log = r.Log[:bytes.Index(r.Log, []byte("llama_perf"))] }},
	{"other tokens at the log's end", "other token count", CheckTokens, func(r *Run) { r.Log = bytes.Replace(r.Log, []byte("32 tokens"), []byte("16 tokens"), 1) }},
	{"weights on another device", "weights elsewhere", "weights on another device", func(r *Run) { r.Devices = []string{"CUDA0"} }},
	{"more tokens at the log's end than a part of them can be", "other part of the tokens", CheckTokens, func(r *Run) {
		r.NoPerplexity, r.Log = true, bytes.Replace(r.Log, []byte("32 tokens"), []byte("33 tokens"), 1)
	}},
	{"an error of the tool", "error of the tool", CheckWords, func(r *Run) {
		r.Log = append(bytes.Clone(r.Log), "collect_imatrix: non-finite values detected in blk.0.attn_q.weight\n"...)
	}},
	{"no digest of the binary", "unbound matrix", CheckBound, func(r *Run) { r.Bound = r.Bound[:2] }},
	{"a vocabulary that cannot be read", "corpus not counted", CheckLog, func(r *Run) { r.Selected = -1 }},
}

// plant runs every control over the built-in run: the faults are in numbers, which every run has.
func plant(ctx context.Context, c *kernels.Controls) error {
	for _, control := range controls {
		run := sample()
		control.plant(&run)
		_, found, err := assess(ctx, run)
		if err != nil {
			return fmt.Errorf("control %q: %w", control.name, err)
		}
		c.Judge(control.name, control.fault, found, func(f kernels.Finding) bool { return f.Check == control.check })
	}
	return ctx.Err()
}

const sampleLog = `llama_model_loader: loaded meta data with 9 key-value pairs and 1 tensors from model.gguf (version GGUF V3 (latest))
load_tensors: loading model tensors, this can take a while... (load_mode = mmap)
load_tensors:   CPU_Mapped model buffer size =     4.00 MiB
llama_context: constructing llama_context
compute_imatrix: computing over 2 chunks, n_ctx=16, batch_size=16, n_seq=1
llama_perf_context_print: prompt eval time =     147.85 ms /    32 tokens (    0.14 ms per token,  6926.13 tokens per second)
`

// sample is a calibration that passes.
func sample() Run {
	r := Run{
		Name: "imatrix.gguf", Log: []byte(sampleLog), Selected: 40, ChunkSize: 16, Devices: []string{"CPU"},
		Model: &gguf.File{Tensors: []gguf.TensorInfo{{Name: sampleWeight, Dims: []uint64{32, 1 << 16}, Type: gguf.BF16, Size: 4 << 20}}},
	}
	for _, role := range []string{RoleModel, RoleCorpus, RoleBinary} {
		r.Bound = append(r.Bound, kernels.Input{Name: role, Digest: godigest.FromString(role), Size: int64(len(role))})
	}
	r.matrix(2, 16, 32, "text")
	return r
}

const sampleWeight = "blk.0.attn_q.weight"

// matrix puts another matrix in.
func (r *Run) matrix(chunks, size int64, activations float32, texts ...string) {
	r.put(imatrix.Content{Datasets: texts, Chunks: chunks, ChunkSize: size, Entries: []imatrix.Data{{Name: sampleWeight, Counts: []float32{activations}, Sums: ramp()}}})
}

// without puts in a matrix that lacks the model's weight.
func (r *Run) without() {
	r.matrix(2, 16, 32, "text")
	more := gguf.TensorInfo{Name: "blk.0.ffn_up.weight", Dims: []uint64{32, 2}, Type: gguf.BF16, Size: 128}
	r.Model = &gguf.File{Tensors: append([]gguf.TensorInfo{more}, r.Model.Tensors...)}
}

func (r *Run) put(c imatrix.Content) {
	var b bytes.Buffer
	if err := imatrix.WriteGGUF(&b, c); err != nil {
		panic(fmt.Sprintf("calibration: the built-in matrix cannot be written: %v", err))
	}
	r.Matrix, r.Size = bytes.NewReader(b.Bytes()), int64(b.Len())
}

func ramp() []float32 {
	s := make([]float32, 32)
	for i := range s {
		s[i] = 1 + float32(i)
	}
	return s
}

// kernelLimits is what a finalized matrix does not show.
func kernelLimits() []kernels.Limit {
	return []kernels.Limit{
		{What: "the activations are not computed again: another text of as many tokens passes; what binds the text is that the runner hashed the file that the tool read", Probe: func(ctx context.Context) error {
			r := sample()
			r.matrix(2, 16, 32, "another text")
			all, err := Finalize(ctx, r)
			return kernels.Unseen(all.Calibration, err)
		}},
		{What: "tokens beyond the last whole chunk are selected and not processed", Probe: func(ctx context.Context) error {
			r := sample()
			r.Selected = 47
			all, err := Finalize(ctx, r)
			return kernels.Unseen(all.Calibration, err)
		}},
		{What: "with --no-ppl the log counts a part of the tokens: any number up to all of them passes there", Probe: func(ctx context.Context) error {
			r := sample()
			r.NoPerplexity, r.Log = true, bytes.Replace(r.Log, []byte("   32 tokens"), []byte("    7 tokens"), 1)
			all, err := Finalize(ctx, r)
			return kernels.Unseen(all.Calibration, err)
		}},
		{What: "matrices of the old form are refused by name", Probe: func(ctx context.Context) error {
			r := sample()
			var b bytes.Buffer
			if err := imatrix.WriteDat(&b, imatrix.Content{Datasets: []string{"text"}, Chunks: 2, Entries: []imatrix.Data{{Name: sampleWeight, Counts: []float32{2}, Sums: ramp()}}}); err != nil {
				return err
			}
			r.Matrix, r.Size = bytes.NewReader(b.Bytes()), int64(b.Len())
			all, err := Finalize(ctx, r)
			return kernels.Refuses(all.Calibration, err, "the old form")
		}},
	}
}
