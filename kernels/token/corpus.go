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
	// what a normalizer could change: compatible, composed in two ways, reordered marks, Hangul in parts, case that grows
	"\ufb01n", "\u212b \u2126 \u1e9b\u0323", "q\u0307\u0323", "\u1112\u1161\u11ab", "İstanbul straße ǅ", "ｆｕｌｌ ｗｉｄｔｈ", "a\u00adb", "e\u0301\u0301", "\u0130", "x² + y³ = z⁴",
	// digits of other scripts, grouped and long ones
	"٣٤٥", "१२३", "12345678901234567890", "1,234,567.89", "0x1F 0b101 1e10", "௧௨௩", "1٢3",
	// letters, marks and joined emoji whose class depends on the version of Unicode
	"\U0001f9d1\u200d\U0001f4bb", "\U0001faf1\U0001f3fb\u200d\U0001faf2\U0001f3ff", "\u2764\ufe0f\u200d\U0001f525", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "\u0897a", "\U00010d40", "ﷺ", "กำ", "ন্তু",
	// line ends and control characters
	"a\r\nb\r\n", "a\rb", "\r\r\n", "a\vb\fc", "\x00", "a\x00b", "\x1b[0m", "\u0085x", "a\tb\t\tc", " \u00a0 ", "\u2003a\u2009b", "\u2060\u180e",
	// written like tokens
	"<0x41>", "<0x0A>x", "<s", "<unk", "<|x|>", "[INST]", "</think",
}

// Corpus makes the texts for a comparison: samples of languages, code, numbers,
// characters without a token and whitespace, each also with spaces and line
// breaks around it, the special tokens of e written out, and pairs of its tokens
// that share characters, which show the order of merges; then chats in the forms that
// templates give, long runs, and texts mixed from many scripts, which the seed
// draws. It has at least [MinCorpus] texts, and the same ones for the same
// tokenizer and seed. Every text is UTF-8.
func Corpus(e Encoder, seed uint64) []string {
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
	texts = append(texts, chats(e)...)
	texts = append(texts, runs()...)
	texts = append(texts, mixed(seed)...)
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
