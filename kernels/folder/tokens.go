package folder

import "reflect"

// TokenizerSettings is the file that holds what a tokenizer adds to a text.
const TokenizerSettings = "tokenizer_config.json"

// tokenKeys are the settings that change the ids of every prompt.
var tokenKeys = []string{"add_bos_token", "add_eos_token", "add_prefix_space", "bos_token", "eos_token", "pad_token", "unk_token"}

// OtherTokens lists the settings of two tokenizer_config.json by which prompts come out
// otherwise. Releases of transformers leave settings out and write tokens as texts or as objects:
// only what both state, in one form, is compared.
func OtherTokens(a, b map[string]any) []string {
	var keys []string
	for _, k := range tokenKeys {
		x, y := a[k], b[k]
		if x != nil && y != nil && reflect.TypeOf(x) == reflect.TypeOf(y) && !Same(content(x), content(y)) {
			keys = append(keys, k)
		}
	}
	return keys
}

// content is the text of a token that is written as an object, whose flags releases write anew.
func content(v any) any {
	if o, ok := v.(map[string]any); ok {
		return o["content"]
	}
	return v
}
