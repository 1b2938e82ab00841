package tiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// Verification is the result of [Verify].
type Verification struct {
	Size      int64            // entries that the folder's checkpoint signs
	Root      tlog.Hash        // root computed from the entries
	Signed    []byte           // the folder's checkpoint, signed note
	Files     int              // files read and checked, without the checkpoint
	Ahead     int              // files of a larger tree than is signed, not checked
	Compared  int              // checkpoints kept elsewhere that hold
	Findings  []ledger.Finding // what does not hold, at most ledger.MaxFindings
	Truncated bool             // there was more

	// Contradiction is set when the folder holds in itself and a checkpoint
	// that was kept elsewhere cannot hold beside its checkpoint: the log
	// signed both.
	Contradiction *ledger.Contradiction
}

// OK says whether everything was checked and holds.
func (v Verification) OK() bool {
	return len(v.Findings) == 0 && !v.Truncated && v.Contradiction == nil
}

func (v *Verification) add(check, where, got, want string) {
	if len(v.Findings) == ledger.MaxFindings {
		v.Truncated = true
		return
	}
	v.Findings = append(v.Findings, ledger.Finding{Check: check, Where: where, Got: got, Want: want})
}

// Verify checks an exported log without its database: the signature of the
// folder's checkpoint by log, every entry, every tile of every level, that the
// tree of the entries has the signed root, and that nothing else lies in the
// folder. Checkpoints that were kept elsewhere are compared with the tree; they
// must be signed by log too. An error says that something could not be read or
// is not signed; what was read and does not hold is a finding.
//
// Memory does not grow with the log.
func Verify(ctx context.Context, folder fs.FS, log note.Verifier, elsewhere ...[]byte) (Verification, error) {
	msg, err := read(folder, checkpointFile, ledger.MaxCheckpointBytes)
	if err != nil {
		return Verification{}, fmt.Errorf("tiles: checkpoint: %w", err)
	}
	c, err := ledger.ParseCheckpoint(msg, log)
	if err != nil {
		return Verification{}, &ledger.CheckpointError{Where: "in the folder", Err: err}
	}
	var others []other
	for i, msg := range elsewhere {
		o, err := ledger.ParseCheckpoint(msg, log)
		if err != nil {
			return Verification{}, &ledger.CheckpointError{Where: fmt.Sprintf("number %d that was kept elsewhere", i+1), Err: err}
		}
		others = append(others, other{o, msg})
	}
	v := Verification{Size: c.Size, Signed: msg}
	r := &reader{ctx: ctx, folder: folder, size: c.Size, v: &v, leaves: true, others: others}
	if err := r.tree(c.Root); err != nil {
		return v, err
	}
	return v, r.strays()
}

// VerifyTree checks entries and tiles of any tlog-tiles folder against a tree
// head that the caller believes: [Verify] without a signature, and of entries
// that need not be ours. Other files are ignored.
func VerifyTree(ctx context.Context, folder fs.FS, tree tlog.Tree) (Verification, error) {
	if tree.N < 0 || tree.N > ledger.MaxEntries {
		return Verification{}, fmt.Errorf("tiles: tree of %d entries, want 0 to %d", tree.N, int64(ledger.MaxEntries))
	}
	v := Verification{Size: tree.N}
	r := &reader{ctx: ctx, folder: folder, size: tree.N, v: &v}
	return v, r.tree(tree.Hash)
}

// other is a checkpoint that was kept elsewhere.
type other struct {
	ledger.Checkpoint
	msg []byte
}

// reader goes through a folder once.
type reader struct {
	ctx    context.Context
	folder fs.FS
	size   int64
	v      *Verification
	leaves bool // entries are canonical leaves
	others []other
	wrong  []other // those whose root the entries do not have
	edge   edge
}

// tree checks everything that the tree of the checkpoint's size has.
func (r *reader) tree(want tlog.Hash) error {
	for n := int64(0); n*width < r.size; n++ {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if r.v.Truncated {
			return nil
		}
		hashes, err := r.bottom(n)
		if err != nil {
			return err
		}
		if hashes == nil {
			return nil // neither entries nor hashes: the tree cannot go on
		}
		for _, h := range hashes {
			if err := r.compare(); err != nil {
				return err
			}
			if err := r.edge.push(h, r.above); err != nil {
				return err
			}
		}
	}
	if err := r.compare(); err != nil {
		return err
	}
	if err := r.edge.partial(r.above); err != nil {
		return err
	}
	root, err := r.edge.root()
	if err != nil {
		return fmt.Errorf("tiles: root of %d entries: %w", r.size, err)
	}
	r.v.Root = root
	if root != want {
		r.v.add(ledger.CheckRoot, fmt.Sprintf("tree of %d entries", r.size), root.String()+" from the entries", want.String()+" as signed")
	}
	r.judge()
	return nil
}

