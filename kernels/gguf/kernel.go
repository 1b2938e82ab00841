package gguf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

// The checks that findings name.
const (
	CheckFormat    = "GGUF format"
	CheckTruncated = "GGUF is truncated"
)

// Kernel describes the inspection of a GGUF file's structure.
func Kernel() kernels.Kernel {
	k := kernels.Kernel{
		Name:    "gguf structure",
		Version: "1.0.0",
		Spec:    "https://github.com/ggml-org/ggml/blob/master/docs/gguf.md",
		Summary: "The header is well formed and the tensors fill the file: each once, in order, without gaps, overlaps or bytes that no tensor owns.",
		Limits:  kernelLimits(),
		Gates:   []kernels.Gate{{Metric: "format version", Unit: "version", Compare: kernels.AtLeast, Value: 2}},
	}
	for _, c := range controls {
		k.Faults = append(k.Faults, c.fault)
	}
	k.SelfCheck = func(ctx context.Context) (kernels.Report, error) {
		b := sample()
		return Inspect(ctx, bytes.NewReader(b), int64(len(b)), "built-in file")
	}
	return k
}

// Inspect reads the header of a file of size bytes and reports what it holds,
// or why it is refused, with every control planted. The report's input is the
// header, which is what was read. The error is that of r or of ctx.
func Inspect(ctx context.Context, r io.ReaderAt, size int64, name string) (kernels.Report, error) {
	rep := Kernel().NewReport()
	f, err := Open(r, size)
	var bad *FormatError
	var cut *TruncatedError
	switch {
	case errors.As(err, &bad):
		rep.Find(kernels.Finding{Check: CheckFormat, Where: fmt.Sprintf("%s: byte %d: %s", name, bad.Offset, bad.What), Got: bad.Got, Want: bad.Want, Hint: bad.Next})
	case errors.As(err, &cut):
		for _, tensor := range cut.Missing {
			rep.Find(kernels.Finding{Check: CheckTruncated, Where: name + ": " + tensor, Got: fmt.Sprintf("a file of %d bytes", cut.Size),
				Want: fmt.Sprintf("%d bytes", cut.Want), Hint: "the tensor is missing or cut; fetch or make the file again"})
		}
	case err != nil:
		return rep, err
	}
	header := min(size, 64<<10)
	if f != nil {
		header = f.DataOffset
		f.measure(&rep)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(r, 0, header)); err != nil {
		return rep, fmt.Errorf("gguf: %s: %w", name, err)
	}
	rep.Inputs = append(rep.Inputs, kernels.Input{Name: fmt.Sprintf("%s: first %d bytes", name, header), Digest: godigest.NewDigest(godigest.SHA256, h), Size: header})
	if f == nil || len(f.Tensors) == 0 {
		b := sample()
		if f, err = Open(bytes.NewReader(b), int64(len(b))); err != nil {
			return rep, err
		}
	}
	if err := plant(ctx, &rep.Controls, f); err != nil {
		return rep, err
	}
	return rep, rep.Finish()
}

// measure adds what the file holds.
func (f *File) measure(rep *kernels.Report) {
	tensors, elements, order := map[Type]float64{}, map[Type]float64{}, []Type{}
	total, bytes := 0.0, 0.0
	for _, t := range f.Tensors {
		if tensors[t.Type]++; tensors[t.Type] == 1 {
			order = append(order, t.Type)
		}
		elements[t.Type] += float64(t.Elements())
		total += float64(t.Elements())
		bytes += float64(t.Size)
	}
	rep.Metric("format version", "version", float64(f.Version))
	rep.Metric("keys", "keys", float64(len(f.KVs)))
	rep.Metric("tensors", "tensors", float64(len(f.Tensors)))
	rep.Metric("parameters", "elements", total)
	rep.Metric("tensor data", "bytes", bytes)
	rep.Metric("header", "bytes", float64(f.DataOffset))
	rep.Metric("alignment", "bytes", float64(f.Alignment))
	rep.Metric("warnings", "warnings", float64(len(f.Warnings)))
	slices.Sort(order)
	for _, t := range order {
		identity := map[string]string{"type": t.String()}
		rep.Metrics = append(rep.Metrics,
			kernels.Metric{Name: "tensors", Unit: "tensors", Value: tensors[t], Identity: identity},
			kernels.Metric{Name: "parameters", Unit: "elements", Value: elements[t], Identity: identity})
	}
}
