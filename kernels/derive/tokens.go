package derive

import (
	"fmt"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

const tokensKey = "tokenizer.ggml.tokens"

// compareTokens holds the product's tokens against tokenizer.json, id by id:
// the file that loaders of the publisher's own format read. An id that it lacks
// must be padding. One finding names the first difference.
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
		if got != want {
			return []kernels.Finding{{
				Check: "tokens", Where: fmt.Sprintf("key %s element %d", tokensKey, id), Got: fmt.Sprintf("%.80q", got),
				Want: fmt.Sprintf("%.80q, by tokenizer.json", want), Hint: "the same ids mean other text to other loaders",
			}}
		}
	}
	return nil
}
