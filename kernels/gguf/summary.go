package gguf

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Summary is what a header says of a model. Only counts and types are facts;
// the rest is what whoever wrote the file says.
type Summary struct {
	Architecture string      `json:"architecture"` // general.architecture, empty without
	Name         string      `json:"name"`         // general.name, empty without
	Parameters   uint64      `json:"parameters"`   // elements of all tensors
	Bytes        int64       `json:"bytes"`        // of all tensors, without padding
	Types        []TypeCount `json:"types"`        // most bytes first
	// Sizes are the numbers of the architecture by key, without "<architecture>.".
	Sizes        []Named       `json:"sizes"`
	Tokenizer    *Tokenizer    `json:"tokenizer,omitempty"`
	Templates    []Template    `json:"templates"`
	Quantization *Quantization `json:"quantization,omitempty"`
	Imatrix      []Named       `json:"imatrix"` // claims: quantize.imatrix.* without that prefix
	Warnings     []string      `json:"warnings"`
}

// TypeCount counts the tensors of one type. Bytes are as stored.
type TypeCount struct {
	Type     string `json:"type"`
	Tensors  int    `json:"tensors"`
	Elements uint64 `json:"elements"`
	Bytes    int64  `json:"bytes"`
}

// Named is one value as text.
type Named struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Quantization is what the file says of its own making.
type Quantization struct {
	FileType *uint32 `json:"fileType,omitempty"` // general.file_type, as llama.cpp numbers recipes
	Version  *uint64 `json:"version,omitempty"`  // general.quantization_version
}

// Template is one chat template: told apart, never rendered.
type Template struct {
	Key       string `json:"key"`
	Bytes     int    `json:"bytes"`
	SHA256    string `json:"sha256"`    // 64 hex digits
	FirstLine string `json:"firstLine"` // cut
}

// Summarize sums up a file.
func (f *File) Summarize() Summary {
	s := Summary{Architecture: f.text("general.architecture"), Name: f.text("general.name"), Sizes: []Named{}, Templates: []Template{}, Imatrix: []Named{}}
	s.Warnings = append([]string{}, f.Warnings...)
	f.count(&s)
	for _, kv := range f.KVs {
		if rest, ok := strings.CutPrefix(kv.Key, s.Architecture+"."); ok && s.Architecture != "" && kv.Value.Type != TypeArray {
			s.Sizes = append(s.Sizes, Named{rest, kv.Value.String()})
		}
		if rest, ok := strings.CutPrefix(kv.Key, "quantize.imatrix."); ok {
			s.Imatrix = append(s.Imatrix, Named{rest, kv.Value.String()})
		}
		if kv.Key == "tokenizer.chat_template" || strings.HasPrefix(kv.Key, "tokenizer.chat_template.") {
			if text, ok := kv.Value.Text(); ok {
				s.Templates = append(s.Templates, NewTemplate(kv.Key, text))
			}
		}
	}
	s.Tokenizer = f.tokenizer()
	s.Quantization = f.quantization()
	s.Warnings = append(s.Warnings, f.doubts(s)...)
	return s
}

func (f *File) text(key string) string {
	v, _ := f.KV(key)
	s, _ := v.Text()
	return s
}

func (f *File) count(s *Summary) {
	by := map[Type]*TypeCount{}
	for _, t := range f.Tensors {
		c := by[t.Type]
		if c == nil {
			c = &TypeCount{Type: t.Type.String()}
			by[t.Type] = c
		}
		c.Tensors++
		c.Elements += t.Elements()
		c.Bytes += t.Size
		s.Parameters += t.Elements()
		s.Bytes += t.Size
	}
	s.Types = []TypeCount{}
	for _, t := range slices.Sorted(maps.Keys(by)) {
		s.Types = append(s.Types, *by[t])
	}
	slices.SortStableFunc(s.Types, func(a, b TypeCount) int { return int(max(-1, min(1, b.Bytes-a.Bytes))) })
}

// NewTemplate tells a template apart.
func NewTemplate(key, text string) Template {
	sum := sha256.Sum256([]byte(text))
	line, _, _ := strings.Cut(text, "\n")
	if len(line) > shown {
		line = line[:shown] + "…"
	}
	return Template{key, len(text), hex.EncodeToString(sum[:]), line}
}

func (f *File) quantization() *Quantization {
	q := &Quantization{}
	if v, ok := f.KV("general.file_type"); ok {
		if n, ok := v.Uint(); ok && n < 1<<32 {
			t := uint32(n)
			q.FileType = &t
		}
	}
	if v, ok := f.KV("general.quantization_version"); ok {
		if n, ok := v.Uint(); ok {
			q.Version = &n
		}
	}
	if q.FileType == nil && q.Version == nil {
		return nil
	}
	return q
}

// doubts compares what the header says with what it holds.
func (f *File) doubts(s Summary) []string {
	var out []string
	if kind := f.text("general.type"); s.Architecture == "" && (kind == "" || kind == "model") { // others, as importance matrices, have none
		out = append(out, "general.architecture is missing")
	}
	if v, ok := f.KV(s.Architecture + ".block_count"); ok {
		if n, ok := v.Uint(); ok && len(f.Tensors) > 0 {
			if have := f.blocks(); have != n {
				out = append(out, fmt.Sprintf("%s.block_count is %d and tensors of %d blocks are here", s.Architecture, n, have))
			}
		}
	}
	if t, ok := f.Tensor("token_embd.weight"); ok && s.Tokenizer != nil && s.Tokenizer.Vocabulary > 0 && len(t.Dims) == 2 && t.Dims[1] != uint64(s.Tokenizer.Vocabulary) {
		out = append(out, fmt.Sprintf("the vocabulary has %d tokens and token_embd.weight %d rows", s.Tokenizer.Vocabulary, t.Dims[1]))
	}
	if s.Tokenizer != nil {
		for _, t := range s.Tokenizer.Special {
			if t.ID >= uint64(s.Tokenizer.Vocabulary) {
				out = append(out, fmt.Sprintf("%s is %d, beyond the vocabulary of %d tokens", t.Key, t.ID, s.Tokenizer.Vocabulary))
			}
		}
	}
	return out
}

// blocks counts the numbers N of tensors called blk.N.*.
func (f *File) blocks() uint64 {
	seen := map[string]bool{}
	for _, t := range f.Tensors {
		if rest, ok := strings.CutPrefix(t.Name, "blk."); ok {
			n, _, _ := strings.Cut(rest, ".")
			seen[n] = true
		}
	}
	return uint64(len(seen))
}
