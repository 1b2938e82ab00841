// Package calibration finalizes an importance matrix: it holds what llama-imatrix
// left behind against the run that was asked for, and binds it to the model, the
// text and the binary that made it.
//
// llama-imatrix writes its final file name directly, and again after every tenth
// chunk (--output-frequency), so the file that is there after a run that ended
// early is whole and belongs to the model, but is made from a part of the text. Four numbers
// have to agree: what was asked for, what the log says is computed, what the log counts
// at its end, and what the matrix says of itself.
//
// Reference: tools/imatrix/imatrix.cpp of https://github.com/ggml-org/llama.cpp, October 2026.
package calibration

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
	"github.com/weighmaster/weighmaster/kernels/placement"
)

// Run is a calibration as it was asked for, and what it left.
type Run struct {
	Matrix io.ReaderAt
	Size   int64  // bytes of the matrix
	Name   string // of its file
	Model  *gguf.File
	Log    []byte // all that the tool wrote to its standard error
	// Bound are what the matrix is bound to by digest: model, corpus and every binary that ran.
	Bound []kernels.Input
	// Selected are the corpus' tokens by the model's own vocabulary, as the tool
	// reads it; negative where the vocabulary is not read here.
	Selected  int64
	Chunks    int64 // asked for; 0 for as many as the corpus has
	ChunkSize int64 // tokens
	Devices   []string
	// NoPerplexity is the option --no-ppl: nothing waits for the results of a chunk then, and
	// the tokens at the log's end are those of the last wait, not all of them.
	NoPerplexity bool
}

// Reports are what finalizes a matrix, all three passed or none of it.
type Reports struct{ Matrix, Placement, Calibration kernels.Report }

// All gives the reports, the one that decides last.
func (r Reports) All() []kernels.Report {
	return []kernels.Report{r.Matrix, r.Placement, r.Calibration}
}

// Finalize judges a candidate. Its report passes where the matrix is sound and
// the model's, the load log shows all weights on the devices wanted, all counts
// agree, and everything is bound. It is undecided where the log or the vocabulary
// does not say enough. The error is that of the matrix' reader or of ctx.
func Finalize(ctx context.Context, run Run) (Reports, error) {
	all, found, err := assess(ctx, run)
	if err != nil {
		return all, err
	}
	r := &all.Calibration
	if err := plant(ctx, &r.Controls); err != nil {
		return all, err
	}
	for _, part := range []kernels.Report{all.Matrix, all.Placement} { // a part that could not have said no decides nothing
		r.Controls.Planted += part.Controls.Missed
		r.Controls.Missed += part.Controls.Missed
	}
	if err := r.Finish(); err != nil {
		return all, err
	}
	if r.Verdict == kernels.Failed && !slices.ContainsFunc(found, decided) {
		r.Verdict = kernels.Undecided
	}
	return all, nil
}

// assess judges a run without planting anything in the report that decides.
func assess(ctx context.Context, run Run) (all Reports, found []kernels.Finding, err error) {
	if all.Matrix, err = imatrix.Inspect(ctx, run.Matrix, run.Size, run.Name, run.Model.Tensors); err != nil {
		return all, nil, err
	}
	if all.Placement, err = placement.Inspect(ctx, run.Log, wanted(run.Model, run.Devices)); err != nil {
		return all, nil, err
	}
	c, found := read(run)
	found = append(found, c.judge()...)
	found = append(found, unbound(run.Bound)...)
	found = append(found, all.Matrix.Findings...)
	found = append(found, all.Placement.Findings...)
	r := Kernel().NewReport()
	r.Inputs = append(append(r.Inputs, all.Matrix.Inputs...), run.Bound...)
	for _, f := range found {
		r.Find(f)
	}
	c.measure(&r)
	all.Calibration = r
	return all, found, nil
}

// wanted is the placement of a whole model.
func wanted(model *gguf.File, devices []string) placement.Want {
	w := placement.Want{Devices: devices, Tensors: len(model.Tensors)}
	for _, t := range model.Tensors {
		w.Bytes += t.Size
	}
	return w
}

// unbound names what the matrix is not bound to.
func unbound(bound []kernels.Input) []kernels.Finding {
	var found []kernels.Finding
	for _, role := range []string{RoleModel, RoleCorpus, RoleBinary} {
		if !slices.ContainsFunc(bound, func(i kernels.Input) bool { return i.Name == role && i.Digest.Validate() == nil }) {
			found = append(found, kernels.Finding{Check: CheckBound, Where: role, Got: "no digest", Want: "one", Hint: "a matrix that is not bound stays a candidate"})
		}
	}
	return found
}

// Roles of what a matrix is bound to, as [Run.Bound] names them.
const (
	RoleModel  = "model"
	RoleCorpus = "corpus"
	RoleBinary = "binary"
)

// read takes the counts from the matrix and the log; doubt is about what they do not say.
func read(run Run) (counts, []kernels.Finding) {
	c := counts{partly: run.NoPerplexity, asked: run.Chunks, askedSize: run.ChunkSize, selected: run.Selected, chunks: -1, size: -1, counted: -1}
	doubt := c.log(run.Log)
	if run.Selected < 0 {
		doubt = append(doubt, kernels.Finding{Check: CheckLog, Where: "corpus", Got: "a vocabulary that is not read here", Want: "the tokens of the corpus, counted here"})
	}
	m, err := imatrix.Open(run.Matrix, run.Size)
	if err != nil {
		return c, doubt // the matrix' own report says why
	}
	if m.Form != imatrix.FormGGUF {
		doubt = append(doubt, kernels.Finding{Check: CheckForm, Where: run.Name, Got: "the old form, which does not say how large a chunk was", Want: "GGUF", Hint: "make it with --output-format gguf"})
	}
	c.opened, c.matrixChunks, c.matrixSize, c.activations, c.entries, c.texts = true, m.Chunks, m.ChunkSize, m.Tokens(), int64(len(m.Entries)), int64(len(m.Datasets))
	return c, doubt
}

func (c counts) measure(r *kernels.Report) {
	for _, m := range []struct {
		name, unit string
		value      int64
	}{
		{"selected_tokens", "tokens", c.selected}, {"processed_tokens", "tokens", c.activations}, {"logged_tokens", "tokens", c.counted},
		{"chunks", "chunks", c.matrixChunks}, {"chunk_size", "tokens", c.matrixSize}, {"entries", "weights", c.entries},
	} {
		if m.value >= 0 {
			r.Metric(m.name, m.unit, float64(m.value))
		}
	}
}

func asText(n int64, what string) string { return fmt.Sprintf("%d %s", n, what) }
