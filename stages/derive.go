package stages

import (
	"context"
	"fmt"
	"runtime"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/derive"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
	"github.com/weighmaster/weighmaster/schemas"
)

// Derive proves from the bytes that a GGUF (role product) was made from a
// snapshot or another GGUF (role source), with an importance matrix where one is
// given (role imatrix). It makes nothing but its report. With tokenizer: compared
// what differs of the vocabulary is left to the parity stage.
type Derive struct{}

// Uses implements [Stage].
func (Derive) Uses() string { return "derive" }

// Run implements [Stage].
func (Derive) Run(ctx context.Context, run *Run) (*Outcome, error) {
	source, err := run.input("source")
	if err != nil {
		return nil, err
	}
	product, err := run.input("product")
	if err != nil {
		return nil, err
	}
	from, closeSource, err := deriveSource(source)
	if err != nil {
		return nil, err
	}
	defer closeSource()
	f, target, err := product.openFile("product")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o, closeMatrix, err := deriveMatrix(run)
	if err != nil {
		return nil, err
	}
	defer closeMatrix()
	var with struct {
		Tokenizer string `json:"tokenizer"`
	}
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	o.TokenizerCompared = with.Tokenizer == "compared"
	report, err := derive.Check(ctx, from, target, o)
	if err != nil {
		return nil, fmt.Errorf("derive %s from %s: %w", product.Name, source.Name, err)
	}
	out := &Outcome{
		Reports: []kernels.Report{report}, Verdict: schemas.Verdict(report.Verdict),
		Internal: map[string]any{"threads": runtime.GOMAXPROCS(0)},
	}
	if report.Verdict != kernels.Passed {
		out.Failure = failureOf(report)
	}
	return out, nil
}

// deriveSource opens either kind of source.
func deriveSource(a Artifact) (derive.Input, func() error, error) {
	if a.Multi {
		fsys, root, err := a.folder("source")
		if err != nil {
			return derive.Input{}, nil, err
		}
		return derive.Input{Snapshot: fsys}, root.Close, nil
	}
	f, file, err := a.openFile("source")
	if err != nil {
		return derive.Input{}, nil, err
	}
	return derive.Input{GGUF: &file}, f.Close, nil
}

// deriveMatrix opens the importance matrix that the product was made with, if one is given.
func deriveMatrix(run *Run) (derive.Options, func() error, error) {
	a, has := run.Inputs["imatrix"]
	if !has {
		return derive.Options{}, func() error { return nil }, nil
	}
	f, file, err := a.openFile("imatrix")
	if err != nil {
		return derive.Options{}, nil, err
	}
	m, err := imatrix.Open(file.R, file.Size)
	if err != nil {
		f.Close()
		return derive.Options{}, nil, fmt.Errorf("input imatrix: %w", err)
	}
	return derive.Options{Matrix: m, MatrixDigest: a.Digest}, f.Close, nil
}
