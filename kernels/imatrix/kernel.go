package imatrix

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// Kernel describes the inspection of an importance matrix.
func Kernel() kernels.Kernel {
	k := kernels.Kernel{
		Name:    "importance matrix",
		Version: "1.0.0",
		Spec:    "https://github.com/ggml-org/llama.cpp/blob/master/tools/imatrix/README.md",
		Summary: "The matrix is whole, its numbers are usable weights, its counts agree, and it belongs to the model.",
		Limits:  kernelLimits(),
		Gates: []kernels.Gate{
			{Metric: "entries", Unit: "weights", Compare: kernels.AtLeast, Value: 1},
			{Metric: "sums that are no weights", Unit: "numbers", Compare: kernels.Equal, Value: 0},
		},
	}
	for _, c := range controls {
		k.Faults = append(k.Faults, c.fault)
	}
	k.SelfCheck = func(ctx context.Context) (kernels.Report, error) {
		b, tensors := sample()
		return Inspect(ctx, bytes.NewReader(b), int64(len(b)), "built-in matrix", tensors)
	}
	return k
}

// Inspect reads an importance matrix of size bytes, judges it, also against a
// model's tensors unless these are nil, and plants every control. The error is
// that of r or of ctx.
func Inspect(ctx context.Context, r io.ReaderAt, size int64, name string, tensors []gguf.TensorInfo) (kernels.Report, error) {
	rep := Kernel().NewReport()
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(r, 0, size)); err != nil {
		return rep, fmt.Errorf("imatrix: %s: %w", name, err)
	}
	rep.Inputs = append(rep.Inputs, kernels.Input{Name: name, Digest: godigest.NewDigest(godigest.SHA256, h), Size: size})
	m, err := Open(r, size)
	if f, refused := asFinding(name, err); refused {
		rep.Find(f)
	} else if err != nil {
		return rep, err
	}
	if m != nil {
		found, bad := m.judge(tensors)
		for _, f := range found {
			rep.Find(f)
		}
		rep.Metric("sums that are no weights", "numbers", float64(bad))
		m.measure(&rep)
	}
	if len(rep.Findings) > 0 { // its faults would cover the planted ones
		b, own := sample()
		if m, err = Open(bytes.NewReader(b), int64(len(b))); err != nil {
			return rep, err
		}
		tensors = own
	}
	if err := plant(ctx, &rep.Controls, m, tensors); err != nil {
		return rep, err
	}
	return rep, rep.Finish()
}

// asFinding tells a refused file from one that cannot be read.
func asFinding(name string, err error) (kernels.Finding, bool) {
	var bad *FormatError
	var head *gguf.FormatError
	var cut *gguf.TruncatedError
	switch {
	case errors.As(err, &bad):
		return kernels.Finding{Check: CheckFormat, Where: fmt.Sprintf("%s: byte %d: %s", name, bad.Offset, bad.What), Got: bad.Got, Want: bad.Want, Hint: bad.Next}, true
	case errors.As(err, &head):
		return kernels.Finding{Check: CheckFormat, Where: fmt.Sprintf("%s: byte %d: %s", name, head.Offset, head.What), Got: head.Got, Want: head.Want, Hint: head.Next}, true
	case errors.As(err, &cut):
		return kernels.Finding{Check: CheckFormat, Where: name, Got: fmt.Sprintf("a file of %d bytes", cut.Size), Want: fmt.Sprintf("%d bytes", cut.Want),
			Hint: fmt.Sprintf("%d of %d tensors are missing or cut; fetch or make the file again", len(cut.Missing), cut.Total)}, true
	}
	return kernels.Finding{}, false
}

func (m *Matrix) measure(rep *kernels.Report) {
	sums, experts := 0.0, 0.0
	for _, e := range m.Entries {
		sums += float64(e.Values())
		experts = max(experts, float64(e.Experts))
	}
	rep.Metric("entries", "weights", float64(len(m.Entries)))
	rep.Metric("sums", "numbers", sums)
	rep.Metric("most experts of a weight", "experts", experts)
	rep.Metric("chunks", "chunks", float64(m.Chunks))
	rep.Metric("chunk size", "tokens", float64(m.ChunkSize))
	rep.Metric("calibration texts named", "names", float64(len(m.Datasets)))
	rep.Metric("tensors that nothing reads", "tensors", float64(len(m.Ignored)))
}
