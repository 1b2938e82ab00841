package ledger

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint returns the newest signed checkpoint, which is also kept outside.
// It covers the whole log when the log was opened with a signer. Errors as
// from [Open].
func (l *Log) Checkpoint(ctx context.Context) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.advance(ctx); err != nil {
		return nil, err
	}
	return l.signed, nil
}

// Extends compares the stored tree with a checkpoint that was kept elsewhere,
// for example in an evidence package. *[Contradiction] says that the tree does
// not extend it.
func (l *Log) Extends(ctx context.Context, checkpoint []byte) (Checkpoint, error) {
	c, err := ParseCheckpoint(checkpoint, l.opt.Verifier)
	if err != nil {
		return Checkpoint{}, &CheckpointError{Where: "given", Err: err}
	}
	size, err := l.Size(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	return c, l.extends(ctx, c, checkpoint, size)
}

// advance brings known up to the stored tree: it compares the tree with the
// newest checkpoint outside and, where the tree is ahead, takes or signs the
// one that covers it. The caller holds mu.
func (l *Log) advance(ctx context.Context) error {
	// The checkpoint is read before the size: the tree may grow in between,
	// a checkpoint is never ahead of the tree.
	if err := l.learnLatest(ctx); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	size, err := l.Size(ctx)
	if err != nil {
		return err
	}
	if err := l.extends(ctx, l.known, l.signed, size); err != nil {
		return err
	}
	if size == l.known.Size {
		return nil
	}
	root, err := l.root(ctx, size)
	if err != nil {
		return err
	}
	if l.opt.Signer == nil {
		return nil
	}
	if err := l.audit(ctx, l.known.Size, size); err != nil {
		return err
	}
	if err := l.consistent(ctx, size, root); err != nil {
		return err
	}
	return l.sign(ctx, size, root)
}

// learnLatest takes note of the newest checkpoint that the shortcut gives.
func (l *Log) learnLatest(ctx context.Context) error {
	msg, err := l.opt.Checkpoints.Latest(ctx)
	if errors.Is(err, ErrNotFound) {
		return err
	}
	if err != nil {
		return fmt.Errorf("ledger: read the latest checkpoint: %w", err)
	}
	return l.learn("latest", msg)
}

// learnAt takes note of the checkpoint kept for one tree size.
func (l *Log) learnAt(ctx context.Context, size int64) error {
	where := fmt.Sprintf("of size %d", size)
	msg, err := l.opt.Checkpoints.At(ctx, size)
	if err != nil {
		return fmt.Errorf("ledger: read the checkpoint %s: %w", where, err)
	}
	c, err := ParseCheckpoint(msg, l.opt.Verifier)
	if err == nil && c.Size != size {
		err = fmt.Errorf("it is kept as the checkpoint of size %d and says size %d", size, c.Size)
	}
	if err != nil {
		return &CheckpointError{Where: where, Err: err}
	}
	return l.learn(where, msg)
}

func (l *Log) learn(where string, msg []byte) error {
	c, err := ParseCheckpoint(msg, l.opt.Verifier)
	if err != nil {
		return &CheckpointError{Where: where, Err: err}
	}
	if l.signed != nil && c.Size == l.known.Size && c.Root != l.known.Root {
		return &Contradiction{
			Reason: fmt.Sprintf("two checkpoints of size %d have the roots %s and %s", c.Size, l.known.Root, c.Root),
			Signed: l.signed, Other: msg, At: c.Size,
		}
	}
	// Of one tree, the note with more signatures: others may have cosigned it.
	if l.signed == nil || c.Size > l.known.Size || (c.Size == l.known.Size && len(msg) > len(l.signed)) {
		l.known, l.signed = c, msg
	}
	return nil
}

// extends says whether the stored tree of the given size has c's tree as a
// prefix, going by the stored nodes.
func (l *Log) extends(ctx context.Context, c Checkpoint, msg []byte, size int64) error {
	at := min(c.Size, size)
	root, err := l.root(ctx, at)
	if err != nil {
		return err
	}
	switch {
	case c.Size > size:
		return &Contradiction{
			Reason: fmt.Sprintf("it signed %d entries and the store has only %d: the end is cut off, or an older copy was put in place", c.Size, size),
			Signed: msg, Size: size, At: at, Root: root,
		}
	case root != c.Root:
		return &Contradiction{
			Reason: fmt.Sprintf("it signed the root %s for the first %d entries and the stored ones have another", c.Root, c.Size),
			Signed: msg, Size: size, At: at, Root: root,
		}
	}
	return nil
}

// consistent checks the RFC 6962 consistency proof from the known checkpoint
// to the tree that is about to be signed.
func (l *Log) consistent(ctx context.Context, size int64, root tlog.Hash) error {
	if l.known.Size == 0 {
		return nil // every tree extends the empty one, whose root extends compared
	}
	proof, err := tlog.ProveTree(size, l.known.Size, hashReader{ctx, l.store})
	if err != nil {
		return fmt.Errorf("ledger: consistency of sizes %d and %d: %w", l.known.Size, size, err)
	}
	if tlog.CheckTree(proof, size, root, l.known.Size, l.known.Root) != nil {
		return &Contradiction{
			Reason: fmt.Sprintf("no consistency proof leads from the checkpoint of size %d to the stored tree of size %d", l.known.Size, size),
			Signed: l.signed, Size: size, At: size, Root: root,
		}
	}
	return nil
}

// root computes the root of the first size entries from the stored nodes.
func (l *Log) root(ctx context.Context, size int64) (tlog.Hash, error) {
	root, err := tlog.TreeHash(size, hashReader{ctx, l.store})
	if errors.Is(err, ErrNotFound) {
		return tlog.Hash{}, &EntryError{Finding{CheckNodes, fmt.Sprintf("tree of %d entries", size), err.Error(), "every node"}}
	}
	if err != nil {
		return tlog.Hash{}, fmt.Errorf("ledger: root of the first %d entries from the stored nodes: %w", size, err)
	}
	return root, nil
}

// sign makes the checkpoint of a durable tree and keeps it outside. The caller
// holds mu and has checked the tree.
func (l *Log) sign(ctx context.Context, size int64, root tlog.Hash) error {
	c := Checkpoint{Origin: l.opt.Origin, Size: size, Root: root}
	msg, err := note.Sign(&note.Note{Text: c.text()}, l.opt.Signer)
	if err != nil {
		return fmt.Errorf("ledger: sign the checkpoint of size %d: %w", size, err)
	}
	if _, err := ParseCheckpoint(msg, l.opt.Verifier); err != nil {
		return fmt.Errorf("ledger: the signing key's checkpoint of size %d does not verify with the verifying key: %w", size, err)
	}
	err = l.opt.Checkpoints.Put(ctx, size, msg)
	if errors.Is(err, ErrConflict) {
		// Another process signed the same size, or somebody cosigned it.
		kept, readErr := l.opt.Checkpoints.At(ctx, size)
		if readErr != nil {
			return fmt.Errorf("ledger: read the checkpoint of size %d: %w", size, readErr)
		}
		other, parseErr := ParseCheckpoint(kept, l.opt.Verifier)
		if parseErr != nil {
			return &CheckpointError{Where: fmt.Sprintf("of size %d", size), Err: parseErr}
		}
		if other.Size != size || other.Root != root {
			return &Contradiction{
				Reason: fmt.Sprintf("the checkpoint kept for size %d has size %d and root %s, the stored tree has root %s", size, other.Size, other.Root, root),
				Signed: kept, Size: size, At: size, Root: root,
			}
		}
		l.known, l.signed = other, kept
		return nil
	}
	if err != nil {
		return fmt.Errorf("ledger: keep the checkpoint of size %d outside: %w", size, err)
	}
	l.known, l.signed = c, msg
	return nil
}
