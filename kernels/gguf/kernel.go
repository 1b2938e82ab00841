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
	CheckSplit     = "GGUF split"
)

// Kernel describes the inspection of a GGUF file's structure.
func Kernel() kernels.Kernel {
	k := kernels.Kernel{
		Name:    "gguf structure",
		Version: "1.1.0",
		Spec:    "https://github.com/ggml-org/ggml/blob/master/docs/gguf.md",
		Summary: "The header is well formed and the tensors fill the file: each once, in order, without gaps, overlaps or bytes that no tensor owns.",
		Limits:  kernelLimits(),
		Gates:   []kernels.Gate{{Metric: "format version", Unit: "version", Compare: kernels.AtLeast, Value: 2}},
	}
	for _, c := range controls {
		k.Faults = append(k.Faults, c.fault)
	}
	for _, c := range splitControls {
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
	f, err := Open(r, size)
	return inspect(ctx, []Part{{Name: name, R: r, Size: size}}, f, err)
}

// InspectSplit is [Inspect] for all parts of a split model.
func InspectSplit(ctx context.Context, parts []Part) (kernels.Report, error) {
	f, err := OpenSplit(parts)
	return inspect(ctx, parts, f, err)
}

// inspect reports on parts that were opened as f, or refused with err.
func inspect(ctx context.Context, parts []Part, f *File, err error) (kernels.Report, error) {
	rep := Kernel().NewReport()
	if err != nil && !find(&rep, parts, err) {
		return rep, err
	}
	if f != nil {
		f.measure(&rep)
	} else if len(parts) == 1 {
		if profiles, err := Refused(parts[0].R, parts[0].Size); err == nil {
			measureProfiles(&rep, profiles)
		}
	}
	for i, p := range parts {
		header := min(p.Size, 64<<10)
		if f != nil {
			header = f.headers[i]
			p = f.Parts[i]
		}
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(p.R, 0, header)); err != nil {
			return rep, fmt.Errorf("gguf: %s: %w", p.label(i), err)
		}
		rep.Inputs = append(rep.Inputs, kernels.Input{Name: fmt.Sprintf("%s: first %d bytes", p.label(i), header), Digest: godigest.NewDigest(godigest.SHA256, h), Size: header})
	}
	if f == nil || len(f.Tensors) == 0 || len(f.Parts) > 1 {
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

// find turns a refusal into findings, and tells whether it is one.
func find(rep *kernels.Report, parts []Part, err error) bool {
	name := "split file"
	if len(parts) == 1 {
		name = parts[0].label(0)
	}
	var bad *FormatError
	var cut *TruncatedError
	var split *SplitError
	var part *partError
	if errors.As(err, &part) {
		name = part.part
	}
	switch {
	case errors.As(err, &bad):
		rep.Find(kernels.Finding{Check: CheckFormat, Where: fmt.Sprintf("%s: byte %d: %s", name, bad.Offset, bad.What), Got: bad.Got, Want: bad.Want, Hint: bad.Next})
	case errors.As(err, &cut):
		for _, tensor := range cut.Missing {
			rep.Find(kernels.Finding{Check: CheckTruncated, Where: name + ": " + tensor, Got: fmt.Sprintf("a file of %d bytes", cut.Size),
				Want: fmt.Sprintf("%d bytes", cut.Want), Hint: "the tensor is missing or cut; fetch or make the file again"})
		}
	case errors.As(err, &split):
		where := split.Part
		if where == "" {
			where = name
		}
		rep.Find(kernels.Finding{Check: CheckSplit, Where: where, Got: split.Got, Want: split.Want, Hint: split.Next})
	default:
		return false
	}
	return true
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
	header := 0.0
	for _, n := range f.headers {
		header += float64(n)
	}
	rep.Metric("header", "bytes", header)
	rep.Metric("alignment", "bytes", float64(f.Alignment))
	rep.Metric("parts", "files", float64(len(f.Parts)))
	rep.Metric("warnings", "warnings", float64(len(f.Warnings)))
	measureProfiles(rep, f.Profiles())
	slices.Sort(order)
	for _, t := range order {
		identity := map[string]string{"type": t.String()}
		rep.Metrics = append(rep.Metrics,
			kernels.Metric{Name: "tensors", Unit: "tensors", Value: tensors[t], Identity: identity},
			kernels.Metric{Name: "parameters", Unit: "elements", Value: elements[t], Identity: identity})
	}
}

// measureProfiles reports for each reader in use whether it would load the file.
func measureProfiles(rep *kernels.Report, profiles []Profile) {
	for _, p := range profiles {
		loads := 0.0
		if p.Loads {
			loads = 1
		}
		rep.Metrics = append(rep.Metrics, kernels.Metric{Name: "would load", Unit: "0 or 1", Value: loads, Identity: map[string]string{"reader": p.Reader}})
	}
}
