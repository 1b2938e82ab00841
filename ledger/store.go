package ledger

import (
	"context"
	"iter"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"
)

// Role says on which side of an entry an artifact stands.
type Role int

const (
	Subject    Role = 0 // what the entry is about
	Dependency Role = 1 // what it was made of
)

// Record is what a Store keeps for one entry, apart from the bundle.
type Record struct {
	Leaf         []byte          // canonical leaf
	Bundle       godigest.Digest // sha256 of the bundle's bytes
	Subjects     []Ref
	Dependencies []Ref
}

// NewEntry is what a Store keeps for one entry that is appended.
type NewEntry struct {
	Record Record
	Bundle []byte
}

// Store keeps the log. It is a durability contract:
//
//   - Append is durable and whole when it returns nil: a loss of power after
//     that loses nothing of it.
//   - When it returns ErrConflict or ErrDuplicate, it did not happen.
//   - When it returns another error, it either happened as a whole or did not
//     happen; the caller finds out by asking ByBundle.
//   - No reader ever sees a part of an append, also not of one of many entries.
//   - Nothing that was appended is ever changed or removed.
//   - Everything comes back byte for byte, names too, whatever they hold.
//   - Several goroutines and several processes may append; exactly one of
//     those that give the same size succeeds.
//
// A Store computes no hashes and trusts nothing that it reads; the [Log] does
// the checking. One suite, ledger/storetest, runs over every implementation.
type Store interface {
	// Size returns the number of entries.
	Size(ctx context.Context) (int64, error)

	// Append adds entries from index size on, all or none, in one
	// transaction. ErrConflict says that the log does not have that size,
	// ErrDuplicate that the digest of a bundle is there already or twice
	// among the entries. hashes are the nodes that the entries complete,
	// stored from tlog.StoredHashIndex(0, size) on.
	Append(ctx context.Context, size int64, entries []NewEntry, hashes []tlog.Hash) error

	// Record returns one entry without its bundle; ErrNotFound.
	Record(ctx context.Context, index LeafIndex) (Record, error)

	// Bundle returns one entry's bundle; ErrNotFound.
	Bundle(ctx context.Context, index LeafIndex) ([]byte, error)

	// ByBundle returns the entry that has a bundle's digest; ErrNotFound.
	ByBundle(ctx context.Context, bundle godigest.Digest) (LeafIndex, error)

	// ByArtifact returns, ascending and without repetition, at most limit
	// entries with an index of at least from that name the artifact in a role.
	ByArtifact(ctx context.Context, artifact godigest.Digest, role Role, from LeafIndex, limit int) ([]LeafIndex, error)

	// Hashes returns the nodes at the given storage indexes, see
	// tlog.StoredHashIndex; ErrNotFound if one is missing.
	Hashes(ctx context.Context, indexes []int64) ([]tlog.Hash, error)

	// Check asks the engine whether its own structures are whole: pages,
	// indexes, schema, rows that belong to no entry. It returns what is wrong.
	Check(ctx context.Context) ([]Finding, error)

	Close() error
}

// Checkpoints keeps signed checkpoints outside the Store. Put is durable when
// it returns nil. Several goroutines and processes may use one.
type Checkpoints interface {
	// Sizes goes, ascending, through the tree sizes that have a checkpoint;
	// an error is the last that it gives. Its memory does not grow with
	// their number.
	Sizes(ctx context.Context) iter.Seq2[int64, error]

	// Newest returns the largest of them; ErrNotFound.
	Newest(ctx context.Context) (int64, error)

	// At returns the checkpoint of one tree size; ErrNotFound.
	At(ctx context.Context, size int64) ([]byte, error)

	// Latest returns a recent checkpoint; ErrNotFound. It is a shortcut:
	// after a crash or a race a newer one may exist under its size.
	Latest(ctx context.Context) ([]byte, error)

	// Put keeps the checkpoint of a tree size. The same bytes again are
	// fine. Other bytes for the same size are refused with ErrConflict and
	// change nothing.
	Put(ctx context.Context, size int64, checkpoint []byte) error

	// Replace puts a checkpoint in the place of the one that is kept for the
	// size, as a whole and durably, if that has the bytes old: ErrConflict if
	// it has others, ErrNotFound if there is none. It renews Latest too where
	// that has the same size. The [Log] adds cosignatures with it and has
	// checked that nothing else changes; of two writers that add some at once
	// one may have to ask its witnesses again.
	Replace(ctx context.Context, size int64, old, checkpoint []byte) error
}

// hashReader reads stored nodes for package tlog.
type hashReader struct {
	ctx   context.Context
	store Store
}

func (r hashReader) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	if len(indexes) == 0 {
		return nil, nil
	}
	return r.store.Hashes(r.ctx, indexes)
}
