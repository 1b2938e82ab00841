package derive

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// tensor is one tensor of either side, under its GGUF name where that is known.
type tensor struct {
	name   string
	origin string // the name in the file itself
	dims   []uint64
	typ    gguf.Type // as stored
	rows   convert.Rows
	heads  int64           // of the row order that a conversion gives it, 0 for none
	wrong  []convert.Wrong // as mistaken conversions read it
}

// side is one opened input.
type side struct {
	kvs      []gguf.KV
	tensors  []tensor // in file order
	byName   map[string]*tensor
	model    *convert.Model   // nil for a GGUF, and for a snapshot without a mapping
	file     *gguf.File       // nil for a snapshot
	unknown  string           // the architecture of a snapshot without a mapping, else empty
	texts    map[int64]string // of tokenizer.json by id, nil when there is none
	heads    *[2]int64        // of Q and of K by the header, nil until they are asked for
	tokenErr error            // why the tokenizer's keys could not be derived
	padded   bool             // ids that tokenizer.json lacks may have any text
	folder   fs.FS            // of a snapshot with a mapping, else nil
	closers  []func() error
}

// snapshot tells that a side is a publisher's folder.
func (s *side) snapshot() bool { return s.file == nil }

func open(in Input) (*side, error) {
	given := 0
	for _, has := range []bool{in.Snapshot != nil, in.GGUF != nil, len(in.Parts) > 0} {
		if has {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, errors.New("got none or several inputs, want one: a snapshot, a GGUF or the parts of one")
	case in.GGUF != nil:
		return openFile(*in.GGUF)
	case len(in.Parts) > 0:
		return openParts(in.Parts)
	}
	model, err := convert.Open(in.Snapshot)
	var unknown *convert.UnknownArchitectureError
	if errors.As(err, &unknown) {
		return openRaw(in.Snapshot, unknown.Name)
	}
	if err != nil {
		return nil, err
	}
	s := &side{model: model, folder: in.Snapshot, byName: map[string]*tensor{}, closers: []func() error{model.Close}}
	s.kvs, s.tokenErr = model.KVs(convert.Options{})
	if s.texts, err = model.TokenizerJSON(); err != nil {
		return nil, errors.Join(err, model.Close())
	}
	for _, t := range model.Tensors {
		s.tensors = append(s.tensors, tensor{
			name: t.Name, origin: t.Source, dims: t.Dims, typ: t.Rows.Codec.Type, rows: t.Rows, heads: model.Config.HeadsOf(t.Transform), wrong: t.Wrong,
		})
	}
	s.index()
	return s, nil
}

func openFile(f File) (*side, error) {
	file, err := gguf.Open(f.R, f.Size)
	if err != nil {
		return nil, err
	}
	return fileSide(file)
}

func openParts(parts []gguf.Part) (*side, error) {
	file, err := gguf.OpenSplit(parts)
	if err != nil {
		return nil, err
	}
	return fileSide(file)
}

func fileSide(file *gguf.File) (*side, error) {
	s := &side{file: file, kvs: file.KVs, byName: map[string]*tensor{}}
	for _, t := range file.Tensors {
		r, err := file.Data(t)
		if err != nil {
			return nil, err
		}
		one, err := newTensor(t.Name, t.Dims, t.Type)
		if err != nil {
			return nil, err
		}
		one.rows.R = r
		s.tensors = append(s.tensors, one)
	}
	s.index()
	return s, nil
}

// newTensor describes a tensor whose rows stand as they are stored.
func newTensor(name string, dims []uint64, typ gguf.Type) (tensor, error) {
	weights, bytes, known := typ.Block()
	if !known {
		return tensor{}, fmt.Errorf("tensor %s: %s", name, typ)
	}
	codec, err := quant.For(typ)
	if err != nil { // compared as bytes only
		codec = quant.Codec{Type: typ, Weights: int(weights), Bytes: int(bytes)}
	}
	return tensor{name: name, origin: name, dims: dims, typ: typ, rows: rowsOf(dims, codec)}, nil
}

// rowsOf is the layout of a tensor with these dimensions, fastest first.
func rowsOf(dims []uint64, codec quant.Codec) convert.Rows {
	rows := convert.Rows{Codec: codec, Count: 1, Width: 1}
	for i, d := range dims {
		if i == 0 {
			rows.Width = int64(d)
		} else {
			rows.Count *= int64(d)
		}
	}
	return rows
}

func (s *side) index() {
	for i := range s.tensors {
		s.byName[s.tensors[i].name] = &s.tensors[i]
	}
}

func (s *side) close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// size is the number of bytes of all tensors as stored.
func (s *side) size() int64 {
	var n int64
	for _, t := range s.tensors {
		n += t.rows.Codec.Size(t.rows.Weights())
	}
	return n
}

// kv finds a key of the side.
func kv(kvs []gguf.KV, key string) (gguf.Value, bool) {
	for _, e := range kvs {
		if e.Key == key {
			return e.Value, true
		}
	}
	return gguf.Value{}, false
}
