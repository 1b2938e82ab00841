package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/recipe"
)

func inspectGGUF(ctx context.Context, path string, o inspectOptions) (modelSummary, error) {
	f, files, err := openGGUF(path)
	if err != nil {
		return modelSummary{}, withProfiles(path, err)
	}
	defer files.Close()
	m := f.Summarize()
	s := modelSummary{
		Path: path, Format: fmt.Sprintf("GGUF v%d", f.Version), Architecture: m.Architecture, Name: m.Name, Parameters: m.Parameters, Bytes: m.Bytes,
		Types: []typeCount{}, Sizes: m.Sizes, Tokenizer: m.Tokenizer, Templates: m.Templates, Quantization: m.Quantization, Imatrix: m.Imatrix,
		Metadata: map[string]string{}, Files: []fileLine{}, Profiles: f.Profiles(), Warnings: m.Warnings,
	}
	if f.Order == binary.BigEndian {
		s.Format += ", big-endian"
	}
	if len(f.Parts) > 1 {
		s.Format += fmt.Sprintf(", in %d parts", len(f.Parts))
	}
	for _, t := range m.Types {
		s.Types = append(s.Types, typeCount(t))
	}
	for _, kv := range f.KVs {
		s.keys = append(s.keys, kv.Key)
		s.Metadata[kv.Key] = kv.Value.String()
	}
	for _, p := range f.Parts {
		name := p.Name
		if name == "" {
			name = filepath.Base(path)
		}
		s.Files = append(s.Files, fileLine{Name: name, Size: p.Size})
	}
	tensors := make([][]int, len(f.Parts))
	for i, t := range f.Tensors {
		line := tensorLine{Name: t.Name, Type: t.Type.String(), Dims: t.Dims, Begin: t.Offset, End: t.Offset + t.Size}
		if len(f.Parts) > 1 {
			line.File = f.Parts[t.Part].Name
		}
		tensors[t.Part] = append(tensors[t.Part], i)
		s.Tensors = append(s.Tensors, line)
	}
	s.recognize(f)
	if v, _ := f.KV("general.type"); v.Equal(gguf.String("imatrix")) && len(f.Parts) == 1 {
		s.Format = "importance matrix in " + s.Format
		if err := s.readMatrix(f.Parts[0].R, f.Size); err != nil {
			s.Warnings = append(s.Warnings, err.Error())
		}
	}
	if err := s.hashParts(ctx, f.Parts, tensors, o); err != nil {
		return s, err
	}
	if o.tensors && f.Order == binary.BigEndian {
		return s, s.hashTurned(ctx, f)
	}
	return s, nil
}

// recognize names the recipe that fits the tensors' types. A file without what recipes depend on has none.
func (s *modelSummary) recognize(f *gguf.File) {
	model, err := recipe.ModelOf(f)
	if err != nil {
		return
	}
	var claimed *uint32
	line := recipeLine{}
	if s.Quantization != nil && s.Quantization.FileType != nil {
		claimed = s.Quantization.FileType
		line.Claimed, _ = recipe.FileTypeName(*claimed)
	}
	best, _ := recipe.Recognize(model, nil, claimed, len(s.Imatrix) > 0)
	line.Name, line.Exact = best.String(), best.Exact
	for _, d := range best.Differences {
		line.Differences = append(line.Differences, d.String())
	}
	if doubt := best.Claim(claimed); doubt != "" {
		s.Warnings = append(s.Warnings, doubt)
	}
	s.Recipe = &line
}

// hashTurned gives the tensors of a big-endian file the digests that they have in a little-endian one.
func (s *modelSummary) hashTurned(ctx context.Context, f *gguf.File) error {
	s.Warnings = append(s.Warnings, "SHA-256 of tensors is over their little-endian form, so that both files can be compared")
	for i, t := range f.Tensors {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.Tensors[i].SHA256 = ""
		data, err := f.Data(t)
		if err != nil {
			s.Warnings = append(s.Warnings, err.Error())
			continue
		}
		h := sha256.New()
		if _, err := io.CopyBuffer(h, data, make([]byte, 1<<20)); err != nil {
			return err
		}
		s.Tensors[i].SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	return nil
}

// withProfiles adds to a refusal which readers in use would load the file all the same.
func withProfiles(path string, refusal error) error {
	file, size, err := openRegular(path)
	if err != nil || gguf.PartNames(path) != nil {
		return refusal
	}
	defer file.Close()
	profiles, err := gguf.Refused(file, size)
	if err != nil {
		return refusal // broken for everybody
	}
	for _, p := range profiles {
		if p.Loads {
			refusal = fmt.Errorf("%w; %s would load it", refusal, p.Reader)
		} else {
			refusal = fmt.Errorf("%w; %s would refuse it too", refusal, p.Reader)
		}
	}
	return refusal
}
