package ledger

import (
	"context"
	"fmt"
	"iter"

	"golang.org/x/mod/sumdb/tlog"
)

// Leaves goes through the canonical leaves of the entries from..to-1, in order,
// without their bundles. It holds one in memory at a time and stops at the
// first error: *[EntryError] for a stored leaf that is not canonical.
func (l *Log) Leaves(ctx context.Context, from, to LeafIndex) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := from; i < to; i++ {
			r, err := l.store.Record(ctx, i)
			if err != nil {
				yield(nil, fmt.Errorf("ledger: %s: %w", where(i), err))
				return
			}
			if _, err := ParseLeaf(r.Leaf); err != nil {
				yield(nil, &EntryError{Finding{CheckLeaf, where(i), err.Error(), "a canonical leaf"}})
				return
			}
			if !yield(r.Leaf, nil) {
				return
			}
		}
	}
}

// Nodes reads the stored nodes of the tree. Nothing about them is checked.
func (l *Log) Nodes(ctx context.Context) tlog.HashReader { return hashReader{ctx, l.store} }
