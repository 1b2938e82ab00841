package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"
)

// AddCosignatures adds the witnesses' signatures of a cosigned checkpoint to the
// checkpoint of the same size that is kept outside, and returns that one. What
// is kept there changes in nothing but that: the text stays, every signature
// that it had stays, and of two by one witness the later. *[Contradiction] when
// the log signed another root for the size. See [Cosignatures] for what makes
// the given checkpoint an error; at least one witness must have signed it.
func (l *Log) AddCosignatures(ctx context.Context, cosigned []byte, witnesses []note.Verifier) ([]byte, error) {
	given, err := openCosigned(cosigned, l.opt.Verifier, witnesses)
	if err != nil {
		return nil, err
	}
	if len(given.Sigs) < 2 {
		return nil, fmt.Errorf("ledger: the checkpoint carries no cosignature by any of the %d witnesses given", len(witnesses))
	}
	c, err := l.Extends(ctx, cosigned)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for range maxConflicts {
		kept, err := l.opt.Checkpoints.At(ctx, c.Size)
		if err != nil {
			return nil, fmt.Errorf("ledger: read the checkpoint of size %d: %w", c.Size, err)
		}
		merged, err := l.merge(kept, cosigned, given, witnesses)
		if err != nil {
			return nil, err
		}
		err = l.opt.Checkpoints.Replace(ctx, c.Size, kept, merged)
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ledger: keep the cosigned checkpoint of size %d: %w", c.Size, err)
		}
		if l.known.Size == c.Size {
			l.signed = merged
		}
		return merged, nil
	}
	return nil, fmt.Errorf("ledger: keep the cosigned checkpoint of size %d: %w", c.Size, ErrConflict)
}

// merge returns the kept checkpoint with the given one's cosignatures.
func (l *Log) merge(kept, cosigned []byte, given *note.Note, witnesses []note.Verifier) ([]byte, error) {
	n, err := openCosigned(kept, l.opt.Verifier, witnesses)
	if err != nil {
		return nil, &CheckpointError{Where: "that is kept outside", Err: err}
	}
	if n.Text != given.Text {
		a, errA := parseCheckpointText(n.Text)
		b, errB := parseCheckpointText(given.Text)
		if err := errors.Join(errA, errB); err != nil {
			return nil, err
		}
		if a.Size == b.Size && a.Root == b.Root {
			return nil, fmt.Errorf("ledger: the cosigned checkpoint of size %d has other extension lines than the one that is kept outside", b.Size)
		}
		return nil, &Contradiction{
			Reason: fmt.Sprintf("two checkpoints, kept as size %d and %d, have the roots %s and %s", a.Size, b.Size, a.Root, b.Root),
			Signed: kept, Other: cosigned, At: b.Size,
		}
	}
	for _, s := range given.Sigs {
		at := slices.IndexFunc(n.Sigs, func(old note.Signature) bool { return old.Name == s.Name && old.Hash == s.Hash })
		if at < 0 {
			n.Sigs = append(n.Sigs, s)
			continue
		}
		if s.Name == l.opt.Verifier.Name() && s.Hash == l.opt.Verifier.KeyHash() {
			continue // the log's own
		}
		before, errA := cosignedAt(n.Sigs[at])
		after, errB := cosignedAt(s)
		if err := errors.Join(errA, errB); err != nil {
			return nil, err
		}
		if after.After(before) {
			n.Sigs[at] = s
		}
	}
	merged, err := note.Sign(n)
	if err != nil {
		return nil, fmt.Errorf("ledger: add cosignatures: %w", err)
	}
	if _, err := openCosigned(merged, l.opt.Verifier, witnesses); err != nil {
		return nil, fmt.Errorf("ledger: add cosignatures: %w", err)
	}
	return merged, nil
}
