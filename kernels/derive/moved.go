package derive

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/recipe"
)

// Move is a tensor whose stored rows are the source's in another order.
type Move struct {
	Tensor string `json:"tensor"`
	Heads  int64  `json:"heads"` // by which the rows were moved, 0 where it is no rotary order
	Order  string `json:"order"`
}

const (
	toInterleaved = "half-split to interleaved rotary order"
	toHalfSplit   = "interleaved to half-split rotary order"
	otherOrder    = "another order"
)

// moved tells whether two tensors of one type hold the same encoded rows in
// another order: nothing was quantized again. Nil where they do not.
func (p *pair) moved(ctx context.Context) (*Move, error) {
	rows := p.src.rows.Weights() / p.width()
	if len(p.src.dims) == 1 { // a bias moves number by number
		rows = p.width()
	}
	if !p.same() || p.src.heads > 0 || rows < 4 || rows > maxRows || p.src.rows.Weights()%(rows*int64(p.src.rows.Codec.Weights)) != 0 {
		return nil, nil
	}
	ours, err := rowHashes(ctx, p.src, rows)
	if err != nil {
		return nil, err
	}
	theirs, err := rowHashes(ctx, p.dst, rows)
	if err != nil {
		return nil, err
	}
	count := map[rowHash]int{}
	for i := range ours {
		count[ours[i]]++
		count[theirs[i]]--
	}
	for _, n := range count {
		if n != 0 {
			return nil, nil
		}
	}
	return p.nameMove(ours, theirs), nil
}

// rotaryHeads is the number of heads that a tensor's rows belong to, where rotary orders move
// them: of Q and K of a GGUF, by its own header. 0 for every other tensor: rows of a
// vocabulary or of a feed-forward matrix in another order are another model, whatever pattern they follow.
func (s *side) rotaryHeads(name string) int64 {
	if s.file == nil {
		return 0
	}
	if s.heads == nil {
		s.heads = &[2]int64{}
		if model, err := recipe.ModelOf(s.file); err == nil {
			*s.heads = [2]int64{int64(model.Heads), int64(model.KVHeads)}
		}
	}
	switch {
	case strings.HasSuffix(name, ".attn_q.weight"), strings.HasSuffix(name, ".attn_q.bias"):
		return s.heads[0]
	case strings.HasSuffix(name, ".attn_k.weight"), strings.HasSuffix(name, ".attn_k.bias"):
		return s.heads[1]
	}
	return 0
}

// nameMove finds the rotary order that takes the source's rows to the product's.
func (p *pair) nameMove(ours, theirs []rowHash) *Move {
	rows, heads := int64(len(ours)), p.rotary
	if convert.Permutes(rows, heads) {
		order := convert.HeadOrder(rows, heads)
		forward, back := true, true
		for row := int64(0); row < rows && (forward || back); row++ {
			forward = forward && theirs[row] == ours[order(row)]
			back = back && theirs[order(row)] == ours[row]
		}
		if forward || back {
			m := &Move{Tensor: p.src.name, Heads: heads, Order: toInterleaved}
			if !forward {
				m.Order = toHalfSplit
			}
			return m
		}
	}
	return &Move{Tensor: p.src.name, Order: otherOrder}
}

func (m *Move) String() string {
	if m.Heads == 0 {
		return "the encoded rows are the source's in another order, which is no rotary one"
	}
	return fmt.Sprintf("the encoded rows are the source's, moved from %s by %d heads; nothing was quantized again", m.Order, m.Heads)
}

type rowHash [sha256.Size]byte

// rowHashes hashes the stored bytes of each row.
func rowHashes(ctx context.Context, t *tensor, rows int64) ([]rowHash, error) {
	width := t.rows.Weights() / rows
	each := t.rows.Codec.Size(width)
	step := max(1, chunk/width)
	hashes := make([]rowHash, 0, rows)
	var body []byte
	for row := int64(0); row < rows; row += step {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(step, rows-row)
		body = grow(body, n*each)
		if err := t.rows.Raw(body, row*width); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", t.origin, err)
		}
		for i := int64(0); i < n; i++ {
			hashes = append(hashes, sha256.Sum256(body[i*each:(i+1)*each]))
		}
	}
	return hashes, nil
}
