package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/mod/sumdb/tlog"
)

// Verification is the result of [Log.Verify].
type Verification struct {
	Size        int64     // entries rehashed
	Root        tlog.Hash // root recomputed from the stored leaves
	Checkpoints int       // checkpoints outside whose signature and root were checked and hold
	Findings    []Finding // what does not hold, at most MaxFindings
	Truncated   bool      // there was more

	// Contradiction is the first signed checkpoint that the stored log does
	// not extend, with what is stored instead; nil if there is none.
	Contradiction *Contradiction
}

// OK says whether everything was checked and holds.
func (v Verification) OK() bool {
	return len(v.Findings) == 0 && !v.Truncated && v.Contradiction == nil
}

// Verify is [Log.Verify] for a log that [Open] refuses: it tells everything that
// is wrong with it. Nothing is written.
func Verify(ctx context.Context, s Store, opt Options) (Verification, error) {
	l, err := prepare(s, opt)
	if err != nil {
		return Verification{}, err
	}
	return l.Verify(ctx)
}

// Verify reads the whole log: it rehashes every bundle and leaf, re-derives
// from every bundle what the leaf and the stored index say, recomputes every
// tree node and the root, checks the signature of every checkpoint outside and
// compares its root with the root of as many leaves, and asks the store about
// its own structures. An error says that something could not be read; what was
// read and does not hold is a finding.
//
// Memory grows neither with the entries nor with the checkpoints.
func (l *Log) Verify(ctx context.Context) (Verification, error) {
	var v Verification
	// Checkpoints before the size: none that is there now is ahead of the
	// tree. Those that are signed from now on are left for the next time.
	newest, err := l.opt.Checkpoints.Newest(ctx)
	if errors.Is(err, ErrNotFound) {
		newest, err = -1, nil
	}
	if err != nil {
		return v, fmt.Errorf("ledger: look for the newest checkpoint: %w", err)
	}
	latest, err := l.latest(ctx, &v)
	if err != nil {
		return v, err
	}
	// The walk ends early on a store that claims too many entries.
	v.Size, err = l.store.Size(ctx)
	if err != nil {
		return v, fmt.Errorf("ledger: read the store's size: %w", err)
	}
	if latest != nil {
		newest = max(newest, latest.size)
	}
	next, stop := iter.Pull2(l.keptCheckpoints(ctx, &v, newest, latest))
	defer stop()
	if err := l.verifyTree(ctx, &v, &following{next: next}); err != nil {
		return v, err
	}
	findings, err := l.store.Check(ctx)
	if err != nil {
		return v, fmt.Errorf("ledger: check the store: %w", err)
	}
	v.add(findings...)
	return v, nil
}

func (v *Verification) add(findings ...Finding) {
	for _, f := range findings {
		if len(v.Findings) == MaxFindings {
			v.Truncated = true
			return
		}
		v.Findings = append(v.Findings, f)
	}
}

// kept is a checkpoint outside whose signature holds.
type kept struct {
	where string
	size  int64
	root  tlog.Hash
	fixed []byte // its note when it cannot be read again by its size
}

// latest opens the shortcut; nil when it is of no use, which is a finding.
func (l *Log) latest(ctx context.Context, v *Verification) (*kept, error) {
	msg, err := l.opt.Checkpoints.Latest(ctx)
	if errors.Is(err, ErrNotFound) {
		v.add(Finding{CheckNote, "latest checkpoint", "none", "one"})
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: read the latest checkpoint: %w", err)
	}
	c, err := ParseCheckpoint(msg, l.opt.Verifier)
	if err != nil {
		v.add(Finding{CheckNote, "latest checkpoint", err.Error(), "a checkpoint signed by " + l.opt.Origin})
		return nil, nil
	}
	return &kept{where: "latest checkpoint", size: c.Size, root: c.Root, fixed: msg}, nil
}

// keptCheckpoints reads and opens every checkpoint outside up to the newest,
// ascending by size, and the latest, if any, behind the one of its size.
func (l *Log) keptCheckpoints(ctx context.Context, v *Verification, newest int64, latest *kept) iter.Seq2[kept, error] {
	return func(yield func(kept, error) bool) {
		last := int64(-1)
		giveLatest := func() bool {
			if last != latest.size {
				v.add(Finding{CheckNote, latest.where, fmt.Sprintf("size %d, which is not kept under its size", latest.size), "every checkpoint kept under its size"})
			}
			k := *latest
			latest = nil
			return yield(k, nil)
		}
		for size, err := range l.opt.Checkpoints.Sizes(ctx) {
			if err != nil {
				yield(kept{}, fmt.Errorf("ledger: list checkpoints: %w", err))
				return
			}
			if size > newest {
				break
			}
			if latest != nil && latest.size < size && !giveLatest() {
				return
			}
			k, err := l.keptAt(ctx, v, size)
			if err != nil {
				yield(kept{}, err)
				return
			}
			if k == nil {
				continue
			}
			if last = size; !yield(*k, nil) {
				return
			}
		}
		if latest != nil {
			giveLatest()
		}
	}
}

