package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// specialKeys maps the kinds of special token that the converter looks for to
// their GGUF keys. Kinds without a key for the id are looked for all the same.
var specialKeys = []struct{ kind, id, add string }{
	{"bos", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token"},
	{"eos", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token"},
	{"unk", "tokenizer.ggml.unknown_token_id", ""},
	{"sep", "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.add_sep_token"}, // spelled so in GGUF
	{"pad", "tokenizer.ggml.padding_token_id", ""},
	{"cls", "tokenizer.ggml.cls_token_id", ""},
	{"mask", "tokenizer.ggml.mask_token_id", ""},
}

// tokenizerJSON is tokenizer.json as far as GGUF's special tokens depend on it.
type tokenizerJSON struct {
	Added         []addedToken   `json:"added_tokens"`
	PostProcessor *postProcessor `json:"post_processor"`
}

type postProcessor struct {
	Type       string          `json:"type"`
	Processors []postProcessor `json:"processors"`
	Single     []templateItem  `json:"single"`
	Pair       []templateItem  `json:"pair"`
}

type templateItem struct {
	Special  *templateID `json:"SpecialToken"`
	Sequence *templateID `json:"Sequence"`
}

type templateID struct {
	ID string `json:"id"`
}

func (t templateItem) special() string {
	if t.Special == nil {
		return ""
	}
	return t.Special.ID
}

// specials collects ids and add_… switches in the order in which they are first set.
type specials struct {
	ids, adds map[string]gguf.Value
	order     []string // GGUF keys of adds
	idOrder   []string
}

func (s *specials) id(key string, n int64) {
	if _, has := s.ids[key]; !has {
		s.ids[key] = gguf.Uint32(uint32(n))
		s.idOrder = append(s.idOrder, key)
	}
}

func (s *specials) add(key string, on bool) {
	if _, has := s.adds[key]; !has {
		s.order = append(s.order, key)
	}
	s.adds[key] = gguf.Bool(on)
}

// specialKVs finds special token ids, add_… switches and chat template, where
// the converter finds them: tokenizer.json first, then tokenizer_config.json, then config.json.
func (c *Config) specialKVs(fsys fs.FS, config tokenizerConfig) ([]gguf.KV, error) {
	var tokenizer tokenizerJSON
	body, err := readFile(fsys, "tokenizer.json", maxJSON)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(body, &tokenizer); err != nil {
			return nil, fmt.Errorf("tokenizer.json: %w", err)
		}
	}
	s := &specials{ids: map[string]gguf.Value{}, adds: map[string]gguf.Value{}}
	if err := s.fromPostProcessor(tokenizer, config); err != nil {
		return nil, err
	}
	for _, k := range specialKeys {
		if on, ok := config.all["add_"+k.kind+"_token"].(bool); ok && k.add != "" {
			s.add(k.add, on)
		}
		text := tokenText(config.all[k.kind+"_token"])
		i := slices.IndexFunc(tokenizer.Added, func(t addedToken) bool { return t.Content == text })
		if text != "" && i >= 0 && tokenizer.Added[i].ID < c.VocabSize {
			s.id(k.id, tokenizer.Added[i].ID)
		}
	}
	for _, k := range specialKeys {
		if n, ok := c.specialTokens[k.kind+"_token_id"].(float64); ok && n == math.Trunc(n) {
			if n < 0 {
				return nil, fmt.Errorf("config.json: %s_token_id: got %v, want a token id", k.kind, n)
			}
			if n < float64(c.VocabSize) {
				s.id(k.id, int64(n))
			}
		}
	}
	return s.kvs(fsys, config)
}

func (s *specials) kvs(fsys fs.FS, config tokenizerConfig) ([]gguf.KV, error) {
	var kvs []gguf.KV
	for _, key := range s.idOrder {
		kvs = append(kvs, gguf.KV{Key: key, Value: s.ids[key]})
	}
	for _, key := range s.order {
		kvs = append(kvs, gguf.KV{Key: key, Value: s.adds[key]})
	}
	template, err := ChatTemplate(fsys, config.all["chat_template"])
	if err != nil {
		return nil, err
	}
	if template != "" {
		kvs = append(kvs, gguf.KV{Key: "tokenizer.chat_template", Value: gguf.String(template)})
	}
	return kvs, nil
}

// fromPostProcessor reads from tokenizer.json's templates whether BOS, EOS and
// a separator are added. Templates that end in another token than EOS change the
// meaning of EOS in the converter; those are refused by name.
func (s *specials) fromPostProcessor(tokenizer tokenizerJSON, config tokenizerConfig) error {
	if tokenizer.PostProcessor == nil {
		return nil
	}
	bos, eos := tokenText(config.all["bos_token"]), tokenText(config.all["eos_token"])
	sep, cls := tokenText(config.all["sep_token"]), tokenText(config.all["cls_token"])
	all := tokenizer.PostProcessor.Processors
	if all == nil {
		all = []postProcessor{*tokenizer.PostProcessor}
	}
	for _, p := range all {
		if p.Type != "TemplateProcessing" {
			if p.Type == "RobertaProcessing" {
				return fmt.Errorf("tokenizer.json: post_processor: got %s, want none or TemplateProcessing", p.Type)
			}
			continue
		}
		var first, last string
		if len(p.Single) > 1 {
			first, last = p.Single[0].special(), p.Single[len(p.Single)-1].special()
		}
		if first != "" {
			s.add("tokenizer.ggml.add_bos_token", first == bos || first == cls)
		}
		if last != "" {
			if last != eos {
				return fmt.Errorf("tokenizer.json: post_processor: got a template that ends in %q, want eos_token %q", last, eos)
			}
			s.add("tokenizer.ggml.add_eos_token", true)
		}
		s.fromPair(p.Pair, first, last, sep, eos)
	}
	return nil
}

// fromPair reads what stands between the two sequences of a pair.
func (s *specials) fromPair(pair []templateItem, first, last, sep, eos string) {
	if len(pair) > 0 && first != "" && pair[0].special() == first {
		pair = pair[1:]
	}
	if len(pair) > 0 && last != "" && pair[len(pair)-1].special() == last {
		pair = pair[:len(pair)-1]
	}
	if len(pair) < 3 || pair[0].Sequence == nil || pair[0].Sequence.ID != "A" ||
		pair[len(pair)-1].Sequence == nil || pair[len(pair)-1].Sequence.ID != "B" {
		return
	}
	between := pair[1 : len(pair)-1]
	separates := func(t templateItem) bool { return t.special() != "" && (t.special() == sep || t.special() == eos) }
	add := separates(between[0]) && last == ""
	if len(between) == 2 && separates(between[1]) {
		add = true
	}
	s.add("tokenizer.ggml.add_sep_token", add)
}

// tokenText gives a special token's text, which stands as a string or as an added-token object.
func tokenText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		text, _ := v["content"].(string)
		return text
	}
	return ""
}

// ChatTemplate finds the snapshot's chat template: stated is chat_template of
// tokenizer_config.json, which goes before chat_template.jinja and
// chat_template.json. Empty means that there is none. A snapshot whose files
// hold two different templates is refused, because readers differ in which they
// take; so is a list of named templates.
func ChatTemplate(fsys fs.FS, stated any) (string, error) {
	beside, name := "", "chat_template.jinja"
	body, err := readFile(fsys, name, maxJSON)
	switch {
	case err == nil:
		beside = string(body)
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	default:
		name = "chat_template.json"
		var file struct {
			Template string `json:"chat_template"`
		}
		if _, err := readJSON(fsys, name, &file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		beside = file.Template
	}
	switch stated := stated.(type) {
	case nil:
		return beside, nil
	case string:
		if beside != "" && beside != stated {
			return "", fmt.Errorf("tokenizer_config.json and %s hold two different chat templates; want one: loaders differ in which they take", name)
		}
		return stated, nil
	}
	return "", errors.New("tokenizer_config.json: chat_template: got several templates, want one")
}
