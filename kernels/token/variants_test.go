package token_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/token"
)

// TestVariantsEqualTheLibrary reads small tokenizers of every kind, made and
// run by the library (testdata/variants.py).
func TestVariantsEqualTheLibrary(t *testing.T) {
	var variants []struct {
		Name      string
		Tokenizer json.RawMessage
		Cases     []libraryCase
	}
	if err := json.Unmarshal(readFile(t, "testdata", "variants.json"), &variants); err != nil {
		t.Fatal(err)
	}
	if len(variants) < 30 {
		t.Fatalf("got %d variants, want at least 30", len(variants))
	}
	for _, v := range variants {
		t.Run(v.Name, func(t *testing.T) {
			tk, err := token.Load(v.Tokenizer)
			if err != nil {
				t.Fatal(err)
			}
			if len(v.Cases) < 50 {
				t.Fatalf("got %d cases, want at least 50", len(v.Cases))
			}
			for _, x := range v.Cases {
				if got := tk.Encode(x.Text, x.AddSpecial); !slices.Equal(got, x.IDs) {
					t.Errorf("encode %q, special %v: got %v, want %v", x.Text, x.AddSpecial, got, x.IDs)
				}
				checkDecode(t, tk, x)
			}
		})
	}
}
