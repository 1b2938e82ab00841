package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/weighmaster/weighmaster/kernels/strictjson"
)

// Names of the files that a vocabulary is in.
const (
	pieceFile     = "tokenizer.model" // SentencePiece
	tokenizerFile = "tokenizer.json"
	settingsFile  = "tokenizer_config.json"
)

// Bounds of a tokenizer.json's shape.
const (
	maxDepth  = 32
	maxMerges = 1 << 21
)

// addedToken is one entry of added_tokens_decoder or of tokenizer.json's added_tokens.
type addedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	Normalized bool   `json:"normalized"`
}

// tokenizerFiles are a snapshot's files that speak of its tokenizer, as read.
type tokenizerFiles struct {
	fsys      fs.FS
	body      []byte // tokenizer.json, nil when there is none
	tokenizer tokenizerJSON
	added     map[string]addedToken // tokenizer_config.json's added_tokens_decoder, by id
	settings  map[string]any        // all of tokenizer_config.json
}

// tokenizerJSON is tokenizer.json as far as GGUF depends on it.
type tokenizerJSON struct {
	Added         []addedToken    `json:"added_tokens"`
	Normalizer    *normalizerJSON `json:"normalizer"`
	PostProcessor *postProcessor  `json:"post_processor"`
	Decoder       struct {
		Type string `json:"type"`
	} `json:"decoder"`
	Model struct {
		Type         string          `json:"type"`
		Vocab        json.RawMessage `json:"vocab"`
		Merges       json.RawMessage `json:"merges"`
		IgnoreMerges bool            `json:"ignore_merges"`
		ByteFallback bool            `json:"byte_fallback"`
	} `json:"model"`
}

// normalizerJSON is a normalizer as far as the converter looks at it.
type normalizerJSON struct {
	Type         string           `json:"type"`
	Normalizers  []normalizerJSON `json:"normalizers"`
	Lowercase    *bool            `json:"lowercase"`
	StripAccents *bool            `json:"strip_accents"`
}

// isPieceBPE tells whether the file is a SentencePiece vocabulary in another form.
func (t *tokenizerJSON) isPieceBPE() bool {
	return t.Model.Type == "BPE" && t.Model.ByteFallback && t.Decoder.Type == "Sequence"
}

func readTokenizerFiles(fsys fs.FS) (tokenizerFiles, error) {
	f := tokenizerFiles{fsys: fsys}
	var err error
	if f.body, err = readFile(fsys, tokenizerFile, maxJSON); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err == nil {
		if f.tokenizer, err = parseTokenizer(f.body); err != nil {
			return f, err
		}
	}
	if _, err := readJSON(fsys, settingsFile, &f.settings); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return f, nil
		}
		return f, err
	}
	var settings struct {
		Added map[string]addedToken `json:"added_tokens_decoder"`
	}
	_, err = readJSON(fsys, settingsFile, &settings)
	f.added = settings.Added
	return f, err
}

func parseTokenizer(body []byte) (t tokenizerJSON, err error) {
	err = strictjson.Check(body, strictjson.Limits{Depth: maxDepth, Members: maxPieces, Elements: maxMerges})
	if err == nil {
		err = json.Unmarshal(body, &t)
	}
	if err != nil {
		return tokenizerJSON{}, fmt.Errorf("tokenizer.json: %w", err)
	}
	return t, nil
}

// has tells whether the snapshot has a file.
func (f *tokenizerFiles) has(name string) bool {
	_, err := fs.Stat(f.fsys, name)
	return err == nil
}
