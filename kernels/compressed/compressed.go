// Package compressed reads checkpoints whose matrices are stored as FP8 or
// NVFP4, as llm-compressor (compressed-tensors) and NVIDIA ModelOpt export
// them, and tells what they are to a BF16 source and to one another.
//
//	           compressed-tensors        ModelOpt             DeepSeek style (fp8)
//	FP8        X.weight        F8_E4M3   X.weight             X.weight
//	           X.weight_scale            X.weight_scale       X.weight_scale_inv
//	NVFP4      X.weight_packed U8        X.weight
//	           X.weight_scale  F8_E4M3   X.weight_scale
//	           X.weight_global_scale     X.weight_scale_2
//
// An FP8 weight is E4M3(code)·scale, with one scale for the matrix, for each
// row, or for each block of rows and columns. NVFP4 packs two E2M1 codes a
// byte, the first column in the low bits; a weight is E2M1(code)·scale·global
// with one E4M3 scale for each 16 columns. The two tools store the global scale
// as reciprocals: ModelOpt multiplies by weight_scale_2 (largest weight over
// 2688), compressed-tensors divides by weight_global_scale. The scales of
// activations (input_scale, input_global_scale) and of the KV cache (k_scale,
// v_scale) stand beside the matrices.
//
// The references are compressed-tensors 0.20 and nvidia-modelopt 0.47; codes
// follow the OCP 8-bit Floating Point Specification v1.0 and the OCP
// Microscaling Formats Specification v1.0.
package compressed

import (
	"fmt"
	"io/fs"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// Format is how a matrix is stored.
type Format string

const (
	FP8   Format = "fp8"
	NVFP4 Format = "nvfp4"
)

// Layout is which weights share a scale.
type Layout string

const (
	PerTensor  Layout = "tensor"
	PerChannel Layout = "channel" // a row
	PerBlock   Layout = "block"   // rows and columns
	PerGroup   Layout = "group"   // 16 columns of a row
)

// The checks of a folder, as findings name them.
const (
	CheckConfig    = "quantization config"
	CheckStructure = "quantized matrix"
)

// Matrix is one quantized matrix with its parts.
type Matrix struct {
	Name    string // of the module: X
	Format  Format
	Layout  Layout
	Rows    uint64
	Columns uint64
	// BlockRows and BlockColumns are the weights of a block, layout block.
	BlockRows, BlockColumns uint64

	Codes  safetensors.SnapshotTensor
	Scale  safetensors.SnapshotTensor
	Global *safetensors.SnapshotTensor // nvfp4
	// Reciprocal: the global scale divides, as compressed-tensors stores it.
	Reciprocal bool
}

// Weight is the name of the matrix in an unquantized checkpoint.
func (m Matrix) Weight() string { return m.Name + ".weight" }

// Kind is what a scale beside the matrices is for.
type Kind string

const (
	Activation Kind = "activation"
	KVCache    Kind = "KV cache"
)

// Scale is one number beside the matrices.
type Scale struct {
	Key        string // one for both tools' names: the module and what it scales
	Kind       Kind
	Tensor     safetensors.SnapshotTensor
	Reciprocal bool
}

// Model is an open folder whose parts fit one another.
type Model struct {
	Snapshot *safetensors.Snapshot
	FS       fs.FS
	Method   string // quant_method: compressed-tensors, modelopt or fp8
	Matrices []Matrix
	Scales   []Scale
	Plain    []safetensors.SnapshotTensor // stored as they are
	config   map[string]any
}

// Error lists everything that is wrong with a folder.
type Error struct{ Findings []kernels.Finding }

func (e *Error) Error() string { return "compressed: " + kernels.Lines(e.Findings) }

// Is tells whether config.json, or ModelOpt's hf_quant_config.json beside it,
// names a quantization that this package reads. It gives false on any error.
func Is(fsys fs.FS) bool {
	q, _, found, err := readConfig(fsys)
	return err == nil && len(found) == 0 && q.method != ""
}

// Open opens a folder: headers, index and configuration, no tensor's bytes.
// Errors are [*Error] or those of [safetensors.OpenSnapshot] and fsys. Memory
// stays within a small multiple of the headers' bytes.
func Open(fsys fs.FS) (*Model, error) {
	s, err := safetensors.OpenSnapshot(fsys)
	if err != nil {
		return nil, fmt.Errorf("compressed: %w", err)
	}
	m := &Model{Snapshot: s, FS: fsys}
	q, config, found, err := readConfig(fsys)
	if err == nil && len(found) == 0 {
		m.Method, m.config = q.method, config
		found = m.assemble(q)
	}
	if err == nil && len(found) > 0 {
		err = &Error{found}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return m, nil
}

// Close closes the shards.
func (m *Model) Close() error { return m.Snapshot.Close() }
