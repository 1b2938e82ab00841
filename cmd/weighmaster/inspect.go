package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// modelSummary is what inspect says of a model file or folder.
type modelSummary struct {
	Path         string            `json:"path"`
	Format       string            `json:"format"`
	Architecture string            `json:"architecture"`
	Parameters   uint64            `json:"parameters"`
	Types        []typeCount       `json:"types"`
	Metadata     map[string]string `json:"metadata"`
	Tensors      []tensorLine      `json:"tensors,omitempty"`
	Warnings     []string          `json:"warnings"`
}

// typeCount counts the tensors of one type. Bytes are as stored.
type typeCount struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
}

// tensorLine is one tensor: dimensions as the format orders them, the byte range [Begin, End) in its file.
type tensorLine struct {
	Name  string   `json:"name"`
	File  string   `json:"file,omitempty"`
	Type  string   `json:"type"`
	Dims  []uint64 `json:"dims"`
	Begin int64    `json:"begin"`
	End   int64    `json:"end"`
}

func (a *app) inspectCommand() *cobra.Command {
	var tensors bool
	cmd := &cobra.Command{
		Use: "inspect FILE|FOLDER", Short: "Say what a GGUF file or a Hugging Face folder holds, without loading weights", Args: cobra.ExactArgs(1),
		Example: "  weighmaster inspect model-Q8_0.gguf --tensors\n  weighmaster inspect snapshot/ --json",
		RunE: func(_ *cobra.Command, args []string) error {
			info, err := os.Stat(args[0])
			if err != nil {
				return usage("%v", err)
			}
			read := inspectGGUF
			if info.IsDir() {
				read = inspectFolder
			}
			s, err := read(args[0], info.Size())
			if err != nil {
				return &exitError{exitFalse, fmt.Errorf("%s: %w", args[0], err)}
			}
			if !tensors {
				s.Tensors = nil
			}
			return a.answer(s, func() { a.printSummary(s) })
		},
	}
	cmd.Flags().BoolVar(&tensors, "tensors", false, "list every tensor")
	return cmd
}

func inspectGGUF(path string, size int64) (modelSummary, error) {
	s := modelSummary{Path: path, Metadata: map[string]string{}, Warnings: []string{}}
	r, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer r.Close()
	f, err := gguf.Open(r, size)
	if err != nil {
		return s, err
	}
	s.Format = fmt.Sprintf("GGUF v%d", f.Version)
	s.Warnings = append(s.Warnings, f.Warnings...)
	for _, kv := range f.KVs {
		s.Metadata[kv.Key] = kv.Value.String()
		if kv.Key == "general.architecture" {
			s.Architecture, _ = kv.Value.Text()
		}
	}
	for _, t := range f.Tensors {
		s.add(t.Type.String(), t.Dims, t.Size)
		s.Tensors = append(s.Tensors, tensorLine{Name: t.Name, Type: t.Type.String(), Dims: t.Dims, Begin: t.Offset, End: t.Offset + t.Size})
	}
	return s, nil
}

func inspectFolder(path string, _ int64) (modelSummary, error) {
	s := modelSummary{Path: path, Format: "safetensors", Metadata: map[string]string{}, Warnings: []string{}}
	root := os.DirFS(path)
	snap, err := safetensors.OpenSnapshot(root)
	if err != nil {
		return s, err
	}
	defer snap.Close()
	var config struct {
		Architectures []string `json:"architectures"`
	}
	if body, err := os.ReadFile(path + "/config.json"); err == nil && json.Unmarshal(body, &config) == nil && len(config.Architectures) > 0 {
		s.Architecture = config.Architectures[0]
	} else {
		s.Warnings = append(s.Warnings, "config.json names no architecture")
	}
	for _, t := range snap.Tensors() {
		s.add(string(t.DType), t.Shape, t.End-t.Begin)
		s.Tensors = append(s.Tensors, tensorLine{Name: t.Name, File: snap.Shards[t.Shard].Name, Type: string(t.DType), Dims: t.Shape, Begin: t.Begin, End: t.End})
	}
	return s, nil
}

// add counts one tensor. The reader has checked the products already.
func (s *modelSummary) add(typ string, dims []uint64, size int64) {
	n := uint64(1)
	for _, d := range dims {
		n *= d
	}
	s.Parameters += n
	for i := range s.Types {
		if s.Types[i].Type == typ {
			s.Types[i].Tensors++
			s.Types[i].Bytes += size
			return
		}
	}
	s.Types = append(s.Types, typeCount{typ, 1, size})
}

func (a *app) printSummary(s modelSummary) {
	a.printf("%s: %s, %s, %d parameters\n", s.Path, s.Format, s.Architecture, s.Parameters)
	for _, t := range s.Types {
		a.printf("  %4d %-8s %d bytes\n", t.Tensors, t.Type, t.Bytes)
	}
	keys := make([]string, 0, len(s.Metadata))
	for k := range s.Metadata {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		a.printf("  %s = %s\n", k, s.Metadata[k])
	}
	for _, t := range s.Tensors {
		a.printf("  %-32s %-8s %v [%d, %d)\n", t.Name, t.Type, t.Dims, t.Begin, t.End)
	}
	for _, w := range s.Warnings {
		a.printf("  warning: %s\n", w)
	}
}
