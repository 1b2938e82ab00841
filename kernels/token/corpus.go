package token

import (
	"slices"
	"strings"
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
// breaks around it, and the special tokens of e written out. It has at least
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
	slices.Sort(texts)
	return slices.Compact(texts)
}

const maxSpecial = 64 // special tokens that the corpus writes out; some vocabularies reserve hundreds
