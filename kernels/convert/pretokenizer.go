package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/weighmaster/weighmaster/kernels/token"
)

// checkText is the text on whose ids the converter tells vocabularies apart.
const checkText = "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶\u200d🌫\ufe0f (multiple emojis con" +
	"catenated) ✅ 🦙🦙 3 33 333 3333 33333 333333 3333333 33333333 3.3 3..3 3...3 កាន់តែពិសេសអាច😁 ?我想在apple工作1314151天～ ------==" +
	"===== нещо на Български ''''''```````\"\"\"\"......!!!!!!?????? I've been 'told he's there, 'RE you sure? 'M not sure I'll make it, 'D you like some tea? We'Ve a'lL"

// UnknownPreTokenizerError is a byte-level vocabulary that the converter's table
// does not name. The converter stops there: llama.cpp would not know how to cut texts.
type UnknownPreTokenizerError struct {
	Digest string // SHA-256, hex, of the ids of the converter's text, written as a Python list
}

func (e *UnknownPreTokenizerError) Error() string {
	return fmt.Sprintf("tokenizer.json: pre-tokenizer: got the digest %s, want one of the %d in the converter's table; the converter refuses this vocabulary too: state the pre-tokenizer that the model was made with", e.Digest, len(pretokenizers))
}

// preTokenizer names the pre-tokenizer of a vocabulary by what it makes of [checkText].
func preTokenizer(t token.Encoder) (string, error) {
	list := []byte{'['}
	for i, id := range t.Encode(checkText, true) {
		if i > 0 {
			list = append(list, ", "...)
		}
		list = strconv.AppendUint(list, uint64(id), 10)
	}
	sum := sha256.Sum256(append(list, ']'))
	digest := hex.EncodeToString(sum[:])
	if name, known := pretokenizers[digest]; known {
		return name, nil
	}
	return "", &UnknownPreTokenizerError{digest}
}
