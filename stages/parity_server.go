package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/token"
)

const (
	maxServerAnswer  = 16 << 20 // bytes
	maxServerWords   = 300      // bytes of a refusal that an error repeats
	serverPatience   = 30 * time.Second
	maxServerIDs     = 1 << 20 // of one answer
	tokenizePath     = "/tokenize"
	detokenizePath   = "/detokenize"
	jsonType         = "application/json"
	replacementWords = "\uFFFD"
)

// server is a running llama.cpp server as a side (tools/server/README.md, POST
// /tokenize and POST /detokenize). It is asked over HTTP without a proxy, follows
// no redirect, and its answers are bounded in size and time.
type server struct {
	url    string
	client *http.Client
	pieces map[uint32][]byte
}

func newServer(with parityWith) (*server, error) {
	timeout, err := toolTimeout(with.Timeout)
	if err != nil {
		return nil, err
	}
	if timeout == 0 {
		timeout = serverPatience
	}
	return &server{url: strings.TrimSuffix(with.Server, "/"), pieces: map[uint32][]byte{}, client: &http.Client{
		Timeout: timeout, Transport: &http.Transport{Proxy: nil},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("it redirects, which is not followed") },
	}}, nil
}

// ask posts a question and decodes the answer.
func (s *server) ask(ctx context.Context, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	req.Header.Set("Content-Type", jsonType)
	res, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	defer res.Body.Close()
	read, err := io.ReadAll(io.LimitReader(res.Body, maxServerAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("server: %s: %w", path, err)
	case len(read) > maxServerAnswer:
		return fmt.Errorf("server: %s: got more than %d bytes, want at most that", path, maxServerAnswer)
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("server: %s: got status %d, want 200: %s", path, res.StatusCode, bytes.ToValidUTF8(read[:min(len(read), maxServerWords)], []byte(replacementWords)))
	}
	if err := json.Unmarshal(read, answer); err != nil {
		return fmt.Errorf("server: %s: %w", path, err)
	}
	return nil
}

// piece is a string, or a list of bytes where they are not UTF-8.
type piece []byte

// UnmarshalJSON implements [json.Unmarshaler].
func (p *piece) UnmarshalJSON(body []byte) error {
	var text string
	if err := json.Unmarshal(body, &text); err == nil {
		*p = []byte(text)
		return nil
	}
	var list []uint8
	var numbers []uint16 // a list of uint8 would be base64
	if err := json.Unmarshal(body, &numbers); err != nil {
		return fmt.Errorf("a piece: %w", err)
	}
	for _, n := range numbers {
		if n > 255 {
			return fmt.Errorf("a piece: got the byte %d, want 0 to 255", n)
		}
		list = append(list, uint8(n))
	}
	*p = list
	return nil
}

// IDs implements [token.Side].
func (s *server) IDs(ctx context.Context, text string, mode token.Mode) ([]uint32, error) {
	question := map[string]any{"content": text, "add_special": mode.Special, "parse_special": !mode.Plain, "with_pieces": true}
	var answer struct {
		Tokens *[]struct {
			ID    *uint32 `json:"id"`
			Piece *piece  `json:"piece"`
		} `json:"tokens"`
	}
	if err := s.ask(ctx, tokenizePath, question, &answer); err != nil {
		return nil, err
	}
	if answer.Tokens == nil || len(*answer.Tokens) > maxServerIDs {
		return nil, fmt.Errorf("server: %s: got no list of tokens, or more than %d", tokenizePath, maxServerIDs)
	}
	ids := make([]uint32, len(*answer.Tokens))
	for i, t := range *answer.Tokens {
		if t.ID == nil || t.Piece == nil {
			return nil, fmt.Errorf("server: %s: token %d: got no id with a piece, want both: it is too old a server", tokenizePath, i)
		}
		if before, known := s.pieces[*t.ID]; known && !bytes.Equal(before, *t.Piece) {
			return nil, fmt.Errorf("server: %s: got %q and %q for the id %d", tokenizePath, before, *t.Piece, *t.ID)
		}
		ids[i], s.pieces[*t.ID] = *t.ID, *t.Piece
	}
	return ids, nil
}

// Text implements [token.Side].
func (s *server) Text(ctx context.Context, ids []uint32) (string, error) {
	var answer struct {
		Content *string `json:"content"`
	}
	if err := s.ask(ctx, detokenizePath, map[string]any{"tokens": ids}, &answer); err != nil {
		return "", err
	}
	if answer.Content == nil {
		return "", fmt.Errorf("server: %s: got no content", detokenizePath)
	}
	return *answer.Content, nil
}

// Pieces implements [token.Side]. An id that the server gave in no answer so far is decoded alone.
func (s *server) Pieces(ctx context.Context, ids []uint32) ([][]byte, error) {
	pieces := make([][]byte, len(ids))
	for i, id := range ids {
		p, known := s.pieces[id]
		if !known {
			text, err := s.Text(ctx, []uint32{id})
			if err != nil {
				return nil, err
			}
			if strings.Contains(text, replacementWords) { // a byte alone is not told that way
				return nil, fmt.Errorf("id %d: %w", id, token.ErrCannot)
			}
			p = []byte(text)
		}
		pieces[i] = p
	}
	return pieces, nil
}

// Joined implements [token.Side].
func (*server) Joined() bool { return true }

// Source implements [token.Side]: nothing says which file a server serves.
func (*server) Source() (kernels.Input, bool) { return kernels.Input{}, false }
