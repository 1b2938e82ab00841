package convert

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

var bytePiece = regexp.MustCompile(`^<0x[0-9A-Fa-f]{2}>$`)

// pieceBPEVocabulary is a SentencePiece vocabulary that is there as tokenizer.json
// alone. It has no scores; every token gets the same. Ids are not padded to vocab_size.
func pieceBPEVocabulary(s vocabularySource) ([]gguf.KV, error) {
	ids, err := s.tokenizer.vocabIDs()
	if err != nil {
		return nil, err
	}
	added, err := s.effectiveAdded(ids)
	if err != nil {
		return nil, err
	}
	base := int64(len(ids))
	special := map[string]bool{}
	for _, text := range s.specialTexts() {
		special[text] = true
	}
	texts := make([]string, base)
	for text, id := range ids {
		if id < 0 || id >= base {
			return nil, fmt.Errorf("tokenizer.json: vocab: got the id %d for %q, want the ids 0 to %d", id, text, base-1)
		}
		texts[id] = text
	}
	var v vocabulary
	for _, text := range texts {
		kind := int32(TokenNormal)
		switch {
		case bytePiece.MatchString(text):
			kind = TokenByte
		case special[text]:
			kind = TokenControl
		}
		v.add(text, addedScore, kind)
	}
	var later []int64
	for id := range added {
		if id >= base {
			later = append(later, id)
		}
	}
	slices.Sort(later)
	for _, id := range later {
		kind := int32(TokenUserDefined)
		if special[added[id].Content] {
			kind = TokenControl
		}
		v.add(added[id].Content, addedScore, kind)
	}
	return s.finish(v)
}
