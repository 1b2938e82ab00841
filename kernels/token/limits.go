package token

// Bounds of what is read. They exceed every published tokenizer several times.
const (
	maxJSON     = 64 << 20 // bytes of tokenizer.json
	maxDepth    = 32       // nesting of its values
	maxTokens   = 1 << 20  // entries of a vocabulary
	maxMerges   = 1 << 21
	maxAdded    = 1 << 16
	maxTokenLen = 4096 // bytes of one token
	maxSteps    = 64   // members of a Sequence
	maxPattern  = 4096 // bytes of a pattern, a replacement or a prefix
)
