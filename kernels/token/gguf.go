package token

import (
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

const ggml = "tokenizer.ggml."

// FromGGUF reads the vocabulary of a GGUF file (specification: GGUF, section
// "Tokenizer"). Only the model "llama" is read; others are refused by name.
// Flags that the file does not state have llama.cpp's defaults.
func FromGGUF(f *gguf.File) (*SPM, error) {
	model, err := text(f, ggml+"model")
	if err != nil {
		return nil, err
	}
	if model != "llama" {
		return nil, fmt.Errorf("%smodel: got %q, want \"llama\"; other tokenizers are not read from GGUF here, compare with tokenizer.json instead", ggml, model)
	}
	if _, ok := f.KV(ggml + "precompiled_charsmap"); ok {
		return nil, fmt.Errorf("%sprecompiled_charsmap: got a table of characters, want none", ggml)
	}
	if name, ok := f.KV("general.name"); ok {
		if s, _ := name.Text(); strings.Contains(strings.ToLower(s), "phi-3") || strings.Contains(strings.ToLower(s), "phi3") {
			return nil, fmt.Errorf("general.name: got %q: llama.cpp treats spaces after special tokens of models so named otherwise; not read here", s)
		}
	}
	v := Vocabulary{SpacePrefix: true, AddBOS: true, BOS: 1, EOS: 2}
	for key, to := range map[string]*bool{"add_space_prefix": &v.SpacePrefix, "add_bos_token": &v.AddBOS, "add_eos_token": &v.AddEOS} {
		if value, ok := f.KV(ggml + key); ok {
			if *to, ok = value.Bool(); !ok {
				return nil, fmt.Errorf("%s%s: got %v, want a BOOL", ggml, key, value.Type)
			}
		}
	}
	for key, to := range map[string]*uint32{"bos_token_id": &v.BOS, "eos_token_id": &v.EOS} {
		if value, ok := f.KV(ggml + key); ok {
			id, ok := value.Uint()
			if !ok || id > math.MaxUint32 {
				return nil, fmt.Errorf("%s%s: got %v, want an id", ggml, key, value)
			}
			*to = uint32(id)
		}
	}
	if v.Tokens, err = array(f, "tokens", gguf.Value.Strings); err != nil {
		return nil, err
	}
	if v.Scores, err = array(f, "scores", gguf.Value.Float32s); err != nil {
		return nil, err
	}
	types, err := array(f, "token_type", gguf.Value.Ints)
	if err != nil {
		return nil, err
	}
	v.Types = make([]int32, len(types))
	for i, t := range types {
		if t < TypeNormal || t > TypeByte {
			return nil, fmt.Errorf("%stoken_type: id %d: got %d, want %d to %d", ggml, i, t, TypeNormal, TypeByte)
		}
		v.Types[i] = int32(t)
	}
	m, err := NewSPM(v)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.ggml: %w", err)
	}
	return m, nil
}

func text(f *gguf.File, key string) (string, error) {
	value, ok := f.KV(key)
	if !ok {
		return "", fmt.Errorf("%s: got nothing, want a string", key)
	}
	s, ok := value.Text()
	if !ok {
		return "", fmt.Errorf("%s: got %v, want a string", key, value.Type)
	}
	return s, nil
}

func array[T any](f *gguf.File, key string, read func(gguf.Value) []T) ([]T, error) {
	value, ok := f.KV(ggml + key)
	if !ok {
		return nil, fmt.Errorf("%s%s: got nothing, want an array", ggml, key)
	}
	list := read(value)
	if len(list) != value.Len || len(list) == 0 {
		return nil, fmt.Errorf("%s%s: got an array of %d %v, want another type of element or more of them", ggml, key, value.Len, value.Elem)
	}
	return list, nil
}

// digest is over a plain listing of the vocabulary, so that two files with the
// same vocabulary have the same.
func (m *SPM) digest() kernels.Input {
	d := godigest.SHA256.Digester()
	size := int64(0)
	put := func(h hash.Hash, b []byte) {
		n, _ := h.Write(b) // a hash never fails
		size += int64(n)
	}
	h := d.Hash()
	for i, t := range m.v.Tokens {
		line := binary.LittleEndian.AppendUint32(nil, uint32(len(t)))
		line = append(line, t...)
		line = binary.LittleEndian.AppendUint32(line, math.Float32bits(m.v.Scores[i]))
		put(h, binary.LittleEndian.AppendUint32(line, uint32(m.v.Types[i])))
	}
	put(h, fmt.Appendf(nil, "%v %v %v %d %d", m.v.SpacePrefix, m.v.AddBOS, m.v.AddEOS, m.v.BOS, m.v.EOS))
	return kernels.Input{Name: "tokenizer.ggml", Digest: d.Digest(), Size: size}
}
