package ledger

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// View is what was seen of a log from outside it: its checkpoints, and entries
// with their inclusion proofs. Whatever it is given must hold beside all that
// it was given before; of two statements of the log that cannot both be true of
// an append-only tree it makes a *[Contradiction].
//
// Proofs of two checkpoints name hashes of the same complete subtrees (RFC 6962
// section 2.1.1), which must agree. Where they name none in common, a View
// cannot tell; [Log.Extends] can, given the whole log.
type View struct {
	verifier note.Verifier
	roots    map[int64]statement
	nodes    map[span]statement
	last     []byte // checkpoint of the proof before, and what it says
	parsed   Checkpoint
}

// span is the entries from one index up to, not including, another.
type span struct{ from, to int64 }

// statement is a hash that a checkpoint vouches for.
type statement struct {
	hash       tlog.Hash
	size       int64
	checkpoint []byte
}

// NewView returns a view of v's log of which nothing was seen.
func NewView(v note.Verifier) *View {
	return &View{verifier: v, roots: map[int64]statement{}, nodes: map[span]statement{}}
}

// Checkpoint adds a signed checkpoint. *[CheckpointError] when v did not sign
// it, *[Contradiction] when another of its size has another root.
func (w *View) Checkpoint(msg []byte) (Checkpoint, error) {
	if w.last != nil && bytes.Equal(msg, w.last) {
		return w.parsed, nil
	}
	c, err := ParseCheckpoint(msg, w.verifier)
	if err != nil {
		return Checkpoint{}, &CheckpointError{Where: "given", Err: err}
	}
	said := statement{c.Root, c.Size, msg}
	if old, ok := w.roots[c.Size]; ok && old.hash != c.Root {
		return Checkpoint{}, &Contradiction{
			Reason: fmt.Sprintf("two checkpoints of size %d have the roots %s and %s", c.Size, old.hash, c.Root),
			Signed: old.checkpoint, Other: msg, Size: c.Size, At: c.Size, Root: c.Root,
		}
	}
	w.roots[c.Size] = said
	w.last, w.parsed = msg, c
	return c, nil
}

// Entry adds an entry with its C2SP tlog-proof, and returns its place. The
// proof must lead from the leaf to its checkpoint's root. *[Contradiction] when
// the entry, or another that the proof stands on, was seen to be another one.
func (w *View) Entry(proof []byte, leaf Leaf) (LeafIndex, Checkpoint, error) {
	p, err := ParseProof(proof)
	if err != nil {
		return 0, Checkpoint{}, err
	}
	c, err := w.Checkpoint(p.Checkpoint)
	if err != nil {
		return 0, Checkpoint{}, err
	}
	hash, err := leaf.Hash()
	if err != nil {
		return 0, Checkpoint{}, err
	}
	if err := tlog.CheckRecord(p.Hashes, c.Size, c.Root, int64(p.Index), hash); err != nil {
		return 0, Checkpoint{}, fmt.Errorf("ledger: the proof does not lead from the leaf of bundle %s as %s to the root %s of size %d: %w; the proof is of another entry, or it or the entry was altered",
			leaf.Bundle, where(p.Index), c.Root, c.Size, err)
	}
	seen := map[span]tlog.Hash{}
	climb(seen, span{0, c.Size}, int64(p.Index), hash, p.Hashes)
	spans := slices.SortedFunc(maps.Keys(seen), func(a, b span) int {
		return cmp.Or(cmp.Compare(a.to-a.from, b.to-b.from), cmp.Compare(a.from, b.from))
	})
	for _, at := range spans { // the smallest that differs is the one to name
		hash := seen[at]
		old, ok := w.nodes[at]
		if ok && old.hash != hash {
			return 0, Checkpoint{}, &Contradiction{
				Reason: fmt.Sprintf("the entries from %d up to %d have the hash %s under the checkpoint of size %d and %s under that of size %d", at.from, at.to-1, old.hash, old.size, hash, c.Size),
				Signed: old.checkpoint, Other: p.Checkpoint, Size: c.Size, At: at.to, Root: hash,
			}
		}
		if !ok {
			w.nodes[at] = statement{hash, c.Size, p.Checkpoint}
		}
	}
	return p.Index, c, nil
}

// climb notes every complete subtree that a checked proof names: those on the
// way from the entry to the root and their siblings. It returns the hash of the
// entries at. A subtree is complete when it has a power of two of entries; every
// larger tree has the same one.
func climb(seen map[span]tlog.Hash, at span, index int64, leaf tlog.Hash, proof []tlog.Hash) tlog.Hash {
	note := func(s span, h tlog.Hash) tlog.Hash {
		if n := s.to - s.from; n&(n-1) == 0 {
			seen[s] = h
		}
		return h
	}
	if at.to-at.from == 1 {
		return note(at, leaf)
	}
	half := int64(1)
	for half*2 < at.to-at.from {
		half *= 2
	}
	left, right := span{at.from, at.from + half}, span{at.from + half, at.to}
	sibling, rest := proof[len(proof)-1], proof[:len(proof)-1]
	if index < left.to {
		note(right, sibling)
		return note(at, tlog.NodeHash(climb(seen, left, index, leaf, rest), sibling))
	}
	note(left, sibling)
	return note(at, tlog.NodeHash(sibling, climb(seen, right, index, leaf, rest)))
}
