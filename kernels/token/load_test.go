package token_test

import (
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/token"
)

// small is a tokenizer with one part of each kind; the tests below change it.
const small = `{"version": "1.0", "truncation": null, "padding": null,
 "added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
                  {"id": 4, "content": "<x>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": false}],
 "normalizer": {"type": "Replace", "pattern": {"String": "q"}, "content": "b"},
 "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[0-9]"}, "behavior": "Isolated", "invert": false},
 "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
  "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
 "decoder": {"type": "Strip", "content": " ", "start": 1, "stop": 0},
 "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
  "byte_fallback": false, "ignore_merges": false, "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3}, "merges": [["a", "b"]]}}`

func TestLoadRefuses(t *testing.T) {
	if _, err := token.Load([]byte(small)); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ name, old, new, want string }{
		{"an unknown field", `"padding": null`, `"padding": null, "extra": 1`, "$.extra: got a field that is not known"},
		{"a field in another case", `"padding"`, `"Padding"`, "$.Padding: got a field that is not known"},
		{"a field twice", `"padding": null`, `"padding": null, "padding": null`, `got the field "padding" twice`},
		{"a token twice", `"a": 1,`, `"a": 1, "a": 1,`, `.model.vocab: got the field "a" twice`},
		{"the same token twice, escaped", `"a": 1,`, `"a": 1, "\u0061": 1,`, `got the field "a" twice`},
		{"half a surrogate pair", `"a": 1,`, `"\ud800": 1,`, "half of a surrogate pair"},
		{"two first halves", `"a": 1,`, `"\ud800\ud800": 1,`, "half of a surrogate pair"},
		{"bytes that are not UTF-8", `"a": 1,`, "\"\xff\": 1,", "not UTF-8"},
		{"text after the end", `[["a", "b"]]}}`, `[["a", "b"]]}} {}`, "text after the value"},
		{"an end too early", `[["a", "b"]]}}`, `[["a", "b"]]}`, "EOF"},
		{"another version", `"version": "1.0"`, `"version": "2.0"`, "$.version"},
		{"truncation", `"truncation": null`, `"truncation": {"max_length": 5}`, "$.truncation: got"},
		{"padding", `"padding": null`, `"padding": {"strategy": "BatchLongest"}`, "$.padding: got"},
		{"an unknown normalizer", `"type": "Replace"`, `"type": "NFKC"`, `$.normalizer: got the normalizer "NFKC"`},
		{"an unknown pre-tokenizer", `"type": "Split"`, `"type": "Whitespace"`, `$.pre_tokenizer: got the pre-tokenizer "Whitespace"`},
		{"an unknown decoder", `"type": "Strip"`, `"type": "WordPiece"`, `$.decoder: got the decoder "WordPiece"`},
		{"an unknown post-processor", `"type": "TemplateProcessing"`, `"type": "BertProcessing"`, `$.post_processor: got the post-processor "BertProcessing"`},
		{"an unknown model", `"type": "BPE"`, `"type": "Unigram"`, `$.model: got the model "Unigram"`},
		{"no model type", `"type": "BPE", `, ``, "$.model.type: got nothing"},
		{"dropout", `"dropout": null`, `"dropout": 0.1`, "$.model.dropout: got 0.1"},
		{"a subword prefix", `"continuing_subword_prefix": null`, `"continuing_subword_prefix": "##"`, "$.model.continuing_subword_prefix"},
		{"a word suffix", `"end_of_word_suffix": null`, `"end_of_word_suffix": "</w>"`, "$.model.end_of_word_suffix"},
		{"an unknown token that is none", `"unk_token": null`, `"unk_token": "?"`, `$.model.unk_token: got "?"`},
		{"a flag that is a number", `"fuse_unk": false`, `"fuse_unk": 1`, "$.model.fuse_unk: got 1, want a bool"},
		{"a gap in the ids", `"ab": 3`, `"ab": 5`, "got the id 5 among 4 tokens"},
		{"an id twice", `"ab": 3`, `"ab": 2`, `got the id 2 for "ab" and "b"`},
		{"an id that is negative", `"ab": 3`, `"ab": -3`, `token "ab": got -3, want an id`},
		{"an id that is null", `"ab": 3`, `"ab": null`, `token "ab": got <nil>, want an id`},
		{"an empty token", `"ab": 3`, `"": 3`, "got a token of 0 bytes"},
		{"a merge of no token", `[["a", "b"]]`, `[["b", "a"]]`, `$.model.merges[0]: got "b" and "a", which make no token`},
		{"a merge twice", `[["a", "b"]]`, `[["a", "b"], ["a", "b"]]`, `$.model.merges[1]: got the merge of "a" and "b" twice`},
		{"a merge of three", `[["a", "b"]]`, `["a b c"]`, "want two tokens"},
		{"a merge of one", `[["a", "b"]]`, `[["ab"]]`, "got 1 tokens, want 2"},
		{"an added token with another id", `"id": 4`, `"id": 5`, `got the id 5 for "<x>", want 4`},
		{"an added token of the vocabulary with another id", `"id": 0, "content": "<s>"`, `"id": 1, "content": "<s>"`, `got the id 1 for "<s>", want 0`},
		{"an added token twice", `"content": "<x>"`, `"content": "<s>"`, `got the token "<s>" twice`},
		{"an empty added token", `"content": "<x>"`, `"content": ""`, "got an empty content"},
		{"an added token that the normalizer changes", `"content": "<x>"`, `"content": "<q>"`, `got the token "<q>", which is sought in normalized text, where it is "<b>"`},
		{"an added token without a flag", `"normalized": true, `, ``, "$.added_tokens[1].normalized: got nothing"},
		{"a behaviour", `"Isolated"`, `"isolated"`, `$.pre_tokenizer.behavior: got "isolated"`},
		{"a template without the text", `, {"Sequence": {"id": "A", "type_id": 0}}`, ``, "got the text 0 times"},
		{"a template of the second text", `{"id": "A"`, `{"id": "B"`, `got "B", want A`},
		{"a template with an unknown token", `{"SpecialToken": {"id": "<s>"`, `{"SpecialToken": {"id": "<t>"`, `got "<t>", want one of special_tokens`},
		{"a template with an id beyond", `"ids": [0]`, `"ids": [5]`, "got the id 5, want one below 5"},
		{"a Strip of two characters", `"content": " "`, `"content": "  "`, "$.decoder.content"},
		{"an empty pattern", `{"String": "q"}`, `{"String": ""}`, "$.normalizer.pattern.String: got an empty text"},
		{"both patterns", `{"String": "q"}`, `{"String": "q", "Regex": "q"}`, "want either String or Regex"},
		{"scheme first after a normalizer", `{"type": "Split", "pattern": {"Regex": "[0-9]"}, "behavior": "Isolated", "invert": false}`,
			`{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true}`, `"first" beside a normalizer`},
		{"a scheme that is none", `{"type": "Split", "pattern": {"Regex": "[0-9]"}, "behavior": "Isolated", "invert": false}`,
			`{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "last", "split": true}`, `$.pre_tokenizer.prepend_scheme: got "last"`},
		{"too many members", `"pair": []`, `"pair": [` + strings.Repeat("0,", 1<<21) + "0]", "$.post_processor.pair: got more than 2097152 members"},
		{"nested too deep", `"pair": []`, `"pair": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40), "nested deeper"},
	} {
		changed := strings.Replace(small, x.old, x.new, 1)
		if changed == small {
			t.Errorf("%s: the change did not take", x.name)
			continue
		}
		if _, err := token.Load([]byte(changed)); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", x.name, err, x.want)
		}
	}
	for name, body := range map[string]string{"nothing": "", "null": "null", "an array": "[]", "a text": `"x"`} {
		if _, err := token.Load([]byte(body)); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if _, err := token.Load(make([]byte, 64<<20+1)); err == nil || !strings.Contains(err.Error(), "want at most 67108864") {
		t.Errorf("a file that is too large: got %v", err)
	}
}

func TestPatternsThatDifferBetweenEnginesAreRefused(t *testing.T) {
	for expr, want := range map[string]string{
		`\\s+(?!\\S)`: "a look-around", `(?<=a)b`: "a look-around", `(?i:a)`: "a flag", `(?<n>a)`: "a named group", `(a)\\1`: `the escape \1`,
		`^a`: "an anchor", `a$`: "an anchor", `a++`: "a possessive repeat", `a{2}+`: "a repeat after a repeat", `a{2}?`: "a repeat after a repeat", `a{,2}`: "a { that is no repeat",
		`[a&&b]`: "a set operation", `[[:alpha:]]`: "a set operation", `[]a]`: "a set that starts with ]", `\\w+`: `the escape \w`, `\\bA`: `the escape \b`, `\\pL`: `a \p without {}`,
		`\\p{Foo}`: `the class \p{Foo}`, `\\p{^L}`: `the class \p{^L}`, `[^\\S]`: `the escape \S`, `a\\`: "a backslash at the end",
		`a*`: "can match an empty text", `a|b?`: "can match an empty text", `(a{0,3})`: "can match an empty text", `()`: "can match an empty text", ``: "can match an empty text",
		`(a`: "missing closing )", `[a`: "missing closing ]", `a{9999}`: "invalid repeat count", `*a`: "missing argument",
	} {
		changed := strings.Replace(small, `"[0-9]"`, `"`+expr+`"`, 1)
		if _, err := token.Load([]byte(changed)); err == nil || !strings.Contains(err.Error(), "$.pre_tokenizer.pattern.Regex") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", expr, err, want)
		}
	}
	for _, expr := range []string{`a`, `[0-9A-Z]`, `[^a-c]+`, `\\p{L}+|\\p{N}{1,3}`, `\\s`, `[\\s\\d,]`, `\\S+`, `.`, `(?:ab|c)+?`, `a{2,}`, `\\.\\[\\^`, `[\\]\\-]`} {
		changed := strings.Replace(small, `"[0-9]"`, `"`+expr+`"`, 1)
		if _, err := token.Load([]byte(changed)); err != nil {
			t.Errorf("%s: %v", expr, err)
		}
	}
}
