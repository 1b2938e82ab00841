package ledger

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Rows are the rows of a database's answer, as database/sql and pgx give them.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}

// CollectNodes reads rows of a storage index and a node of 32 bytes, in any
// order, into out, which has a place for each of the indexes. [ErrNotFound] if
// one of the indexes has no row. For a [Store] over a database.
func CollectNodes(rows Rows, indexes []int64, out []tlog.Hash) error {
	places := make(map[int64][]int, len(indexes))
	for i, x := range indexes {
		places[x] = append(places[x], i)
	}
	for rows.Next() {
		var pos int64
		var hash []byte
		if err := rows.Scan(&pos, &hash); err != nil {
			return err
		}
		if len(hash) != tlog.HashSize {
			return fmt.Errorf("node %d has %d bytes, want %d", pos, len(hash), tlog.HashSize)
		}
		for _, i := range places[pos] {
			copy(out[i][:], hash)
		}
		delete(places, pos)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for pos := range places {
		return fmt.Errorf("node %d: %w", pos, ErrNotFound)
	}
	return nil
}
