package convert

import (
	"context"
	"fmt"
	"io"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
	"github.com/weighmaster/weighmaster/kernels/quant"
	"github.com/weighmaster/weighmaster/kernels/recipe"
)

// QuantizeOptions say what to make of a model, as llama-quantize's command line does.
type QuantizeOptions struct {
	Recipe recipe.Recipe
	Types  recipe.Options // Matrix is set from the field below
	// Matrix is the importance matrix, nil for none. Its file stays open meanwhile.
	Matrix *imatrix.Matrix
	// MatrixFile is the path of the matrix as it is typed: the product states it.
	MatrixFile string
	// Overrides are --override-kv: keys set in the product, before those of the matrix.
	Overrides []gguf.KV
	// Requantize allows a source that is quantized itself (--allow-requantize): the product then carries that source's errors on.
	Requantize bool
	// Variant is the build of ggml whose bits are made; the zero value is [quant.Plain].
	Variant quant.Variant
}

// NotRecomputedError says that a recipe calls for a type whose search is not reproduced here.
type NotRecomputedError struct {
	Recipe string
	Tensor string // the first one
	Type   gguf.Type
}

func (e *NotRecomputedError) Error() string {
	return fmt.Sprintf("recipe %s: tensor %s: it calls for %s, whose search is not recomputed here; choose a recipe that is, or make the file with llama-quantize", e.Recipe, e.Tensor, e.Type)
}

// MaxRow bounds the weights of a row: a row is quantized as a whole.
const MaxRow = 4 << 20

// Quantize writes src under a recipe, in the bytes that llama-quantize gives:
// see [QuantizedHeader] for the order of tensors and keys, and package recipe for
// the types. Tensors are read and written in chunks of whole rows, several at
// once, so that memory stays in the tens of MiB.
//
// Everything that can be refused is refused before the first byte is written:
// a recipe that is not recomputed ([*NotRecomputedError]), a source that is
// quantized itself, a matrix that is missing or of another shape. Weights that
// are not finite, or whose blocks would not be, end it midway, as they end llama-quantize.
func Quantize(ctx context.Context, src *gguf.File, o QuantizeOptions, w io.Writer) error {
	m, err := recipe.ModelOf(src)
	if err != nil {
		return err
	}
	fileType := o.Recipe.FileType
	if o.Recipe.Copies() {
		if fileType, err = statedFileType(src); err != nil {
			return err
		}
	}
	if o.Variant == "" {
		o.Variant = quant.Plain
	}
	o.Types.Matrix = o.Matrix != nil
	types, err := o.Recipe.Types(m, o.Types)
	if err != nil {
		return err
	}
	if err := o.checkMatrix(); err != nil {
		return err
	}
	kvs, infos := QuantizedHeader(src.KVs, src.Tensors, types, HeaderOptions{FileType: fileType, Overrides: o.Overrides, Matrix: o.claim()})
	sources := make([]gguf.TensorSource, 0, len(infos))
	for _, info := range infos {
		from, _ := src.Tensor(info.Name)
		job, err := o.job(src, from, info.Type)
		if err != nil {
			return err
		}
		sources = append(sources, gguf.TensorSource{Name: info.Name, Dims: info.Dims, Type: info.Type, Data: func(w io.Writer) error {
			if err := job.write(ctx, w); err != nil {
				return fmt.Errorf("tensor %s: %w", info.Name, err)
			}
			return nil
		}})
	}
	return gguf.Write(w, kvs, sources)
}

// claim is what the product states about its matrix.
func (o QuantizeOptions) claim() *MatrixClaim {
	if o.Matrix == nil {
		return nil
	}
	c := &MatrixClaim{File: o.MatrixFile, Entries: int64(len(o.Matrix.Entries)), Chunks: o.Matrix.Chunks}
	if len(o.Matrix.Datasets) > 0 {
		c.Dataset = &o.Matrix.Datasets[0]
	}
	return c
}

// checkMatrix refuses numbers that no search can use, with their count.
func (o QuantizeOptions) checkMatrix() error {
	if o.Matrix == nil {
		return nil
	}
	for _, f := range o.Matrix.Validate(nil) {
		switch f.Check {
		case imatrix.CheckFinite, imatrix.CheckNegative, imatrix.CheckRead, imatrix.CheckCounts:
			return fmt.Errorf("importance matrix: %s", f)
		}
	}
	return nil
}

// job plans one tensor.
func (o QuantizeOptions) job(src *gguf.File, t gguf.TensorInfo, to gguf.Type) (*quantizeJob, error) {
	j := &quantizeJob{name: t.Name, dims: t.Dims}
	var err error
	if j.r, err = src.Data(t); err != nil {
		return nil, err
	}
	if t.Type == to {
		return j, nil
	}
	switch {
	case t.Type.Quantized() && !o.Requantize:
		return nil, fmt.Errorf("tensor %s: got type %s, want F32, F16 or BF16: quantizing a quantized file again adds its errors; start from the unquantized one", t.Name, t.Type)
	case t.Dims[0] > MaxRow:
		return nil, fmt.Errorf("tensor %s: got rows of %d weights, want at most %d", t.Name, t.Dims[0], MaxRow)
	case len(t.Dims) > 3 && t.Dims[3] > 1:
		return nil, fmt.Errorf("tensor %s: got dimensions %v, want at most 3: llama-quantize gives up here", t.Name, t.Dims)
	}
	if j.from, err = quant.For(t.Type); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	if j.to, err = quant.NewQuantizer(to, o.Variant); err != nil {
		return nil, &NotRecomputedError{Recipe: o.Recipe.Name, Tensor: t.Name, Type: to}
	}
	if j.check, err = quant.For(to); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	if err := o.importance(j, to); err != nil {
		return nil, err
	}
	return j, nil
}

// importance finds what the matrix has for a tensor. Nothing is an answer too,
// except for types that are useless without it.
func (o QuantizeOptions) importance(j *quantizeJob, to gguf.Type) error {
	if o.Matrix != nil {
		e, ok := o.Matrix.Entry(j.name)
		want := int64(j.dims[0]) * j.experts()
		switch {
		case ok && e.Values() == want:
			j.matrix = o.Matrix
			return nil
		case ok && j.name != "token_embd.weight" && j.name != "per_layer_token_embd.weight":
			return fmt.Errorf("tensor %s: the importance matrix has %d numbers, want %d: it is another model's", j.name, e.Values(), want)
		}
	}
	if o.Recipe.NeedsMatrix(j.name, to) {
		return fmt.Errorf("tensor %s: recipe %s gives it %s, which is useless without an importance matrix, and there is none for it", j.name, o.Recipe.Name, to)
	}
	return nil
}

// statedFileType is general.file_type, which a copy keeps.
func statedFileType(src *gguf.File) (uint32, error) {
	v, ok := src.KV(keyFileType)
	n, isUint := v.Uint()
	if !ok || v.Type != gguf.TypeUint32 || !isUint {
		return 0, fmt.Errorf("key %s: got %s, want a UINT32: a copy keeps it", keyFileType, v)
	}
	return uint32(n), nil
}
