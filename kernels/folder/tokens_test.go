package folder

import (
	"slices"
	"testing"
)

func TestOtherTokens(t *testing.T) {
	object := func(text string) map[string]any { return map[string]any{"content": text, "lstrip": false} }
	for name, c := range map[string]struct {
		a, b map[string]any
		want []string
	}{
		"the same":             {map[string]any{"add_bos_token": true, "eos_token": "</s>"}, map[string]any{"add_bos_token": true, "eos_token": "</s>"}, nil},
		"a second BOS":         {map[string]any{"add_bos_token": false}, map[string]any{"add_bos_token": true}, []string{"add_bos_token"}},
		"another end":          {map[string]any{"eos_token": "</s>"}, map[string]any{"eos_token": "<s>"}, []string{"eos_token"}},
		"another end, object":  {map[string]any{"eos_token": object("</s>")}, map[string]any{"eos_token": object("<s>")}, []string{"eos_token"}},
		"other flags":          {map[string]any{"eos_token": object("</s>")}, map[string]any{"eos_token": map[string]any{"content": "</s>"}}, nil},
		"text beside object":   {map[string]any{"eos_token": "</s>"}, map[string]any{"eos_token": object("</s>")}, nil},
		"left out":             {map[string]any{"add_bos_token": true}, map[string]any{}, nil},
		"a setting of no kind": {map[string]any{"model_max_length": 1}, map[string]any{"model_max_length": 2}, nil},
	} {
		if got := OtherTokens(c.a, c.b); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
