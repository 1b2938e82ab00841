package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/tensorhash"
)

// modelSummary is what inspect says of a model file or folder.
type modelSummary struct {
	Path         string              `json:"path"`
	Format       string              `json:"format"`
	Container    string              `json:"container,omitempty"`
	Architecture string              `json:"architecture"`
	Name         string              `json:"name,omitempty"`
	Parameters   uint64              `json:"parameters"`
	Bytes        int64               `json:"bytes"` // of all tensors
	Types        []typeCount         `json:"types"`
	Schemes      []schemeCount       `json:"schemes,omitempty"` // of a folder's quantized matrices
	Sizes        []gguf.Named        `json:"sizes,omitempty"`
	Tokenizer    *gguf.Tokenizer     `json:"tokenizer,omitempty"`
	Templates    []gguf.Template     `json:"templates,omitempty"`
	Quantization *gguf.Quantization  `json:"quantization,omitempty"`
	Imatrix      []gguf.Named        `json:"imatrixClaims,omitempty"`
	Matrix       *matrixLine         `json:"matrix,omitempty"`
	Recipe       *recipeLine         `json:"recipe,omitempty"` // by the types of the tensors
	Metadata     map[string]string   `json:"metadata"`
	Files        []fileLine          `json:"files"`
	Tensors      []tensorLine        `json:"tensors,omitempty"`
	Model        *tensorhash.Digests `json:"tensorData,omitempty"` // over all tensors, as llama-gguf-hash
	Profiles     []gguf.Profile      `json:"profiles,omitempty"`
	Warnings     []string            `json:"warnings"`

	keys []string // of Metadata, in file order
}

// typeCount counts the tensors of one type. Bytes are as stored.
type typeCount struct {
	Type     string `json:"type"`
	Tensors  int    `json:"tensors"`
	Elements uint64 `json:"elements"`
	Bytes    int64  `json:"bytes"`
}

// schemeCount counts the matrices that are quantized in one way, and the weights that they stand for.
type schemeCount struct {
	Scheme   string `json:"scheme"`
	Matrices int    `json:"matrices"`
	Weights  uint64 `json:"weights"`
}

// recipeLine is the llama-quantize recipe that the types of the tensors fit, or come nearest to.
type recipeLine struct {
	Claimed     string   `json:"claimed,omitempty"` // the name of general.file_type
	Name        string   `json:"name"`
	Exact       bool     `json:"exact"`
	Differences []string `json:"differences,omitempty"`
}

// fileLine is one file of the model; digests only where they were asked for.
type fileLine struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256,omitempty"`
	GitBlob string `json:"gitBlob,omitempty"`
}

// tensorLine is one tensor: dimensions as the format orders them, the byte range [Begin, End) in its file.
type tensorLine struct {
	Name  string   `json:"name"`
	File  string   `json:"file,omitempty"`
	Type  string   `json:"type"`
	Dims  []uint64 `json:"dims"`
	Begin int64    `json:"begin"`
	End   int64    `json:"end"`
	tensorhash.Digests
}

// inspectOptions are the flags of inspect.
type inspectOptions struct {
	tensors, keys, digest, ggufHash bool
}

func (o inspectOptions) hash() tensorhash.Options {
	return tensorhash.Options{File: o.digest, Tensors: o.tensors, GGUFHash: o.ggufHash}
}

// reads tells whether more than headers is read.
func (o inspectOptions) reads() bool { return o.tensors || o.digest || o.ggufHash }

func (a *app) inspectCommand() *cobra.Command {
	var o inspectOptions
	cmd := &cobra.Command{
		Use: "inspect FILE|FOLDER", Short: "Say what a model file or folder holds, without loading weights", Args: cobra.ExactArgs(1),
		Long: "Inspect reads the headers of a GGUF file (or of all parts of a split one, given any), of a safetensors file, of an importance matrix (.gguf or .dat), or of a Hugging Face or MLX folder, " +
			"and says what they hold. Weights are read only for digests, every byte once.",
		Example: "  weighmaster inspect model-Q8_0.gguf\n  weighmaster inspect model-Q8_0.gguf --gguf-hash   # compare with llama-gguf-hash --all\n" +
			"  weighmaster inspect model-00001-of-00003.gguf --digest\n  weighmaster inspect snapshot/ --tensors --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := os.Stat(args[0])
			if err != nil {
				return usage("%v", err)
			}
			read := inspectGGUF
			switch {
			case info.IsDir():
				read = inspectFolder
			case filepath.Ext(args[0]) == ".safetensors":
				read = inspectSafetensors
			case filepath.Ext(args[0]) == ".dat":
				read = inspectMatrix
			}
			if ext := filepath.Ext(args[0]); o.ggufHash && (info.IsDir() || ext == ".safetensors" || ext == ".dat") {
				return usage("--gguf-hash: got %s, want a GGUF file; --tensors gives the digests of other tensors", args[0])
			}
			s, err := read(cmd.Context(), args[0], o)
			if err != nil {
				if cmd.Context().Err() != nil {
					return err
				}
				return &exitError{exitFalse, fmt.Errorf("%s: %w", args[0], err)}
			}
			if !o.tensors && !o.ggufHash {
				s.Tensors = nil
			}
			if err := a.answer(s, func() { a.printInspection(s, o) }); err != nil || s.Matrix == nil || s.Matrix.Usable {
				return err
			}
			return &exitError{code: exitFalse}
		},
	}
	cmd.Flags().BoolVar(&o.tensors, "tensors", false, "list every tensor with its SHA-256")
	cmd.Flags().BoolVar(&o.keys, "keys", false, "list every key of the metadata")
	cmd.Flags().BoolVar(&o.digest, "digest", false, "give each file's SHA-256 and git blob id")
	cmd.Flags().BoolVar(&o.ggufHash, "gguf-hash", false, "print the digests of tensors as llama-gguf-hash --all does, and nothing else")
	return cmd
}

// hashParts reads each file once and fills in digests. Tensors are in the order of files and offsets.
func (s *modelSummary) hashParts(ctx context.Context, parts []gguf.Part, tensors [][]int, o inspectOptions) error {
	if !o.reads() {
		return nil
	}
	h := tensorhash.New(o.hash())
	for i, p := range parts {
		spans := make([]tensorhash.Span, len(tensors[i]))
		for j, n := range tensors[i] {
			spans[j] = tensorhash.Span{Offset: s.Tensors[n].Begin, Size: s.Tensors[n].End - s.Tensors[n].Begin}
		}
		sums, of, err := h.File(ctx, p.R, p.Size, spans)
		if err != nil {
			return err
		}
		if o.digest {
			s.Files[i].SHA256, s.Files[i].GitBlob = strings.TrimPrefix(string(sums.SHA256), "sha256:"), sums.GitBlob
		}
		for j, n := range tensors[i] {
			s.Tensors[n].Digests = of[j]
		}
	}
	if o.ggufHash {
		model := h.Model()
		s.Model = &model
	}
	return nil
}
