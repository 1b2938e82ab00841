package schemas

// How a derivation that leaves keys of a vocabulary to the parity stage is tied to
// it: both name the digest over everything that a tokenizer is made of.
const (
	MetricTokenizerKeysLeft = "tokenizer_keys_left" // of a derive report; there only where keys are left, were there none
	FactTokenizer           = "tokenizer"           // of a parity run, and in that metric's identity: sha256
)
