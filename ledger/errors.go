package ledger

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

var (
	// ErrNotFound says that nothing is there.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that somebody else was first and nothing was written.
	ErrConflict = errors.New("conflict: another writer was first")
	// ErrDuplicate says that the bundle is in the store already.
	ErrDuplicate = errors.New("duplicate: the bundle is in the store already")
	// ErrReadOnly says that the log was opened without a signer.
	ErrReadOnly = errors.New("ledger: opened without a signing key, nothing can be appended")
	// ErrTooMany says that an answer would be larger than the limits allow.
	ErrTooMany = errors.New("too many")
	// ErrNoCheckpoint says that no checkpoint lies outside the store. The
	// database alone proves nothing.
	ErrNoCheckpoint = errors.New("ledger: no checkpoint is kept outside the database: restore the checkpoints folder, or take the newest checkpoint from an evidence package")
)

// Contradiction is the proof that the log lied: a checkpoint that it signed
// and another statement by the same log that cannot hold beside it. The other
// statement is a second signed checkpoint where there is one, else the tree
// that is stored now.
type Contradiction struct {
	Reason string    // one sentence
	Signed []byte    // signed note
	Other  []byte    // second signed note; nil when the other side is the stored tree
	Size   int64     // entries of the stored tree
	At     int64     // tree size at which Root was computed
	Root   tlog.Hash // root of the stored tree's first At entries
}

func (c *Contradiction) Error() string {
	if c.Other != nil {
		return fmt.Sprintf("ledger: the log contradicts itself: %s; keep both checkpoints, they prove it", c.Reason)
	}
	return fmt.Sprintf("ledger: the log contradicts itself: %s; the stored tree has %d entries and root %s at %d; keep the checkpoint and the database, they prove it",
		c.Reason, c.Size, c.Root, c.At)
}

// CheckpointError says that a checkpoint that is kept outside the store cannot
// be used: altered, cut, signed by another key, or of another log.
type CheckpointError struct {
	Where string // which checkpoint
	Err   error
}

func (e *CheckpointError) Error() string {
	return fmt.Sprintf("ledger: checkpoint %s: %v; restore it from a copy", e.Where, e.Err)
}

func (e *CheckpointError) Unwrap() error { return e.Err }

// EntryError says that a stored entry is not what was appended.
type EntryError struct{ Finding }

func (e *EntryError) Error() string {
	return fmt.Sprintf("ledger: %s: %s: got %s, want %s; run a full verification of the log", e.Where, e.Check, e.Got, e.Want)
}

// Finding is one thing that a check found wrong.
type Finding struct {
	Check string `json:"check"` // name of the check
	Where string `json:"where"` // entry, checkpoint, row
	Got   string `json:"got"`
	Want  string `json:"want"`
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: got %s, want %s", f.Check, f.Where, f.Got, f.Want)
}
