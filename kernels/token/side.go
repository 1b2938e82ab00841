package token

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/weighmaster/weighmaster/kernels"
)

// Mode says how a text is encoded.
type Mode struct {
	Special bool // with the ids that the tokenizer puts around every text, such as BOS
	Plain   bool // special tokens that are written out stay text
}

// Side is one of the tokenizers that are compared: one in this process, see
// [Local], or another program that is asked. Its answers have bounds that it keeps itself.
type Side interface {
	// IDs encodes a text.
	IDs(ctx context.Context, text string, mode Mode) ([]uint32, error)
	// Text gives the text of ids, special tokens included.
	Text(ctx context.Context, ids []uint32) (string, error)
	// Pieces gives the bytes that each id alone stands for.
	Pieces(ctx context.Context, ids []uint32) ([][]byte, error)
	// Joined tells that its texts are the pieces one after the other, with no space taken off at the start.
	Joined() bool
	// Source names the side; a side in another program has no digest.
	Source() (in kernels.Input, ok bool)
}

// ErrCannot is a side's answer to a question that it has no way to answer. The
// comparison is undecided then, and with it the whole parity.
var ErrCannot = errors.New("this side cannot answer that")

// Local is a tokenizer in this process as a side.
func Local(e Encoder) Side {
	if e == nil {
		return nil
	}
	return local{e}
}

type local struct{ e Encoder }

func (l local) IDs(_ context.Context, text string, mode Mode) ([]uint32, error) {
	if mode.Plain {
		return l.e.Plain(text, mode.Special), nil
	}
	return l.e.Encode(text, mode.Special), nil
}

func (l local) Text(_ context.Context, ids []uint32) (string, error) { return l.e.Decode(ids, false) }

// skipped is the text without special tokens. Only sides in this process have it.
func (l local) skipped(ids []uint32) (string, error) { return l.e.Decode(ids, true) }

func (l local) Pieces(_ context.Context, ids []uint32) ([][]byte, error) {
	pieces := make([][]byte, len(ids))
	for i, id := range ids {
		piece, ok := l.e.Piece(id)
		if !ok {
			return nil, fmt.Errorf("position %d: got the id %d, want one below %d", i, id, l.e.Size())
		}
		pieces[i] = piece
	}
	return pieces, nil
}

func (local) Joined() bool { return false }

func (l local) Source() (kernels.Input, bool) {
	s, ok := l.e.(interface{ Source() kernels.Input })
	if !ok {
		return kernels.Input{}, false
	}
	return s.Source(), true
}

// textOf asks for a text in the form that both sides have.
func textOf(ctx context.Context, s Side, ids []uint32, joined bool) (string, error) {
	if !joined || s.Joined() {
		return s.Text(ctx, ids)
	}
	pieces, err := s.Pieces(ctx, ids)
	return lossyUTF8(string(bytes.Join(pieces, nil))), err
}
