// Package imported keeps what other logs vouched for: of every entry that was
// imported from another log, that log's leaf and the proof that it was there,
// and the checkpoints that were seen of the log.
//
// The place of a log is a folder that is named by the SHA-256 of its origin, in
// hexadecimal digits:
//
//	origin                     the log's origin and a line break
//	checkpoints/               as package ledger/checkpoints keeps them
//	entries/<2 digits>/<hex>   by the SHA-256 of the bundle: the canonical leaf,
//	                           a line break, and a C2SP tlog-proof with its checkpoint
//
// Files are written whole or not at all, made durable before Keep returns, and
// never replaced. None of them is believed: a reader verifies the proof with
// the key that its trust file pins for the origin.
package imported

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
	"github.com/weighmaster/weighmaster/ledger/internal/durable"
)

const (
	originFile = "origin"
	checkDir   = "checkpoints"
	entriesDir = "entries"
)

// Store is the folder of all logs that were imported from. It need not exist.
type Store struct{ root string }

// Open returns the store in a folder. Nothing is made before something is kept.
func Open(root string) *Store { return &Store{root} }

// Log is what is kept of one log.
type Log struct {
	origin string
	dir    string
}

// Log returns what is kept of the log with that origin, which may be nothing.
func (s *Store) Log(origin string) *Log {
	return &Log{origin, filepath.Join(s.root, godigest.FromString(origin).Encoded())}
}

// Logs lists the logs of which something is kept, ordered by folder.
func (s *Store) Logs() ([]*Log, error) {
	folders, err := os.ReadDir(s.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("imported: %w", err)
	}
	var list []*Log
	for _, f := range folders {
		if durable.Unfinished(f.Name()) {
			continue
		}
		path := filepath.Join(s.root, f.Name(), originFile)
		text, err := read(path, ledger.MaxOriginBytes+1)
		if errors.Is(err, ledger.ErrNotFound) {
			continue // its import never came to an entry
		}
		if err != nil {
			return nil, err
		}
		origin, whole := strings.CutSuffix(string(text), "\n")
		l := s.Log(origin)
		if !whole || filepath.Base(l.dir) != f.Name() {
			return nil, fmt.Errorf("imported: %s says %.100q, want the origin whose SHA-256 names its folder; restore the folder", path, text)
		}
		list = append(list, l)
	}
	return list, nil
}

// Origin is the log's identity.
func (l *Log) Origin() string { return l.origin }

// Entry is one entry of another log. Nothing in it is verified.
type Entry struct {
	Leaf  ledger.Leaf
	Proof []byte // C2SP tlog-proof with its checkpoint
}

// Keep makes a checkpoint of the log, of the size that it says, and entries
// durable. What is there already stays as it is.
func (l *Log) Keep(ctx context.Context, size int64, checkpoint []byte, entries []Entry) error {
	if err := durable.MkdirAll(l.dir, 0o755); err != nil {
		return fmt.Errorf("imported: %w", err)
	}
	for _, dir := range []string{filepath.Dir(l.dir), filepath.Dir(filepath.Dir(l.dir))} {
		if err := durable.SyncDir(dir); err != nil {
			return fmt.Errorf("imported: %w", err)
		}
	}
	if err := create(filepath.Join(l.dir, originFile), []byte(l.origin+"\n")); err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("imported: %w", err)
		}
		body, err := e.Encode()
		if err != nil {
			return err
		}
		path := l.file(e.Leaf.Bundle)
		if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("imported: %w", err)
		}
		if err := create(path, body); err != nil {
			return err
		}
	}
	folder := filepath.Join(l.dir, checkDir)
	if err := durable.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("imported: %w", err)
	}
	kept, err := checkpoints.Open(folder)
	if err != nil {
		return err
	}
	// Cosignatures make other bytes of the same checkpoint; the first stay.
	if err := kept.Put(ctx, size, checkpoint); err != nil && !errors.Is(err, ledger.ErrConflict) {
		return err
	}
	return nil
}

