package ledger

import (
	"context"
	"fmt"
	"iter"

	"golang.org/x/mod/sumdb/tlog"
)

// Leaves goes through the stored leaves of the entries from..to-1, in order,
// without their bundles. It holds one in memory at a time and stops at the first
// error. Nothing about them is checked: the caller hashes them and compares with
// a signed root.
func (l *Log) Leaves(ctx context.Context, from, to LeafIndex) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := from; i < to; i++ {
			r, err := l.store.Record(ctx, i)
			if err != nil {
				yield(nil, fmt.Errorf("ledger: %s: %w", where(i), err))
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
