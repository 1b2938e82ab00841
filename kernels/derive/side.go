package derive

import (
	"errors"
	"fmt"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// tensor is one tensor of either side, under its GGUF name.
type tensor struct {
	name   string
	origin string // the name in the file itself
	dims   []uint64
	typ    gguf.Type // as stored
	rows   convert.Rows
	heads  int64 // of the row order that a conversion gives it, 0 for none
}

// side is one opened input.
type side struct {
	kvs      []gguf.KV
	tensors  []tensor // in file order
	byName   map[string]*tensor
	model    *convert.Model   // nil for a GGUF
	file     *gguf.File       // nil for a snapshot
	texts    map[int64]string // of tokenizer.json by id, nil when there is none
	tokenErr error            // why the tokenizer's keys could not be derived
}

var errBigEndian = errors.New("got a big-endian GGUF, want a little-endian one: its data is not compared here")

func open(in Input) (*side, error) {
	switch {
	case (in.Snapshot == nil) == (in.GGUF == nil):
		return nil, errors.New("got none or two inputs, want a snapshot or a GGUF")
	case in.GGUF != nil:
		return openFile(*in.GGUF)
	}
	model, err := convert.Open(in.Snapshot)
	if err != nil {
		return nil, err
	}
	s := &side{model: model, byName: map[string]*tensor{}}
	s.kvs, s.tokenErr = model.KVs(convert.Options{})
	if s.texts, err = model.TokenizerJSON(); err != nil {
		return nil, errors.Join(err, model.Close())
	}
	for _, t := range model.Tensors {
		s.tensors = append(s.tensors, tensor{
			name: t.Name, origin: t.Source, dims: t.Dims, typ: t.Rows.Codec.Type, rows: t.Rows, heads: model.Config.HeadsOf(t.Transform),
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
	if file.Order.String() != "LittleEndian" {
		return nil, errBigEndian
	}
	s := &side{file: file, kvs: file.KVs, byName: map[string]*tensor{}}
	for _, t := range file.Tensors {
		weights, bytes, known := t.Type.Block()
		if !known {
			return nil, fmt.Errorf("tensor %s: %s", t.Name, t.Type)
		}
		codec, err := quant.For(t.Type)
		if err != nil { // compared as bytes only
			codec = quant.Codec{Type: t.Type, Weights: int(weights), Bytes: int(bytes)}
		}
		rows := convert.Rows{R: file.Section(t), Codec: codec, Count: 1, Width: 1}
		for i, d := range t.Dims {
			if i == 0 {
				rows.Width = int64(d)
			} else {
				rows.Count *= int64(d)
			}
		}
		s.tensors = append(s.tensors, tensor{name: t.Name, origin: t.Name, dims: t.Dims, typ: t.Type, rows: rows})
	}
	s.index()
	return s, nil
}

func (s *side) index() {
	for i := range s.tensors {
		s.byName[s.tensors[i].name] = &s.tensors[i]
	}
}

func (s *side) close() error {
	if s.model == nil {
		return nil
	}
	return s.model.Close()
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
