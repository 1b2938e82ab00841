package token_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/token"
)

const modelDir = "../../fixtures/model"

func readFile(t testing.TB, elem ...string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func exampleTokenizer(t testing.TB) *token.Tokenizer {
	t.Helper()
	tk, err := token.Load(readFile(t, modelDir, "snapshot", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// libraryCases are what the Hugging Face library itself made of texts and ids.
type libraryCases struct {
	Digest string        `json:"tokenizer_sha256"`
	Cases  []libraryCase `json:"cases"`
	Decode []libraryCase `json:"decode"`
}

type libraryCase struct {
	Text       string   `json:"text"`
	AddSpecial bool     `json:"add_special_tokens"`
	IDs        []uint32 `json:"ids"`
	Decoded    string   `json:"decoded"`
	Skipped    string   `json:"decoded_skip"`
}

func exampleCorpus(t testing.TB) libraryCases {
	t.Helper()
	var c libraryCases
	if err := json.Unmarshal(readFile(t, modelDir, "tokenizer", "corpus.json"), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestExampleTokenizerEqualsTheLibrary(t *testing.T) {
	tk, c := exampleTokenizer(t), exampleCorpus(t)
	if got := godigest.FromBytes(readFile(t, modelDir, "snapshot", "tokenizer.json")).Encoded(); got != c.Digest {
		t.Fatalf("corpus.json was made from another tokenizer.json: got %s, want %s", got, c.Digest)
	}
	if len(c.Cases) < 330 || len(c.Decode) < 50 {
		t.Fatalf("got %d texts and %d id lists, want at least 330 and 50", len(c.Cases), len(c.Decode))
	}
	for category, holds := range categories {
		if n := count(c.Cases, holds); n < 10 {
			t.Errorf("%s: got %d cases, want at least 10", category, n)
		}
	}
	for _, x := range c.Cases {
		if got := tk.Encode(x.Text, x.AddSpecial); !slices.Equal(got, x.IDs) {
			t.Errorf("encode %q, special %v: got %v, want %v", x.Text, x.AddSpecial, got, x.IDs)
		}
	}
	for _, x := range append(c.Cases, c.Decode...) {
		checkDecode(t, tk, x)
	}
}

func checkDecode(t *testing.T, tk token.Encoder, x libraryCase) {
	t.Helper()
	for skip, want := range map[bool]string{false: x.Decoded, true: x.Skipped} {
		if got, err := tk.Decode(x.IDs, skip); err != nil || got != want {
			t.Errorf("decode %v, skip %v: got %q %v, want %q", x.IDs, skip, got, err, want)
		}
	}
}

var categories = map[string]func(libraryCase) bool{
	"leading space": func(x libraryCase) bool { return strings.HasPrefix(x.Text, " ") },
	"Chinese": func(x libraryCase) bool {
		return strings.ContainsFunc(x.Text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
	},
	"code": func(x libraryCase) bool { return strings.ContainsAny(x.Text, "{}()=;") },
	"byte fallback": func(x libraryCase) bool {
		return slices.ContainsFunc(x.IDs, func(id uint32) bool { return id >= 3 && id < 259 })
	},
	"not ASCII":      func(x libraryCase) bool { return strings.ContainsFunc(x.Text, func(r rune) bool { return r >= 0x80 }) },
	"special tokens": func(x libraryCase) bool { return strings.Contains(x.Text, "<|") },
	"with BOS":       func(x libraryCase) bool { return x.AddSpecial },
	"without BOS":    func(x libraryCase) bool { return !x.AddSpecial },
}

func count(cases []libraryCase, holds func(libraryCase) bool) (n int) {
	for _, x := range cases {
		if holds(x) {
			n++
		}
	}
	return n
}

func TestVocabulary(t *testing.T) {
	tk := exampleTokenizer(t)
	if got := tk.Size(); got != 628 {
		t.Errorf("size: got %d, want 628", got)
	}
	for id := range uint32(tk.Size()) {
		text, ok := tk.Token(id)
		back, found := tk.ID(text)
		if !ok || !found || back != id {
			t.Errorf("id %d: got the token %q and from it the id %d", id, text, back)
		}
	}
	if _, ok := tk.Token(628); ok {
		t.Error("id 628 has a token; the vocabulary ends before it")
	}
	if _, err := tk.Decode([]uint32{5, 628}, false); err == nil || !strings.Contains(err.Error(), "position 1: got the id 628") {
		t.Errorf("decoding an id without a token: got %v", err)
	}
	for text, want := range map[string]bool{"<s>": true, "<|user|>": true, "<think>": false, "a": false} {
		id, ok := tk.ID(text)
		if !ok || tk.IsSpecial(id) != want {
			t.Errorf("%s: special: got %v, want %v", text, tk.IsSpecial(id), want)
		}
	}
}