// keptAt opens the checkpoint of one size; nil when it does not hold, which is
// a finding.
func (l *Log) keptAt(ctx context.Context, v *Verification, size int64) (*kept, error) {
	where := fmt.Sprintf("checkpoint of size %d", size)
	msg, err := l.opt.Checkpoints.At(ctx, size)
	if err != nil {
		return nil, fmt.Errorf("ledger: read the %s: %w", where, err)
	}
	c, err := ParseCheckpoint(msg, l.opt.Verifier)
	switch {
	case err != nil:
		v.add(Finding{CheckNote, where, err.Error(), "a checkpoint signed by " + l.opt.Origin})
	case c.Size != size:
		v.add(Finding{CheckNote, where, fmt.Sprintf("a checkpoint that says size %d", c.Size), fmt.Sprintf("size %d, as it is kept", size)})
	default:
		return &kept{where: where, size: size, root: c.Root}, nil
	}
	return nil, nil
}

// following gives the checkpoints one by one.
type following struct {
	next func() (kept, error, bool)
	at   kept
	more bool
}

func (f *following) advance() error {
	var err error
	f.at, err, f.more = f.next()
	return err
}

// verifyTree goes through the entries once.
func (l *Log) verifyTree(ctx context.Context, v *Verification, checkpoints *following) error {
	if err := checkpoints.advance(); err != nil {
		return err
	}
	var f frontier
	for n := int64(0); ; n++ {
		root, err := tlog.TreeHash(n, &f)
		if err != nil {
			return fmt.Errorf("ledger: root of the first %d entries: %w", n, err)
		}
		v.Root = root
		// Those past the end of the store are compared with all of it.
		for checkpoints.more && (checkpoints.at.size == n || n == v.Size) && !v.Truncated {
			if err := l.compare(ctx, v, checkpoints.at, n, root); err != nil {
				return err
			}
			if err := checkpoints.advance(); err != nil {
				return err
			}
		}
		if n == v.Size || v.Truncated {
			return nil // a damaged store may claim any size
		}
		findings, hash, err := l.checkEntry(ctx, LeafIndex(n))
		if err != nil {
			return err
		}
		nodes, err := l.checkNodes(ctx, n, hash, &f)
		if err != nil {
			return err
		}
		v.add(findings...)
		v.add(nodes...)
		if err := f.push(n, hash); err != nil {
			return err
		}
	}
}

// compare sets a checkpoint against the root of the first n leaves.
func (l *Log) compare(ctx context.Context, v *Verification, c kept, n int64, root tlog.Hash) error {
	if c.size == n && c.root == root {
		v.Checkpoints++
		return nil
	}
	reason := fmt.Sprintf("it signed the root %s for the first %d entries and the stored ones have another", c.root, c.size)
	finding := Finding{CheckRoot, c.where, root.String() + " from the leaves", c.root.String() + " as signed"}
	if c.size != n {
		reason = fmt.Sprintf("it signed %d entries and the store has only %d: the end is cut off, or an older copy was put in place", c.size, n)
		finding = Finding{CheckRoot, c.where, fmt.Sprintf("%d entries", n), fmt.Sprintf("%d entries as signed", c.size)}
	}
	v.add(finding)
	if v.Contradiction != nil {
		return nil
	}
	msg := c.fixed
	if msg == nil {
		var err error
		if msg, err = l.opt.Checkpoints.At(ctx, c.size); err != nil {
			return fmt.Errorf("ledger: read the %s: %w", c.where, err)
		}
	}
	other, err := l.signedOtherwise(ctx, c)
	if err != nil {
		return err
	}
	v.Contradiction = &Contradiction{Reason: reason, Signed: msg, Other: other, Size: v.Size, At: n, Root: root}
	return nil
}

// signedOtherwise finds another checkpoint of the same size that the log signed
// for another root: a proof that needs no database. It is nil if none is kept.
func (l *Log) signedOtherwise(ctx context.Context, c kept) ([]byte, error) {
	for _, read := range []func() ([]byte, error){
		func() ([]byte, error) { return l.opt.Checkpoints.At(ctx, c.size) },
		func() ([]byte, error) { return l.opt.Checkpoints.Latest(ctx) },
	} {
		msg, err := read()
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ledger: read a checkpoint of size %d: %w", c.size, err)
		}
		if other, err := ParseCheckpoint(msg, l.opt.Verifier); err == nil && other.Size == c.size && other.Root != c.root {
			return msg, nil
		}
	}
	return nil, nil
}

// frontier holds, per level, the last complete node of a growing tree: all
// that the next leaf and the root need.
type frontier struct {
	index [64]int64
	hash  [64]tlog.Hash
}

func (f *frontier) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		level, _ := tlog.SplitStoredHashIndex(x)
		if f.index[level] != x {
			return nil, fmt.Errorf("ledger: node %d is not on the frontier", x)
		}
		out[i] = f.hash[level]
	}
	return out, nil
}

func (f *frontier) push(n int64, leaf tlog.Hash) error {
	hashes, err := tlog.StoredHashesForRecordHash(n, leaf, f)
	if err != nil {
		return fmt.Errorf("ledger: nodes of %s: %w", where(LeafIndex(n)), err)
	}
	first := tlog.StoredHashIndex(0, n)
	for level, h := range hashes {
		f.index[level], f.hash[level] = first+int64(level), h
	}
	return nil
}
