package token

import (
	"fmt"
	"strings"
	"unicode/utf8"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/strictjson"
)

// Tokenizer is a tokenizer.json. It is not changed by use and may be shared.
type Tokenizer struct {
	normalize normalizer
	split     pretokenizer
	model     *bpe
	decode    decoder
	around    template
	literal   *matcher // added tokens that are found in the text as it is
	rewritten *matcher // added tokens that are found in the normalized text
	tokens    []string // by id
	ids       map[string]uint32
	special   map[uint32]bool
	byteLevel bool // tokens are written in byte characters
	source    kernels.Input
}

// Load reads a tokenizer.json of at most 64 MiB. It refuses, by name, every
// kind of part and every field that it does not know, fields given twice,
// truncation, padding and dropout, and ids that are not 0 to n-1.
func Load(tokenizerJSON []byte) (*Tokenizer, error) {
	if len(tokenizerJSON) > maxJSON {
		return nil, fmt.Errorf("tokenizer.json: got %d bytes, want at most %d", len(tokenizerJSON), maxJSON)
	}
	if err := strictjson.Check(tokenizerJSON, strictjson.Limits{Depth: maxDepth, Members: maxTokens, Elements: maxMerges}); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	root := node{raw: []byte(strings.TrimSpace(string(tokenizerJSON))), path: "$"}
	f, err := root.object("version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model")
	if err != nil {
		return nil, err
	}
	if version, err := scalar[string](f["version"]); err != nil || version != "1.0" {
		return nil, f["version"].errorf("got %s, want \"1.0\"", f["version"].shown())
	}
	for _, name := range []string{"truncation", "padding"} {
		if !f[name].absent() {
			return nil, f[name].errorf("got %s, want null: it changes ids by the length of a text", f[name].shown())
		}
	}
	t := &Tokenizer{source: kernels.Input{Name: "tokenizer.json", Digest: godigest.FromBytes(tokenizerJSON), Size: int64(len(tokenizerJSON))}}
	if err := t.load(f); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Tokenizer) load(f map[string]node) (err error) {
	if t.normalize, err = loadNormalizer(f["normalizer"]); err != nil {
		return err
	}
	if t.split, err = loadPretokenizer(f["pre_tokenizer"]); err != nil {
		return err
	}
	if err := checkFirst(f["pre_tokenizer"], t.normalize != nil); err != nil {
		return err
	}
	if t.model, t.tokens, err = loadModel(f["model"]); err != nil {
		return err
	}
	added, err := loadAdded(f["added_tokens"], t.model.ids, uint32(len(t.tokens)), t.normalize)
	if err != nil {
		return err
	}
	t.special = map[uint32]bool{}
	t.ids = make(map[string]uint32, len(t.tokens)+len(added))
	for id, text := range t.tokens {
		t.ids[text] = uint32(id)
	}
	for _, a := range added {
		if int(a.id) == len(t.tokens) {
			t.tokens = append(t.tokens, a.content)
		}
		t.ids[a.content] = a.id
		t.special[a.id] = a.special
	}
	t.literal, t.rewritten = newMatcher(added, false), newMatcher(added, true)
	if t.around, err = loadPostProcessor(f["post_processor"], len(t.tokens)); err != nil {
		return err
	}
	kind, _ := f["decoder"].kind()
	t.byteLevel = kind == "ByteLevel"
	t.decode, err = loadDecoder(f["decoder"])
	return err
}

// written is a token as it stands in a text.
func (t *Tokenizer) written(token string) string {
	if t.byteLevel {
		return fromByteChars(token)
	}
	return strings.ReplaceAll(token, spaceMark, " ")
}

// checkFirst refuses the scheme "first" where what precedes the split could
// move the beginning of the text.
func checkFirst(n node, normalized bool) error {
	marks, first := 0, false
	var visit func(n node) error
	visit = func(n node) error {
		f, err := n.fields()
		if err != nil {
			return err
		}
		if list := f["pretokenizers"]; len(list.raw) > 0 {
			members, err := list.array(maxSteps)
			for i := 0; err == nil && i < len(members); i++ {
				err = visit(members[i])
			}
			return err
		}
		if scheme := f["prepend_scheme"]; len(scheme.raw) > 0 {
			marks++
			first = first || string(scheme.raw) == `"first"`
		}
		return nil
	}
	if n.absent() {
		return nil
	}
	if err := visit(n); err != nil {
		return err
	}
	if first && (normalized || marks > 1) {
		return n.errorf("got the prepend_scheme \"first\" beside a normalizer or a second Metaspace, want it without; where the text begins is then not defined here")
	}
	return nil
}

// Encode implements [Encoder]. Bytes of the text that are not UTF-8 are taken as U+FFFD.
func (t *Tokenizer) Encode(text string, addSpecial bool) []uint32 {
	return t.encode(text, addSpecial, false)
}

// Plain implements [Encoder] (encode_special_tokens in the library, split_special_tokens in transformers).
func (t *Tokenizer) Plain(text string, addSpecial bool) []uint32 {
	return t.encode(text, addSpecial, true)
}

func (t *Tokenizer) encode(text string, addSpecial, plain bool) []uint32 {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	ids := []uint32{}
	if addSpecial {
		ids = append(ids, t.around.before...)
	}
	for _, f := range t.literal.split(text, true, plain) {
		if f.token {
			ids = append(ids, f.id)
			continue
		}
		if t.normalize != nil {
			f.text = t.normalize(f.text)
		}
		for _, f := range t.rewritten.split(f.text, f.first, plain) {
			if f.token {
				ids = append(ids, f.id)
				continue
			}
			ids = t.encodePiece(ids, piece{f.text, f.first})
		}
	}
	if addSpecial {
		ids = append(ids, t.around.after...)
	}
	return ids
}

func (t *Tokenizer) encodePiece(ids []uint32, p piece) []uint32 {
	if t.split == nil {
		return t.model.encode(ids, p.text)
	}
	for _, p := range t.split(p) {
		if p.text != "" {
			ids = t.model.encode(ids, p.text)
		}
	}
	return ids
}

// Decode implements [Encoder]. The library passes over ids that have no token; here they are an error.
func (t *Tokenizer) Decode(ids []uint32, skipSpecial bool) (string, error) {
	tokens := make([]string, 0, len(ids))
	for i, id := range ids {
		text, ok := t.Token(id)
		if !ok {
			return "", fmt.Errorf("decode: position %d: got the id %d, want one below %d", i, id, len(t.tokens))
		}
		if !skipSpecial || !t.special[id] {
			tokens = append(tokens, text)
		}
	}
	return strings.Join(t.decode(tokens), ""), nil
}

// Piece implements [Encoder].
func (t *Tokenizer) Piece(id uint32) ([]byte, bool) {
	text, ok := t.Token(id)
	if _, added := t.special[id]; added || !ok {
		return []byte(text), ok
	}
	if b, is := byteOf(text); is && t.model.bytes != nil {
		return []byte{b}, true
	}
	return []byte(t.written(text)), true
}

// Size implements [Encoder].
func (t *Tokenizer) Size() int { return len(t.tokens) }

// Token implements [Encoder].
func (t *Tokenizer) Token(id uint32) (string, bool) {
	if int64(id) >= int64(len(t.tokens)) {
		return "", false
	}
	return t.tokens[id], true
}

// ID implements [Encoder].
func (t *Tokenizer) ID(token string) (uint32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// IsSpecial implements [Encoder].
func (t *Tokenizer) IsSpecial(id uint32) bool { return t.special[id] }

// Source names the file by its content.
func (t *Tokenizer) Source() kernels.Input { return t.source }
