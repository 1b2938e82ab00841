package convert

// The tokenizer's keys in GGUF.
const (
	keyModel    = "tokenizer.ggml.model"
	keyPre      = "tokenizer.ggml.pre"
	keyTokens   = "tokenizer.ggml.tokens"
	keyScores   = "tokenizer.ggml.scores"
	keyTypes    = "tokenizer.ggml.token_type"
	keyMerges   = "tokenizer.ggml.merges"
	keyAddSpace = "tokenizer.ggml.add_space_prefix"
	keyTemplate = "tokenizer.chat_template"
)

// idKeys are the kinds of special token whose ids the converter writes. It looks
// for further kinds (cls, prefix and the like), for which it has no key.
var idKeys = map[string]string{
	"bos":  "tokenizer.ggml.bos_token_id",
	"eos":  "tokenizer.ggml.eos_token_id",
	"eot":  "tokenizer.ggml.eot_token_id",
	"eom":  "tokenizer.ggml.eom_token_id",
	"unk":  "tokenizer.ggml.unknown_token_id",
	"sep":  "tokenizer.ggml.seperator_token_id", // spelled so in GGUF
	"pad":  "tokenizer.ggml.padding_token_id",
	"mask": "tokenizer.ggml.mask_token_id",
}

// addable are the kinds that can be put around a text.
var addable = map[string]bool{"bos": true, "eos": true, "sep": true}

func keyAdd(kind string) string { return "tokenizer.ggml.add_" + kind + "_token" }
