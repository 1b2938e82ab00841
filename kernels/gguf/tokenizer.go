package gguf

import "strings"

// Tokenizer is what a header says of its vocabulary.
type Tokenizer struct {
	Model      string         `json:"model"` // tokenizer.ggml.model: "llama", "gpt2" …
	Pre        string         `json:"pre"`   // tokenizer.ggml.pre, empty without
	Vocabulary int            `json:"vocabulary"`
	Merges     int            `json:"merges"`
	Control    int            `json:"control"` // tokens whose type is control (3)
	Special    []SpecialToken `json:"special"` // in file order
	Flags      []Named        `json:"flags"`   // add_bos_token and so on
}

// SpecialToken is a token that a key names by its id.
type SpecialToken struct {
	Key  string `json:"key"` // without "tokenizer.ggml."
	ID   uint64 `json:"id"`
	Text string `json:"text"` // empty where the vocabulary has no such id
}

const tokenPrefix = "tokenizer.ggml."

// tokenizer sums up the keys of the vocabulary, nil without any.
func (f *File) tokenizer() *Tokenizer {
	t := &Tokenizer{Model: f.text(tokenPrefix + "model"), Pre: f.text(tokenPrefix + "pre"), Special: []SpecialToken{}, Flags: []Named{}}
	v, _ := f.KV(tokenPrefix + "tokens")
	tokens := v.Strings()
	t.Vocabulary = len(tokens)
	v, _ = f.KV(tokenPrefix + "merges")
	t.Merges = len(v.Strings())
	v, _ = f.KV(tokenPrefix + "token_type")
	for _, kind := range v.Ints() {
		if kind == 3 {
			t.Control++
		}
	}
	for _, kv := range f.KVs {
		key, ok := strings.CutPrefix(kv.Key, tokenPrefix)
		if !ok {
			continue
		}
		if _, isFlag := kv.Value.Bool(); isFlag {
			t.Flags = append(t.Flags, Named{key, kv.Value.String()})
		} else if id, isID := kv.Value.Uint(); isID && strings.HasSuffix(key, "_token_id") {
			s := SpecialToken{Key: key, ID: id}
			if id < uint64(len(tokens)) {
				s.Text = tokens[id]
			}
			t.Special = append(t.Special, s)
		}
	}
	if t.Model == "" && t.Vocabulary == 0 {
		return nil
	}
	return t
}
