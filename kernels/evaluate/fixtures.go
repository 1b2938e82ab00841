package evaluate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// FixturesSchema identifies the JSON form of [Fixtures].
const FixturesSchema = "https://github.com/weighmaster/weighmaster/schema/fixtures/v1"

// Fixtures is a set of prompts with the answers that they must get.
type Fixtures struct {
	Schema   string    `json:"schema"`
	Fixtures []Fixture `json:"fixtures"`
}

// Fixture is one prompt. Messages, thinking and tools say where the prompt came
// from; what is run is the prompt text, and its ids must be what the tokenizer gives for it.
type Fixture struct {
	ID            string          `json:"id"`
	Kind          string          `json:"kind"` // e.g. arithmetic, tool-call, retrieval
	Language      string          `json:"language"`
	Messages      json.RawMessage `json:"messages,omitempty"`
	Thinking      bool            `json:"thinking"`
	Tools         json.RawMessage `json:"tools,omitempty"`
	Prompt        string          `json:"prompt"`
	PromptIDs     []uint32        `json:"prompt_ids"`
	PromptTokens  int             `json:"prompt_tokens"`
	MaxNewTokens  int             `json:"max_new_tokens"`
	Expect        Expect          `json:"expect"`
	ExpectIDs     []uint32        `json:"expect_ids,omitempty"`      // what the reference generated; recorded, not judged
	MinMarginBF16 *float64        `json:"min_margin_bf16,omitempty"` // logits; the reference's own, recorded
}

// Expect is the wanted answer. Match is "exact" (the same text) or "contains" (the text is in it).
type Expect struct {
	Match string `json:"match"`
	Text  string `json:"text"`
}

// Limits of one fixtures file.
const (
	maxFixtures = 10000
	maxTokens   = 1 << 20 // of one prompt, and of one answer
)

// ParseFixtures reads a fixtures file strictly: unknown fields, a second
// fixture of one id, token counts that are not those of the ids, and a file without fixtures are refused.
func ParseFixtures(data []byte) (Fixtures, error) {
	var f Fixtures
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return Fixtures{}, fmt.Errorf("fixtures: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Fixtures{}, errors.New("fixtures: got something after the JSON value, want the end of the file")
	}
	if f.Schema != FixturesSchema {
		return Fixtures{}, fmt.Errorf("fixtures: schema: got %q, want %q", f.Schema, FixturesSchema)
	}
	if n := len(f.Fixtures); n == 0 || n > maxFixtures {
		return Fixtures{}, fmt.Errorf("fixtures: got %d fixtures, want 1 to %d", n, maxFixtures)
	}
	seen := map[string]bool{}
	for i, x := range f.Fixtures {
		if err := x.check(); err != nil {
			return Fixtures{}, fmt.Errorf("fixtures: fixture %d (%q): %w", i, x.ID, err)
		}
		if seen[x.ID] {
			return Fixtures{}, fmt.Errorf("fixtures: fixture %d: id %q: got it a second time, want each once", i, x.ID)
		}
		seen[x.ID] = true
	}
	return f, nil
}

func (f Fixture) check() error {
	switch {
	case f.ID == "" || f.Kind == "" || f.Language == "":
		return errors.New("id, kind and language: got an empty one, want all three")
	case f.Prompt == "" || len(f.PromptIDs) == 0 || len(f.PromptIDs) > maxTokens:
		return fmt.Errorf("prompt: got %d bytes and %d ids, want a text and 1 to %d ids", len(f.Prompt), len(f.PromptIDs), maxTokens)
	case f.PromptTokens != len(f.PromptIDs):
		return fmt.Errorf("prompt_tokens: got %d, want %d, the number of prompt_ids", f.PromptTokens, len(f.PromptIDs))
	case f.MaxNewTokens < 1 || f.MaxNewTokens > maxTokens:
		return fmt.Errorf("max_new_tokens: got %d, want 1 to %d", f.MaxNewTokens, maxTokens)
	case f.Expect.Match != "exact" && f.Expect.Match != "contains":
		return fmt.Errorf("expect.match: got %q, want \"exact\" or \"contains\"", f.Expect.Match)
	case f.Expect.Text == "":
		return errors.New("expect.text: got nothing, want the answer; an empty answer proves nothing")
	}
	return nil
}
