package convert

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// usualKinds are the special tokens that the converter looks for in every vocabulary.
var usualKinds = []string{"bos", "eos", "unk", "sep", "pad", "cls", "mask"}

// specials collects ids and add_… switches in the order in which they are first
// set. The rules are those of gguf-py's SpecialVocab: tokenizer.json's
// post-processor first, then tokenizer_config.json, then config.json.
type specials struct {
	kinds    []string
	limit    int64          // ids are below it; -1: any
	settings map[string]any // tokenizer_config.json, completed from the post-processor
	ids      map[string]uint32
	adds     map[string]bool
	idOrder  []string
	addOrder []string
}

func (s *specials) id(kind string, n int64) error {
	switch _, has := s.ids[kind]; {
	case n < 0 || n > math.MaxUint32:
		return fmt.Errorf("%s_token_id: got %d, want a token id", kind, n)
	case has || s.limit >= 0 && n >= s.limit:
		return nil
	}
	s.ids[kind] = uint32(n)
	s.idOrder = append(s.idOrder, kind)
	return nil
}

func (s *specials) add(kind string, on bool) {
	if _, has := s.adds[kind]; !has {
		s.addOrder = append(s.addOrder, kind)
	}
	s.adds[kind] = on
}

// addUnset is add where nothing was said before.
func (s *specials) addUnset(kind string, on bool) {
	if _, has := s.adds[kind]; !has {
		s.add(kind, on)
	}
}

// specialKVs finds special tokens, switches, chat template and normalizer for a
// vocabulary of n ids, -1 for one whose ids are not bounded.
func (s *vocabularySource) specialKVs(n int64) ([]gguf.KV, error) {
	found, err := s.specials(usualKinds, n, nil)
	if err != nil {
		return nil, err
	}
	templates, err := s.templateKVs()
	if err != nil {
		return nil, err
	}
	return append(append(found.kvs(), templates...), s.tokenizer.Normalizer.kvs()...), nil
}

// extraSpecials are what the converter adds afterwards for code models.
func (s *vocabularySource) extraSpecials(fixed map[string]int64) ([]gguf.KV, error) {
	found, err := s.specials([]string{"prefix", "suffix", "middle", "fsep", "eot"}, -1, fixed)
	if err != nil {
		return nil, err
	}
	return found.kvs(), nil
}

func (s *vocabularySource) specials(kinds []string, limit int64, fixed map[string]int64) (*specials, error) {
	found := &specials{kinds: slices.Clone(kinds), limit: limit, settings: maps.Clone(s.settings), ids: map[string]uint32{}, adds: map[string]bool{}}
	if s.body != nil {
		found.fromPostProcessor(s.tokenizer.PostProcessor)
	}
	if err := found.fromSettings(s.tokenizer.Added); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if err := found.fromConfig(s.config.specialTokens); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	for _, kind := range kinds {
		if n, has := fixed[kind]; has {
			if err := found.id(kind, n); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// fromSettings reads tokenizer_config.json: switches, and texts whose ids the added tokens give.
func (s *specials) fromSettings(added []addedToken) error {
	if len(s.settings) == 0 {
		return nil
	}
	for _, kind := range s.kinds {
		if on, ok := s.settings["add_"+kind+"_token"].(bool); ok {
			s.addUnset(kind, on)
		}
		text, ok := tokenText(s.settings[kind+"_token"])
		i := slices.IndexFunc(added, func(t addedToken) bool { return t.Content == text })
		if !ok || i < 0 {
			continue
		}
		if err := s.id(kind, added[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// fromConfig reads ids from config.json, or from the text model in it.
func (s *specials) fromConfig(config map[string]any) error {
	inner, _ := config["text_config"].(map[string]any)
	for _, kind := range s.kinds {
		value := config[kind+"_token_id"]
		if value == nil {
			value = inner[kind+"_token_id"]
		}
		if n, ok := value.(float64); ok && n == math.Trunc(n) {
			if err := s.id(kind, int64(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *specials) kvs() []gguf.KV {
	var kvs []gguf.KV
	for _, kind := range s.idOrder {
		if key := idKeys[kind]; key != "" {
			kvs = append(kvs, gguf.KV{Key: key, Value: gguf.Uint32(s.ids[kind])})
		}
	}
	for _, kind := range s.addOrder {
		if addable[kind] {
			kvs = append(kvs, gguf.KV{Key: keyAdd(kind), Value: gguf.Bool(s.adds[kind])})
		}
	}
	return kvs
}

// kvs lists the switches that a normalizer sets, also one inside a sequence.
func (n *normalizerJSON) kvs() []gguf.KV {
	var lower, strip *bool
	on := true
	var visit func(n *normalizerJSON)
	visit = func(n *normalizerJSON) {
		switch n.Type {
		case "Lowercase":
			lower = &on
		case "StripAccents":
			strip = &on
		case "BertNormalizer":
			if n.Lowercase != nil {
				lower = n.Lowercase
			}
			if n.StripAccents != nil {
				strip = n.StripAccents
			}
		}
		for i := range n.Normalizers {
			visit(&n.Normalizers[i])
		}
	}
	if n != nil {
		visit(n)
	}
	var kvs []gguf.KV
	if lower != nil {
		kvs = append(kvs, gguf.KV{Key: "tokenizer.ggml.normalizer.lowercase", Value: gguf.Bool(*lower)})
	}
	if strip != nil {
		kvs = append(kvs, gguf.KV{Key: "tokenizer.ggml.normalizer.strip_accents", Value: gguf.Bool(*strip)})
	}
	return kvs
}

// tokenText gives a special token's text, which stands as a string or as an added-token object.
func tokenText(v any) (text string, ok bool) {
	if object, is := v.(map[string]any); is {
		v = object["content"]
	}
	text, ok = v.(string)
	return text, ok
}
