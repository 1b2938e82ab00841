package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
)

// matrixLine is what an importance matrix says of itself. What is wrong with its numbers is among the warnings.
type matrixLine struct {
	Form      string   `json:"form"` // "gguf" or "dat"
	Entries   int      `json:"entries"`
	Chunks    int64    `json:"chunks"`
	ChunkSize int64    `json:"chunkSize"` // tokens, 0 where it does not say
	Datasets  []string `json:"datasets"`  // names, not digests
	Usable    bool     `json:"usable"`    // its numbers can be used
}

// inspectMatrix reads an importance matrix of the old form.
func inspectMatrix(ctx context.Context, path string, o inspectOptions) (modelSummary, error) {
	file, size, err := openRegular(path)
	if err != nil {
		return modelSummary{}, err
	}
	defer file.Close()
	s := modelSummary{Path: path, Format: "importance matrix", Types: []typeCount{}, Metadata: map[string]string{}, Warnings: []string{},
		Files: []fileLine{{Name: filepath.Base(path), Size: size}}}
	if err := s.readMatrix(file, size); err != nil {
		return s, err
	}
	return s, s.hashParts(ctx, []gguf.Part{{R: file, Size: size}}, [][]int{nil}, o)
}

// readMatrix opens an importance matrix in either form and judges its numbers.
func (s *modelSummary) readMatrix(r io.ReaderAt, size int64) error {
	m, err := imatrix.Open(r, size)
	if err != nil {
		return err
	}
	s.Matrix = &matrixLine{Form: m.Form, Entries: len(m.Entries), Chunks: m.Chunks, ChunkSize: m.ChunkSize, Datasets: m.Datasets, Usable: true}
	for _, f := range m.Validate(nil) {
		s.Matrix.Usable = s.Matrix.Usable && !imatrix.Unusable(f)
		s.Warnings = append(s.Warnings, f.String())
	}
	return nil
}

func (a *app) printInspectedMatrix(m *matrixLine) {
	a.say("  %d entries", m.Entries)
	if m.Chunks > 0 {
		a.say(", %d chunks", m.Chunks)
	}
	if m.ChunkSize > 0 {
		a.say(" of %d tokens", m.ChunkSize)
	}
	names := make([]string, len(m.Datasets))
	for i, name := range m.Datasets {
		names[i] = fmt.Sprintf("%q", name)
	}
	a.printf("\n")
	a.say("  says that it was computed from %s (a name, not a proof)\n", named(strings.Join(names, ", "), ""))
}