// bottom checks one bundle of entries against its tile of level 0 and returns the
// hashes of the entries; without entries, the tile's; nil without both.
func (r *reader) bottom(n int64) ([]tlog.Hash, error) {
	bundle, tile := tileAt(entriesLevel, n, r.size), tileAt(0, n, r.size)
	var stored, hashes []tlog.Hash
	if data, err := r.file(tile, width*tlog.HashSize); err != nil {
		return nil, err
	} else if data != nil {
		if stored, err = parseHashes(data, tile.W); err != nil {
			r.v.add(CheckTile, path(tile), err.Error(), "as many hashes as the tree has there")
		}
	}
	data, err := r.file(bundle, maxBundleBytes)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return stored, nil
	}
	entries, err := parseEntries(data, bundle.W)
	if err != nil {
		r.v.add(CheckEntries, path(bundle), err.Error(), "as many entries as the tree has there")
		return stored, nil
	}
	for i, entry := range entries {
		h := tlog.RecordHash(entry)
		where := fmt.Sprintf("%s, entry %d", path(bundle), n*width+int64(i))
		if stored != nil && stored[i] != h {
			r.v.add(CheckEntries, where, h.String(), stored[i].String()+" as in "+path(tile))
		}
		if r.leaves {
			if _, err := ledger.ParseLeaf(entry); err != nil {
				r.v.add(ledger.CheckLeaf, where, err.Error(), "a canonical leaf")
			}
		}
		hashes = append(hashes, h)
	}
	return hashes, nil
}

// above checks a tile of a level above 0 against the hashes from the entries.
func (r *reader) above(t tlog.Tile, hashes []tlog.Hash) error {
	if t.L == 0 {
		return nil // bottom has
	}
	data, err := r.file(t, width*tlog.HashSize)
	if err != nil || data == nil {
		return err
	}
	stored, err := parseHashes(data, t.W)
	if err != nil {
		r.v.add(CheckTile, path(t), err.Error(), "as many hashes as the tree has there")
		return nil
	}
	for i := range hashes {
		if stored[i] != hashes[i] {
			r.v.add(CheckTile, fmt.Sprintf("%s, hash %d", path(t), i), stored[i].String(), hashes[i].String()+" from the entries")
		}
	}
	return nil
}

// file reads a tile's file; nil and a finding when it is missing or cannot be
// one. Where a partial tile is gone the full one may stand for it (C2SP
// tlog-tiles, section "Partial Tiles").
func (r *reader) file(t tlog.Tile, limit int) ([]byte, error) {
	data, err := read(r.folder, path(t), limit)
	if errors.Is(err, fs.ErrNotExist) && t.W < width {
		full := t
		full.W = width
		if data, errFull := read(r.folder, path(full), limit); errFull == nil {
			r.v.Files++
			return first(data, full, t.W), nil
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.v.add(CheckFile, path(t), "no such file", "one, for the checkpoint signs "+fmt.Sprint(r.size)+" entries")
		return nil, nil
	case errors.Is(err, errTooLong):
		r.v.add(CheckTile, path(t), err.Error(), "a tile")
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("tiles: %w", err)
	}
	r.v.Files++
	return data, nil
}

// first cuts a full tile down to its first w hashes or entries. What is no tile
// stays as it is; it will not parse.
func first(data []byte, t tlog.Tile, w int) []byte {
	if t.L != entriesLevel {
		return data[:min(len(data), w*tlog.HashSize)]
	}
	entries, err := parseEntries(data, t.W)
	if err != nil {
		return data
	}
	n := 0
	for _, e := range entries[:w] {
		n += 2 + len(e)
	}
	return data[:n]
}

// compare sets checkpoints kept elsewhere against the tree so far.
func (r *reader) compare() error {
	for i := 0; i < len(r.others); {
		o := r.others[i]
		if o.Size != r.edge.size {
			i++
			continue
		}
		root, err := r.edge.root()
		if err != nil {
			return fmt.Errorf("tiles: root of %d entries: %w", o.Size, err)
		}
		if root == o.Root {
			r.v.Compared++
		} else {
			r.wrong = append(r.wrong, o)
		}
		r.others = slices.Delete(r.others, i, i+1)
	}
	return nil
}

// judge says what is wrong about the checkpoints kept elsewhere. Only a folder
// that holds in itself proves anything against the log.
func (r *reader) judge() {
	whole := len(r.v.Findings) == 0
	for _, o := range r.wrong {
		if whole && r.v.Contradiction == nil {
			r.v.Contradiction = &ledger.Contradiction{
				Reason: fmt.Sprintf("it signed the root %s for the first %d entries, and the tree of %d entries that it also signed has another", o.Root, o.Size, r.size),
				Signed: o.msg, Other: r.v.Signed, Size: r.size, At: o.Size,
			}
		}
		r.v.add(ledger.CheckRoot, fmt.Sprintf("checkpoint of size %d that was kept elsewhere", o.Size), "another root from the entries", o.Root.String()+" as signed")
	}
	for _, o := range r.others {
		r.v.add(ledger.CheckRoot, fmt.Sprintf("checkpoint of size %d that was kept elsewhere", o.Size), fmt.Sprintf("a folder of %d entries", r.size), "at least as many as were signed before; fetch or export the folder again")
	}
}