func create(path string, body []byte) error {
	err := durable.Create(path, body, 0o444)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("imported: write %s: %w", path, err)
	}
	return nil
}

func (l *Log) file(bundle godigest.Digest) string {
	hex := bundle.Encoded()
	return filepath.Join(l.dir, entriesDir, hex[:2], hex)
}

// Entry returns what is kept of the entry with a bundle; ErrNotFound.
func (l *Log) Entry(bundle godigest.Digest) (Entry, error) {
	if err := bundle.Validate(); err != nil || bundle.Algorithm() != godigest.SHA256 {
		return Entry{}, fmt.Errorf("imported: bundle %.100q, want a sha256 digest", string(bundle))
	}
	path := l.file(bundle)
	body, err := read(path, maxEntryBytes)
	if err != nil {
		return Entry{}, err
	}
	e, err := ParseEntry(body)
	if err != nil {
		return Entry{}, fmt.Errorf("%s: %w; restore the file", path, err)
	}
	if e.Leaf.Bundle != bundle {
		return Entry{}, fmt.Errorf("imported: %s is the entry of bundle %s; restore the file", path, e.Leaf.Bundle)
	}
	return e, nil
}

// Entries goes through all entries that are kept of the log, ordered by
// bundle, and stops at the first error.
func (l *Log) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		root := filepath.Join(l.dir, entriesDir)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && path == root {
				return nil
			}
			if err != nil || d.IsDir() || durable.Unfinished(d.Name()) {
				return err
			}
			bundle := godigest.NewDigestFromEncoded(godigest.SHA256, d.Name())
			if bundle.Validate() != nil || l.file(bundle) != path {
				return fmt.Errorf("imported: %s is not named like an entry, want the SHA-256 of a bundle in the folder of its first 2 digits; move it away", path)
			}
			e, err := l.Entry(bundle)
			if err != nil {
				return err
			}
			if !yield(e, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Entry{}, err)
		}
	}
}

// Checkpoints opens the checkpoints that are kept of the log; ErrNotFound
// before the first.
func (l *Log) Checkpoints() (*checkpoints.Dir, error) {
	folder := filepath.Join(l.dir, checkDir)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("imported: %s: %w", folder, ledger.ErrNotFound)
	}
	return checkpoints.Open(folder)
}

// maxEntryBytes bounds one file: a leaf, a line break, a proof.
const maxEntryBytes = ledger.MaxLeafBytes + 1 + ledger.MaxProofBytes

// Encode gives the file of an entry: its canonical leaf, a line break, its proof.
func (e Entry) Encode() ([]byte, error) {
	leaf, err := e.Leaf.Canonical()
	if err != nil {
		return nil, err
	}
	if _, err := ledger.ParseProof(e.Proof); err != nil {
		return nil, err
	}
	return append(append(leaf, '\n'), e.Proof...), nil
}

// ParseEntry reads what [Entry.Encode] gives, and nothing else.
func ParseEntry(body []byte) (Entry, error) {
	if len(body) > maxEntryBytes {
		return Entry{}, fmt.Errorf("imported: an entry of %d bytes, want at most %d", len(body), maxEntryBytes)
	}
	line, proof, found := bytes.Cut(body, []byte("\n"))
	if !found {
		return Entry{}, errors.New("imported: an entry of one line, want a leaf, a line break and a proof")
	}
	leaf, err := ledger.ParseLeaf(line)
	if err != nil {
		return Entry{}, err
	}
	if _, err := ledger.ParseProof(proof); err != nil {
		return Entry{}, err
	}
	return Entry{leaf, bytes.Clone(proof)}, nil
}

// read reads a file of at most limit bytes; ErrNotFound.
func read(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("imported: %s: %w", path, ledger.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("imported: %w", err)
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("imported: read %s: %w", path, err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("imported: %s has more than %d bytes; restore the file", path, limit)
	}
	return body, nil
}
