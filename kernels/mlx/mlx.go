// Package mlx reads the model folders that mlx-lm writes for Apple's MLX, and
// tells from the bytes alone what such a folder is to the checkpoint that it
// was made from.
//
// A matrix X of such a folder is either stored as it was, X.weight, or
// quantized in groups of consecutive weights of a row:
//
//	X.weight  U32, codes, low bits first; codes of 3, 5 and 6 bits straddle words
//	X.scales  one number a group
//	X.biases  one number a group, mode affine only
//
//	mode    bits           group        scale      weight
//	affine  1 2 3 4 5 6 8  32 64 128    as source  scale·code + bias
//	mxfp4   4              32           E8M0       scale·E2M1(code)
//	nvfp4   4              16           E4M3       scale·E2M1(code)
//	mxfp8   8              32           E8M0       scale·E4M3(code)
//
// An nvfp4 matrix of experts may have X.global_scale, F32, one number g an
// expert; the scales are then to be multiplied by g/2688. config.json holds
// {group_size, bits, mode} as quantization and again as quantization_config,
// with entries for single layers beside them.
//
// The references are mlx.core.quantize (mlx/ops.cpp, mlx/backend) of MLX 0.30 to 0.32
// and convert.py and utils.py of mlx-lm 0.30 to 0.32.
package mlx

import (
	"fmt"
	"io/fs"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// Mode is how a matrix is quantized.
type Mode string

const (
	Affine Mode = "affine"
	MXFP4  Mode = "mxfp4"
	NVFP4  Mode = "nvfp4"
	MXFP8  Mode = "mxfp8"
)

// Scheme is the quantization of one matrix.
type Scheme struct {
	Mode  Mode `json:"mode"`
	Bits  int  `json:"bits"`
	Group int  `json:"group_size"` // weights
}

func (s Scheme) String() string {
	return fmt.Sprintf("%s %d bits, groups of %d", s.Mode, s.Bits, s.Group)
}

// valid tells whether MLX has kernels for the scheme.
func (s Scheme) valid() bool {
	switch s.Mode {
	case Affine:
		return s.Bits >= 1 && s.Bits <= 8 && s.Bits != 7 && (s.Group == 32 || s.Group == 64 || s.Group == 128)
	case MXFP4:
		return s.Bits == 4 && s.Group == 32
	case NVFP4:
		return s.Bits == 4 && s.Group == 16
	case MXFP8:
		return s.Bits == 8 && s.Group == 32
	}
	return false
}

// groupBytes is the size of a group's codes; always a multiple of 4.
func (s Scheme) groupBytes() int { return s.Bits * s.Group / 8 }

// The checks of a folder, as findings name them.
const (
	CheckConfig    = "config.json"
	CheckStructure = "quantized matrix"
	CheckIndex     = "index metadata"
	CheckFormat    = "safetensors metadata"
)

// Tensor is one tensor of the model: a quantized matrix with its parts, or a
// tensor that is stored as it is.
type Tensor struct {
	Name   string                     // of the tensor that is or was stored: X.weight
	Scheme *Scheme                    // nil: stored as it is
	Shape  []uint64                   // of the model's tensor, slowest first: not of the packed words
	Type   safetensors.DType          // of the values, or of the scales
	Packed safetensors.SnapshotTensor // X.weight, the only part of one that is stored as it is
	Scales safetensors.SnapshotTensor
	Biases safetensors.SnapshotTensor  // affine
	Global *safetensors.SnapshotTensor // nvfp4, or nil
}

// Elements is the number of weights.
func (t Tensor) Elements() uint64 {
	n := uint64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Model is an open folder whose parts fit one another.
type Model struct {
	Snapshot *safetensors.Snapshot
	FS       fs.FS
	Default  *Scheme // of config.json; nil for a model that is not quantized
	Tensors  []Tensor
	config   map[string]any
}

// Error lists everything that is wrong with a folder.
type Error struct{ Findings []kernels.Finding }

func (e *Error) Error() string { return "mlx: " + kernels.Lines(e.Findings) }

// Is tells whether a folder looks like one that mlx-lm wrote: its first shard's
// metadata say format mlx. It reads headers only and gives false on any error.
func Is(fsys fs.FS) bool {
	s, err := safetensors.OpenSnapshot(fsys)
	if err != nil {
		return false
	}
	defer s.Close()
	return len(s.Shards) > 0 && s.Shards[0].File.Metadata["format"] == "mlx"
}

// Open opens a folder: headers, index and config.json, no tensor's bytes.
// Files beside the indexed ones that match model*.safetensors are refused, as
// MLX's loader takes them all and never looks at the index. Errors are [*Error]
// or those of [safetensors.OpenSnapshot] and fsys. Memory stays within a small
// multiple of the headers' bytes.
func Open(fsys fs.FS) (*Model, error) {
	s, err := safetensors.OpenSnapshot(fsys)
	if err != nil {
		return nil, fmt.Errorf("mlx: %w", err)
	}
	m := &Model{Snapshot: s, FS: fsys}
	found, err := m.open()
	if err == nil && len(found) > 0 {
		err = &Error{found}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return m, nil
}

func (m *Model) open() ([]kernels.Finding, error) {
	q, found, err := m.readConfig()
	if err != nil || len(found) > 0 {
		return found, err
	}
	m.Default = q.fallback
	found = m.assemble(q)
	for _, shard := range m.Snapshot.Shards {
		if got := shard.File.Metadata["format"]; got != "mlx" {
			found = append(found, kernels.Finding{Check: CheckFormat, Where: shard.Name + ": format", Got: fmt.Sprintf("%.80q", got), Want: `"mlx"`,
				Hint: "mlx-lm writes it into every shard; this folder is not its product, or was saved again"})
		}
	}
	return append(found, m.checkIndex()...), nil
}

// Close closes the shards.
func (m *Model) Close() error { return m.Snapshot.Close() }
