package derive

import (
	"fmt"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

const tokensKey = "tokenizer.ggml.tokens"

// compareTokens holds the product's tokens against tokenizer.json, id by id:
// the file that loaders of the publisher's own format read. An id that it lacks
// must be padding. A token of one byte may stand by its name, as SentencePiece has
// it (Gemma's tabulator is <0x09> there). One finding names the first difference.
func compareTokens(src *side, product []gguf.KV) []kernels.Finding {
	if src.texts == nil {
		return nil
	}
	value, _ := kv(product, tokensKey)
	for id, got := range value.Strings() {
		want, has := src.texts[int64(id)]
		if !has {
			want = fmt.Sprintf("[PAD%d]", id)
		}
		if !has && src.padded {
			continue
		}
		if got != want && got != byteName(want) {
			return []kernels.Finding{{
				Check: "tokens", Where: fmt.Sprintf("key %s element %d", tokensKey, id), Got: fmt.Sprintf("%.80q", got),
				Want: fmt.Sprintf("%.80q, by tokenizer.json", want), Hint: "the same ids mean other text to other loaders",
			}}
		}
	}
	return nil
}

// byteName is the name of a token of one byte, empty for any other text.
func byteName(text string) string {
	if len(text) != 1 {
		return ""
	}
	return fmt.Sprintf("<0x%02X>", text[0])
}
