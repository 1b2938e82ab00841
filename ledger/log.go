package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Options say who the log is and where its checkpoints are.
type Options struct {
	// Origin is the first line of every checkpoint, the identity of the log:
	// a URL without a scheme, such as "example.com/log42". Required. The
	// keys' name must be the same.
	Origin string

	// Signer signs checkpoints with Ed25519. Nil opens the log for reading.
	Signer note.Signer

	// Verifier checks the log's own checkpoints. Required.
	Verifier note.Verifier

	// Checkpoints keeps them outside the store. Required.
	Checkpoints Checkpoints

	// Index reads bundles. Required.
	Index Indexer

	// Now gives the time of an append; nil is time.Now.
	Now func() time.Time
}

// Log is an open log. Its methods may be called from several goroutines.
type Log struct {
	store Store
	opt   Options

	mu     sync.Mutex // one at a time reads, compares and signs the head
	known  Checkpoint // newest checkpoint that this Log has compared with the tree
	signed []byte     // its note
}

// Create starts a log in an empty store: it signs the checkpoint of size 0 and
// keeps it outside. It refuses a store that has entries and a place that has
// checkpoints, because a log is started once.
func Create(ctx context.Context, s Store, opt Options) (*Log, error) {
	l, err := prepare(s, opt)
	if err != nil {
		return nil, err
	}
	if opt.Signer == nil {
		return nil, fmt.Errorf("ledger: create %s: a signing key is required", opt.Origin)
	}
	size, err := s.Size(ctx)
	if err != nil {
		return nil, fmt.Errorf("ledger: create %s: read the store's size: %w", opt.Origin, err)
	}
	if size != 0 {
		return nil, fmt.Errorf("ledger: create %s: the store has %d entries, want an empty one; open it instead", opt.Origin, size)
	}
	_, newestErr := opt.Checkpoints.Newest(ctx)
	_, latestErr := opt.Checkpoints.Latest(ctx)
	for _, err := range []error{newestErr, latestErr} {
		if err == nil {
			return nil, fmt.Errorf("ledger: create %s: checkpoints of another log are in the way; choose another folder", opt.Origin)
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("ledger: create %s: look for checkpoints: %w", opt.Origin, err)
		}
	}
	root, err := tlog.TreeHash(0, hashReader{ctx, s})
	if err != nil {
		return nil, fmt.Errorf("ledger: create %s: %w", opt.Origin, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.sign(ctx, 0, root); err != nil {
		return nil, err
	}
	return l, nil
}

// Open opens a log that [Create] started; it never creates one. It compares
// the stored tree with the newest checkpoint outside: *[Contradiction] when
// the tree does not extend it, *[CheckpointError] when the checkpoint cannot
// be used, [ErrNoCheckpoint] when there is none. Where the tree is ahead, as
// after a crash, a log opened with a signer re-derives the entries that are
// not yet covered (*[EntryError] if one is not what its bundle says) and signs
// a new checkpoint.
//
// Open reads O(log n) of the tree. Only [Log.Verify] reads all of it.
func Open(ctx context.Context, s Store, opt Options) (*Log, error) {
	l, err := prepare(s, opt)
	if err != nil {
		return nil, err
	}
	newest, err := opt.Checkpoints.Newest(ctx)
	found := err == nil
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("ledger: open %s: look for the newest checkpoint: %w", opt.Origin, err)
	}
	if found {
		if err := l.learnAt(ctx, newest); err != nil {
			return nil, err
		}
	}
	err = l.learnLatest(ctx)
	unfinished := errors.Is(err, ErrNotFound)
	switch {
	case unfinished && !found:
		return nil, ErrNoCheckpoint
	case err != nil && !unfinished:
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.advance(ctx); err != nil {
		return nil, err
	}
	if unfinished && opt.Signer != nil {
		// A crash came between the first checkpoint and its copy.
		if err := opt.Checkpoints.Put(ctx, l.known.Size, l.signed); err != nil {
			return nil, fmt.Errorf("ledger: open %s: renew the latest checkpoint: %w", opt.Origin, err)
		}
	}
	return l, nil
}

func prepare(s Store, opt Options) (*Log, error) {
	switch {
	case s == nil:
		return nil, errors.New("ledger: no store given")
	case opt.Verifier == nil:
		return nil, errors.New("ledger: no key given to verify checkpoints with")
	case opt.Checkpoints == nil:
		return nil, errors.New("ledger: no place given for checkpoints outside the store")
	case opt.Index == nil:
		return nil, errors.New("ledger: no indexer given to read bundles with")
	}
	if err := checkOrigin(opt.Origin); err != nil {
		return nil, err
	}
	if opt.Verifier.Name() != opt.Origin {
		return nil, fmt.Errorf("ledger: the verifying key is named %q, want the log's origin %q", opt.Verifier.Name(), opt.Origin)
	}
	if s := opt.Signer; s != nil && (s.Name() != opt.Origin || s.KeyHash() != opt.Verifier.KeyHash()) {
		return nil, fmt.Errorf("ledger: the signing key is %s+%08x, want the verifying key's %s+%08x", s.Name(), s.KeyHash(), opt.Origin, opt.Verifier.KeyHash())
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Log{store: s, opt: opt}, nil
}
