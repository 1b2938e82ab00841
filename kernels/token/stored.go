package token

import (
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
)

// stored is what tokenizers that a GGUF file holds have in common.
type stored struct {
	v      Vocabulary
	marked []uint32 // control, unknown and user-defined tokens, longest first
	size   int
	source kernels.Input
	marks  bosMarks
}

// Size implements [Encoder]: unused ids at the end, which pad a vocabulary, do not count.
func (s *stored) Size() int { return s.size }

// Token implements [Encoder].
func (s *stored) Token(id uint32) (string, bool) {
	if int64(id) >= int64(len(s.v.Tokens)) {
		return "", false
	}
	return s.v.Tokens[id], true
}

// IsSpecial implements [Encoder].
func (s *stored) IsSpecial(id uint32) bool {
	return int64(id) < int64(len(s.v.Types)) && (s.v.Types[id] == TypeControl || s.v.Types[id] == TypeUnknown)
}

// Source names the vocabulary by its content.
func (s *stored) Source() kernels.Input { return s.source }

// userDefined are the marked tokens that are not special: llama.cpp reads them in
// every text, the others only where it is told to (parse_special).
func (s *stored) userDefined() []uint32 {
	return slices.DeleteFunc(slices.Clone(s.marked), s.IsSpecial)
}
