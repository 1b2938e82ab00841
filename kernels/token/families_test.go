package token_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/token"
)

// families are the pre-tokenizers of published vocabularies, with what the
// library makes of texts, see fixtures/tokenizers/README.md.
type families struct {
	Tokenizer map[string]any `json:"tokenizer"`
	Texts     []string       `json:"texts"`
	Families  []family       `json:"families"`
	Decode    []struct {
		IDs  []uint32 `json:"ids"`
		Text string   `json:"text"`
	} `json:"decode"`
}

type family struct {
	Name         string     `json:"name"`
	Normalizer   any        `json:"normalizer"`
	Pretokenizer any        `json:"pre_tokenizer"`
	IgnoreMerges bool       `json:"ignore_merges"`
	IDs          [][]uint32 `json:"ids"`
}

func readFamilies(t testing.TB) families {
	t.Helper()
	var f families
	if err := json.Unmarshal(readFile(t, "../../fixtures/tokenizers/cases.json"), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// tokenizer is the tokenizer.json of one family.
func (f families) tokenizer(t testing.TB, i int) *token.Tokenizer {
	t.Helper()
	whole, model := maps.Clone(f.Tokenizer), maps.Clone(f.Tokenizer["model"].(map[string]any))
	model["ignore_merges"] = f.Families[i].IgnoreMerges
	whole["model"], whole["normalizer"], whole["pre_tokenizer"] = model, f.Families[i].Normalizer, f.Families[i].Pretokenizer
	body, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	tk, err := token.Load(body)
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

func TestByteLevelFamiliesEqualTheLibrary(t *testing.T) {
	f := readFamilies(t)
	if len(f.Families) < 13 || len(f.Texts) < 200 {
		t.Fatalf("got %d families and %d texts, want at least 13 and 200", len(f.Families), len(f.Texts))
	}
	distinct := map[string]string{}
	for i, family := range f.Families {
		tk := f.tokenizer(t, i)
		for j, text := range f.Texts {
			if got := tk.Encode(text, true); !slices.Equal(got, family.IDs[j]) {
				t.Errorf("%s: %q: got %v, want %v", family.Name, text, got, family.IDs[j])
			}
		}
		all := fmt.Sprint(family.IDs)
		if other, same := distinct[all]; same && family.Name != "gpt-4" { // which means what llama-3 means
			t.Errorf("the texts do not tell %s from %s", family.Name, other)
		}
		distinct[all] = family.Name
	}
	tk := f.tokenizer(t, 0)
	for _, x := range f.Decode {
		if got, err := tk.Decode(x.IDs, false); err != nil || got != x.Text {
			t.Errorf("decode %v: got %q %v, want %q", x.IDs, got, err, x.Text)
		}
	}
}
