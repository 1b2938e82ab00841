package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/weighmaster/weighmaster/kernels/compressed"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/mlx"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

func inspectFolder(ctx context.Context, path string, o inspectOptions) (modelSummary, error) {
	root := folder.Dir(path)
	snap, err := safetensors.OpenSnapshot(root)
	if err != nil {
		if found, _ := fs.Glob(root, "*.gguf"); len(found) > 0 { // the pattern is well formed
			err = fmt.Errorf("%w; the folder holds GGUF files: inspect %s", err, filepath.Join(path, found[0]))
		}
		return modelSummary{}, err
	}
	defer snap.Close()
	m := snap.Summarize(root)
	s := modelSummary{Path: path, Format: "safetensors", Container: m.Container, Architecture: m.Architecture, Warnings: m.Warnings}
	s.count(m.Types, m.Parameters, m.Bytes)
	if err := s.packed(root); err != nil {
		return s, err
	}
	if s.Container == "" && m.Architecture != "" {
		s.doubt(root)
	}
	s.folderTemplates(root)
	return s, s.shards(ctx, snap.Shards, o)
}

// doubt holds names and shapes against config.json, for an architecture whose tensors are known.
func (s *modelSummary) doubt(root fs.FS) {
	m, err := convert.Open(root)
	var unknown *convert.UnknownArchitectureError
	switch {
	case err == nil:
		if err := m.Close(); err != nil {
			s.Warnings = append(s.Warnings, err.Error())
		}
	case !errors.As(err, &unknown):
		s.Warnings = append(s.Warnings, err.Error())
	}
}

// packed takes the word of who packed a folder's matrices apart, and holds it against their shapes: packed words are fewer than weights.
func (s *modelSummary) packed(root fs.FS) error {
	count := map[string]*schemeCount{}
	add := func(scheme string, weights uint64) {
		if scheme != "" {
			if count[scheme] == nil {
				count[scheme] = &schemeCount{Scheme: scheme}
			}
			count[scheme].Matrices++
			count[scheme].Weights += weights
		}
		s.Parameters += weights
	}
	switch {
	case mlx.Is(root):
		m, err := mlx.Open(root)
		if err != nil {
			return err
		}
		defer m.Close()
		s.Parameters = 0
		for _, t := range m.Tensors {
			scheme := ""
			if t.Scheme != nil {
				scheme = t.Scheme.String()
			}
			add(scheme, t.Elements())
		}
	case compressed.Is(root):
		m, err := compressed.Open(root)
		if err != nil {
			return err
		}
		defer m.Close()
		s.Parameters = 0
		for _, x := range m.Matrices {
			add(fmt.Sprintf("%s, scales by %s", x.Format, x.Layout), x.Rows*x.Columns)
		}
		for _, t := range m.Plain {
			add("", t.Elements())
		}
	}
	for _, scheme := range slices.Sorted(maps.Keys(count)) {
		s.Schemes = append(s.Schemes, *count[scheme])
	}
	return nil
}

func inspectSafetensors(ctx context.Context, path string, o inspectOptions) (modelSummary, error) {
	file, size, err := openRegular(path)
	if err != nil {
		return modelSummary{}, err
	}
	defer file.Close()
	f, err := safetensors.Open(file, size)
	if err != nil {
		return modelSummary{}, err
	}
	s := modelSummary{Path: path, Format: "safetensors", Warnings: []string{}}
	s.count(safetensors.Count(f.Tensors))
	return s, s.shards(ctx, []safetensors.Shard{{Name: filepath.Base(path), File: f, R: file}}, o)
}

func (s *modelSummary) count(types []safetensors.TypeCount, elements uint64, bytes int64) {
	s.Parameters, s.Bytes, s.Types = elements, bytes, []typeCount{}
	for _, t := range types {
		s.Types = append(s.Types, typeCount(t))
	}
}

// shards lists the files with their metadata and tensors, and hashes them.
func (s *modelSummary) shards(ctx context.Context, shards []safetensors.Shard, o inspectOptions) error {
	s.Metadata, s.Files = map[string]string{}, []fileLine{}
	var parts []gguf.Part
	tensors := make([][]int, len(shards))
	for i, shard := range shards {
		s.Files = append(s.Files, fileLine{Name: shard.Name, Size: shard.File.Size})
		parts = append(parts, gguf.Part{R: shard.R, Size: shard.File.Size})
		for key, value := range shard.File.Metadata {
			if old, ok := s.Metadata[key]; ok && old != value {
				s.Warnings = append(s.Warnings, fmt.Sprintf("%s says %s = %q and another shard %q", shard.Name, key, value, old))
			}
			s.Metadata[key] = value
		}
		for _, t := range shard.File.Tensors {
			tensors[i] = append(tensors[i], len(s.Tensors))
			s.Tensors = append(s.Tensors, tensorLine{Name: t.Name, File: shard.Name, Type: string(t.DType), Dims: t.Shape, Begin: t.Begin, End: t.End})
		}
	}
	return s.hashParts(ctx, parts, tensors, o)
}
