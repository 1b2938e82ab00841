package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// TokenizerJSON gives the text of every id of tokenizer.json as GGUF has it:
// the vocabulary, and over it the added tokens. It is nil when the snapshot has
// no such file. Loaders of the publisher's own format read this file, so a
// tokenizer.model that disagrees with it gives another model to other users.
func (m *Model) TokenizerJSON() (map[int64]string, error) {
	body, err := readFile(m.fsys, "tokenizer.json", maxJSON)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseTokenizerJSON(body)
}

func parseTokenizerJSON(body []byte) (map[int64]string, error) {
	file, err := parseTokenizer(body)
	if err != nil {
		return nil, err
	}
	texts := map[int64]string{}
	var ids map[string]int64     // BPE and WordPiece
	var list [][]json.RawMessage // Unigram: pairs of text and score
	switch {
	case !set(file.Model.Vocab):
	case json.Unmarshal(file.Model.Vocab, &ids) == nil:
		for _, text := range sortedKeys(ids) {
			if other, twice := texts[ids[text]]; twice {
				return nil, fmt.Errorf("tokenizer.json: vocab: got %q and %q for id %d, want one text an id", other, text, ids[text])
			}
			texts[ids[text]] = text
		}
	case json.Unmarshal(file.Model.Vocab, &list) == nil:
		for i, pair := range list {
			var text string
			if len(pair) == 0 || json.Unmarshal(pair[0], &text) != nil {
				return nil, fmt.Errorf("tokenizer.json: vocab: entry %d: got no text, want text and score", i)
			}
			texts[int64(i)] = text
		}
	default:
		return nil, errors.New("tokenizer.json: vocab: got neither an object of ids nor a list of texts and scores")
	}
	for _, t := range file.Added {
		texts[t.ID] = t.text()
	}
	return texts, nil
}
