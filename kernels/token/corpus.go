package token

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// samples show what tokenizers are known to differ on.
var samples = []string{
	// words, sentences, capitals, digits, punctuation
	"a", "the", "The quick brown fox jumps over the lazy dog.", "hello world", "HELLO World", "don't, won't; it's", "e.g. U.S.A., Mr. X",
	"0", "42", "1 234 567", "3.14159", "-1e-9", "2026-08-01", "1st 2nd 3rd", "?!...", "\"quoted\" 'single'", "(a) [b] {c} <d>", "under_score kebab-case",
	// code and data
	"def f(x):\n    return x + 1\n", "for (int i = 0; i < n; i++) { s += a[i]; }", "if err != nil {\n\treturn err\n}", "SELECT * FROM t WHERE a >= 1;",
	"{\"name\": \"f\", \"arguments\": {\"x\": [1, 2, null]}}", "<a href=\"x\">y</a>", "https://example.com/a?b=c&d=e#f", "C:\\dir\\file.txt", "x = 'a' if b else \"c\"  # d",
	// Chinese, Japanese, Korean and other scripts
	"你好，世界！", "小明有3个苹果，又得到4个。", "十七加二十五等于多少？", "中文 English 混合", "繁體中文", "こんにちは、カタカナ", "안녕하세요", "Привет, мир", "Ελληνικά", "שלום", "مرحبا", "नमस्ते", "ไทย",
	// characters that have no token of their own in most vocabularies
	"🙂", "👨\u200d👩\u200d👧", "👍🏽", "🇩🇪", "𝒜𝓑", "𠮷", "\u0001\u0002", "\u007f\u0080", "\ufffd", "\U0010ffff", "½ ² Ⅳ ①", "０１２",
	// composed and decomposed, invisible and unusual spaces
	"café", "cafe\u0301", "a\u030a", "\u00a0", "a\u00a0b", "\u3000", "\u200b", "\ufeff", "\u2028", "\u202eabc",
	// whitespace and the mark that stands for it
	"a  b   c    d", "\n", "\n\n", "\t", "\r\n", " \n \t ", "▁", "▁a▁b", "a\n b\n  c",
	// written like tokens
	"<0x41>", "<0x0A>x", "<s", "<unk", "<|x|>", "[INST]", "</think",
}

// Corpus makes the texts for a comparison: samples of languages, code, numbers,
// characters without a token and whitespace, each also with spaces and line
// breaks around it, the special tokens of e written out, and pairs of its tokens
// that share characters, which show the order of merges. It has at least
// [MinCorpus] texts, and the same ones for the same tokenizer.
func Corpus(e Encoder) []string {
	texts := []string{""}
	for _, s := range samples {
		texts = append(texts, s, " "+s, "  "+s, s+" ", s+"\n"+s, s+" "+s)
	}
	special := 0
	for id := range uint32(e.Size()) {
		if !e.IsSpecial(id) || special == maxSpecial {
			continue
		}
		special++
		s, _ := e.Token(id)
		texts = append(texts, s, s+"a", " "+s+" b", "中"+s+s, "\n"+s+" a b\n", strings.TrimSuffix(s, ">"))
	}
	texts = append(texts, overlaps(e)...)
	slices.Sort(texts)
	return slices.Compact(texts)
}

// What the corpus takes from a vocabulary at most: special tokens (some
// vocabularies reserve hundreds), tokens, and partners for each end of a token.
const (
	maxSpecial  = 64
	maxWords    = 512
	maxPartners = 3
)

// overlaps writes tokens over one another: "ab" and "bc" give "abc", whose ids
// depend on which of the two is merged first.
func overlaps(e Encoder) []string {
	words := words(e)
	starts := map[rune][]string{}
	for _, w := range words {
		r, _ := utf8.DecodeRuneInString(w)
		starts[r] = append(starts[r], w)
	}
	step := max(1, len(words)/maxWords)
	var texts []string
	for i := 0; i < len(words); i += step {
		w := words[i]
		texts = append(texts, w)
		for at, r := range w {
			partners := 0
			for _, next := range starts[r] {
				if at == 0 || partners == maxPartners {
					break
				}
				if rest, ok := strings.CutPrefix(next, w[at:]); ok && rest != "" {
					texts = append(texts, w+rest)
					partners++
				}
			}
		}
	}
	return texts
}

// words are the tokens of two characters and more, as text.
func words(e Encoder) []string {
	var out []string
	for id := range uint32(e.Size()) {
		text, _ := e.Token(id)
		if _, isByte := byteOf(text); e.IsSpecial(id) || isByte {
			continue
		}
		if w, ok := e.(interface{ written(string) string }); ok {
			text = w.written(text)
		} else {
			text = strings.ReplaceAll(text, spaceMark, " ")
		}
		if utf8.RuneCountInString(text) >= 2 && utf8.ValidString(text) {
			out = append(out, text)
		}
	}
	return out
}
