package safetensors

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

// Kernel describes the inspection of a snapshot's structure.
func Kernel() kernels.Kernel {
	k := kernels.Kernel{
		Name:    "safetensors structure",
		Version: "1.0.0",
		Spec:    "https://github.com/huggingface/safetensors#format",
		Summary: "Headers are well formed, tensors fill their files, index and shards name the same tensors, and shapes agree with config.json.",
		Limits:  kernelLimits(),
		Gates:   []kernels.Gate{{Metric: "shards", Unit: "shards", Compare: kernels.AtLeast, Value: 1}},
	}
	for _, c := range controls {
		k.Faults = append(k.Faults, c.fault)
	}
	k.SelfCheck = func(ctx context.Context) (kernels.Report, error) { return InspectSnapshot(ctx, sample(), nil) }
	return k
}

// InspectSnapshot opens the model of a folder, compares it with its
// configuration (config.json of the folder where config is nil; without either
// nothing is compared), counts, and plants every control. The report's inputs
// are the headers and the index, which is what was read. The error is that of
// fsys or of ctx.
func InspectSnapshot(ctx context.Context, fsys fs.FS, config *Config) (kernels.Report, error) {
	rep := Kernel().NewReport()
	s, found, err := openSnapshot(fsys)
	if err != nil {
		return rep, errors.Join(err, s.Close())
	}
	defer s.Close()
	if config == nil {
		config, err = ReadConfig(fsys)
		var bad *FormatError
		switch {
		case errors.As(err, &bad):
			found = append(found, kernels.Finding{Check: CheckConfig, Where: bad.What, Got: bad.Got, Want: bad.Want})
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return rep, err
		}
	}
	complete := len(found) == 0
	if complete && config != nil && config.known() {
		found = append(found, checkConfig(config, s.shapes())...)
	}
	for _, f := range found {
		rep.Find(f)
	}
	if err := s.describe(ctx, &rep, fsys, config, len(rep.Findings) == 0); err != nil {
		return rep, err
	}
	if !complete || !s.plantable() {
		s.Close()
		if s, err = OpenSnapshot(sample()); err != nil {
			return rep, err
		}
	}
	if err := plant(ctx, &rep.Controls, s); err != nil {
		return rep, err
	}
	return rep, rep.Finish()
}

func (s *Snapshot) shapes() map[string][]uint64 {
	shapes := make(map[string][]uint64, len(s.tensors))
	for _, t := range s.tensors {
		shapes[t.Name] = t.Shape
	}
	return shapes
}

// describe adds inputs and counts.
func (s *Snapshot) describe(ctx context.Context, rep *kernels.Report, fsys fs.FS, config *Config, whole bool) error {
	if s.Index != nil {
		f, err := fsys.Open(IndexName)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := addInput(rep, IndexName, f); err != nil {
			return err
		}
	}
	for _, shard := range s.Shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		header := io.NewSectionReader(shard.R, 0, shard.File.HeaderSize)
		if err := addInput(rep, shard.Name+": header", header); err != nil {
			return err
		}
	}
	tensors, elements, order := map[DType]float64{}, map[DType]float64{}, []DType{}
	parameters, bytes := 0.0, 0.0
	for _, t := range s.tensors {
		if tensors[t.DType]++; tensors[t.DType] == 1 {
			order = append(order, t.DType)
		}
		elements[t.DType] += float64(t.Elements())
		parameters += float64(t.Elements())
		bytes += float64(t.End - t.Begin)
	}
	rep.Metric("shards", "shards", float64(len(s.Shards)))
	rep.Metric("tensors", "tensors", float64(len(s.tensors)))
	rep.Metric("parameters", "elements", parameters)
	rep.Metric("tensor data", "bytes", bytes)
	if s.Index != nil {
		if total, ok := s.Index.TotalSize(); ok {
			rep.Metric("tensor data by the index", "bytes", float64(total))
		}
	}
	slices.Sort(order)
	for _, t := range order {
		identity := map[string]string{"dtype": string(t)}
		rep.Metrics = append(rep.Metrics,
			kernels.Metric{Name: "tensors", Unit: "tensors", Value: tensors[t], Identity: identity},
			kernels.Metric{Name: "parameters", Unit: "elements", Value: elements[t], Identity: identity})
	}
	s.describeConfig(rep, config, whole)
	return nil
}

// describeConfig reports the config's word beside the file's: derivation
// follows what the file has.
func (s *Snapshot) describeConfig(rep *kernels.Report, config *Config, whole bool) {
	_, output := s.Lookup("lm_head.weight")
	rep.Metric("output matrix present", "0 or 1", oneIf(output))
	rep.Metric("compared with config", "0 or 1", oneIf(whole && config != nil && config.known()))
	if config == nil {
		return
	}
	rep.Metric("embeddings tied by config", "0 or 1", oneIf(config.tied()))
	if whole && config.known() {
		rep.Metric("parameters by config", "elements", config.llamaParameters(output))
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func addInput(rep *kernels.Report, name string, r io.Reader) error {
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		return fmt.Errorf("safetensors: %s: %w", name, err)
	}
	rep.Inputs = append(rep.Inputs, kernels.Input{Name: name, Digest: godigest.NewDigest(godigest.SHA256, h), Size: n})
	return nil
}
