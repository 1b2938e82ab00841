// Package token reads tokenizers and compares them.
//
// [Load] reads a Hugging Face tokenizer.json and gives the ids and texts that
// the "tokenizers" library (0.2x) gives: byte-pair encoding with its
// normalizers, pre-tokenizers, decoders, post-processor and added tokens.
// [FromGGUF] reads the vocabulary of a GGUF file, SentencePiece-style or
// byte-level, and gives the ids that llama.cpp gives. [Parity] compares two of
// them over a corpus.
//
// Characters are classed as the library does: its expressions follow Unicode 16
// (Oniguruma), Digits Unicode 17 and Punctuation Unicode 8. NFC follows the tables of
// Unicode 15; characters that later versions compose are left as they are.
//
// Whatever is not known here is refused by its name, since a tokenizer that is
// nearly right gives wrong measurements with no error anywhere.
package token

// Encoder turns text into token ids and back.
type Encoder interface {
	// Encode gives the ids of the text; with addSpecial also those that the tokenizer puts around every text, such as BOS.
	// Special and added tokens that are written out in the text become their ids.
	Encode(text string, addSpecial bool) []uint32
	// Plain encodes as Encode does, but special tokens that are written out stay text, as a text of a user has to.
	// Added tokens that are not special become their ids all the same.
	Plain(text string, addSpecial bool) []uint32
	// Decode gives the text of the ids; with skipSpecial special tokens give no text. An id without a token is an error.
	Decode(ids []uint32, skipSpecial bool) (string, error)
	// Piece gives the bytes that an id alone stands for, special tokens as they are written.
	Piece(id uint32) ([]byte, bool)
	// Token gives the token of an id, and ID the id of a token.
	Token(id uint32) (string, bool)
	ID(token string) (uint32, bool)
	IsSpecial(id uint32) bool
	// Size is the number of ids that stand for a token.
	Size() int
}
