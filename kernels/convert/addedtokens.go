package convert

import (
	"fmt"
	"strconv"
	"strings"
)

// effectiveAdded are the added tokens by id, as transformers gives them to the
// converter: those of tokenizer.json, with the flags of tokenizer_config.json where it
// lists them, and every special token that tokenizer_config.json names. What transformers
// would append under a new id is refused by name.
func (s *vocabularySource) effectiveAdded(ids map[string]int64) (map[int64]addedToken, error) {
	added := map[int64]addedToken{}
	known := map[string]int64{}
	for _, t := range s.tokenizer.Added {
		if other, twice := added[t.ID]; twice && other.Content != t.Content {
			return nil, fmt.Errorf("tokenizer.json: added_tokens: got %q and %q for id %d, want one text an id", other.Content, t.Content, t.ID)
		}
		if id, twice := known[t.Content]; twice {
			return nil, fmt.Errorf("tokenizer.json: added_tokens: got %q as id %d and %d, want it once", t.Content, id, t.ID)
		}
		added[t.ID], known[t.Content] = t, t.ID
	}
	special := map[string]bool{}
	for _, text := range s.specialTexts() {
		special[text] = true
	}
	for id, t := range added {
		if s.added == nil && special[t.Content] { // a list that is there says it, even an empty one
			t.Special = true
			added[id] = t
		}
	}
	for _, key := range sortedKeys(s.added) {
		id, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: key: got %q, want a token id", key)
		}
		t := s.added[key]
		have, listed := known[t.Content]
		if !listed {
			have, listed = ids[t.Content]
		}
		if !listed || have != id {
			return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: got %q as id %d, want the text that tokenizer.json has there; the two files are of different tokenizers", t.Content, id)
		}
		t.ID, t.Special = id, t.Special || special[t.Content]
		added[id], known[t.Content] = t, id
	}
	for _, text := range s.specialTexts() {
		if _, listed := known[text]; listed {
			continue
		}
		id, has := ids[text]
		if !has {
			return nil, fmt.Errorf("tokenizer_config.json: got the special token %q, which tokenizer.json does not have; transformers would append it under a new id", text)
		}
		added[id], known[text] = addedToken{ID: id, Content: text, Special: true}, id
	}
	return added, nil
}

// specialTexts are the special tokens that tokenizer_config.json names, and
// those that its class has where it names none.
func (s *vocabularySource) specialTexts() []string {
	defaults := map[string]string{}
	if class, _ := s.settings["tokenizer_class"].(string); strings.HasPrefix(class, "LlamaTokenizer") || strings.HasPrefix(class, "CodeLlamaTokenizer") {
		defaults = map[string]string{"bos": "<s>", "eos": "</s>", "unk": "<unk>"}
	}
	var texts []string
	for _, kind := range usualKinds {
		value, stated := s.settings[kind+"_token"]
		if !stated && defaults[kind] != "" {
			value = defaults[kind]
		}
		if text, ok := tokenText(value); ok {
			texts = append(texts, text)
		}
	}
	list := func(values []any) {
		for _, v := range values {
			if text, ok := tokenText(v); ok {
				texts = append(texts, text)
			}
		}
	}
	for _, key := range []string{"additional_special_tokens", "extra_special_tokens"} {
		switch more := s.settings[key].(type) {
		case []any:
			list(more)
		case map[string]any:
			for _, name := range sortedKeys(more) {
				list([]any{more[name]})
			}
		}
	}
	return texts
}
