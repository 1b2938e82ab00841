package token

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

const ggml = "tokenizer.ggml."

// FromGGUF reads the vocabulary of a GGUF file (specification: GGUF, section
// "Tokenizer"): an [SPM] for the model "llama", a [ByteLevel] for "gpt2" with one of
// [PreTokenizers]. Others are refused by name. Flags that the file does not state
// have llama.cpp's defaults.
func FromGGUF(f *gguf.File) (Encoder, error) {
	model, err := text(f, ggml+"model")
	if err != nil {
		return nil, err
	}
	switch model {
	case "llama":
		return spmFromGGUF(f)
	case "gpt2":
		return byteLevelFromGGUF(f)
	}
	return nil, fmt.Errorf("%smodel: got %q, want \"llama\" or \"gpt2\"; other tokenizers are not read from GGUF here, compare with tokenizer.json instead", ggml, model)
}

func spmFromGGUF(f *gguf.File) (Encoder, error) {
	if _, ok := f.KV(ggml + "precompiled_charsmap"); ok {
		return nil, fmt.Errorf("%sprecompiled_charsmap: got a table of characters, want none", ggml)
	}
	if name, ok := f.KV("general.name"); ok {
		if s, _ := name.Text(); strings.Contains(strings.ToLower(s), "phi-3") || strings.Contains(strings.ToLower(s), "phi3") {
			return nil, fmt.Errorf("general.name: got %q: llama.cpp treats spaces after special tokens of models so named otherwise; not read here", s)
		}
	}
	v := Vocabulary{SpacePrefix: true, AddBOS: true, BOS: 1, EOS: 2}
	if err := readVocabulary(f, &v); err != nil {
		return nil, err
	}
	var err error
	if v.Scores, err = array(f, "scores", gguf.Value.Float32s); err != nil {
		return nil, err
	}
	m, err := NewSPM(v)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.ggml: %w", err)
	}
	m.marks = marksOf(f)
	return m, nil
}

func byteLevelFromGGUF(f *gguf.File) (Encoder, error) {
	pre, err := text(f, ggml+"pre")
	if err != nil {
		return nil, err
	}
	known, ok := llamacppPres[pre]
	if !ok {
		return nil, unknownPre(pre)
	}
	v := Vocabulary{BOS: 11, EOS: 11, AddBOS: known.addBOS}
	if err := readVocabulary(f, &v); err != nil {
		return nil, err
	}
	merges, err := array(f, "merges", gguf.Value.Strings)
	if err != nil {
		return nil, err
	}
	m, err := NewByteLevel(v, merges, pre)
	if err != nil {
		return nil, err
	}
	m.marks = marksOf(f)
	return m, nil
}

func marksOf(f *gguf.File) bosMarks {
	value, _ := f.KV("tokenizer.chat_template")
	template, _ := value.Text()
	return bosMarks{template}
}

// readVocabulary reads what both models have: flags, ids, tokens and types.
func readVocabulary(f *gguf.File, v *Vocabulary) error {
	for key, to := range map[string]*bool{"add_space_prefix": &v.SpacePrefix, "add_bos_token": &v.AddBOS, "add_eos_token": &v.AddEOS} {
		if value, ok := f.KV(ggml + key); ok {
			if *to, ok = value.Bool(); !ok {
				return fmt.Errorf("%s%s: got %v, want a BOOL", ggml, key, value.Type)
			}
		}
	}
	for key, to := range map[string]*uint32{"bos_token_id": &v.BOS, "eos_token_id": &v.EOS} {
		if value, ok := f.KV(ggml + key); ok {
			id, ok := value.Uint()
			if !ok || id > math.MaxUint32 {
				return fmt.Errorf("%s%s: got %v, want an id", ggml, key, value)
			}
			*to = uint32(id)
		}
	}
	var err error
	if v.Tokens, err = array(f, "tokens", gguf.Value.Strings); err != nil {
		return err
	}
	types, err := array(f, "token_type", gguf.Value.Ints)
	if err != nil {
		return err
	}
	v.Types = make([]int32, len(types))
	for i, t := range types {
		if t < TypeNormal || t > TypeByte {
			return fmt.Errorf("%stoken_type: id %d: got %d, want %d to %d", ggml, i, t, TypeNormal, TypeByte)
		}
		v.Types[i] = int32(t)
	}
	return nil
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
func digest(v Vocabulary, more []string) kernels.Input {
	d := godigest.SHA256.Digester()
	size := int64(0)
	put := func(b []byte) {
		n, _ := d.Hash().Write(b) // a hash never fails
		size += int64(n)
	}
	for i, t := range v.Tokens {
		line := binary.LittleEndian.AppendUint32(nil, uint32(len(t)))
		line = append(line, t...)
		if len(v.Scores) > 0 {
			line = binary.LittleEndian.AppendUint32(line, math.Float32bits(v.Scores[i]))
		}
		put(binary.LittleEndian.AppendUint32(line, uint32(v.Types[i])))
	}
	put(fmt.Appendf(nil, "%v %v %v %d %d", v.SpacePrefix, v.AddBOS, v.AddEOS, v.BOS, v.EOS))
	for _, t := range more {
		put(append(binary.LittleEndian.AppendUint32(nil, uint32(len(t))), t...))
	}
	return kernels.Input{Name: "tokenizer.ggml", Digest: d.Digest(), Size: size}
}
