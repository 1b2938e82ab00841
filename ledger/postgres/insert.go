package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// Bounds of one statement; a message of PostgreSQL has at most 1 GiB.
const (
	statementRows  = 8192
	statementBytes = 8 << 20
)

// insert writes the rows of the entries. Rows go by columns, many in one
// statement, and statements go many in one round trip.
func (s *Store) insert(ctx context.Context, tx pgx.Tx, size int64, entries []ledger.NewEntry, digests [][]byte, hashes []tlog.Hash) error {
	w := writer{ctx: ctx, tx: tx, batch: &pgx.Batch{}}
	heads := rows{sql: s.sql(`INSERT INTO @.entries (idx, leaf, bundle_sha256) SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[])`)}
	for i, e := range entries {
		heads.ints = append(heads.ints, size+int64(i))
		heads.bytes[0] = append(heads.bytes[0], orEmpty(e.Record.Leaf))
		heads.bytes[1] = append(heads.bytes[1], digests[i])
		w.full(&heads, len(e.Record.Leaf), 2)
	}
	w.queue(&heads, 2)
	bundles := rows{sql: s.sql(`INSERT INTO @.bundles (idx, bundle) SELECT * FROM unnest($1::bigint[], $2::bytea[])`)}
	for i, e := range entries {
		bundles.ints = append(bundles.ints, size+int64(i))
		bundles.bytes[0] = append(bundles.bytes[0], orEmpty(e.Bundle))
		w.full(&bundles, len(e.Bundle), 1)
	}
	w.queue(&bundles, 1)
	if err := s.insertArtifacts(&w, size, entries); err != nil {
		return err
	}
	nodes := rows{sql: s.sql(`INSERT INTO @.nodes (pos, hash) SELECT * FROM unnest($1::bigint[], $2::bytea[])`)}
	first := tlog.StoredHashIndex(0, size)
	for i := range hashes {
		nodes.ints = append(nodes.ints, first+int64(i))
		nodes.bytes[0] = append(nodes.bytes[0], hashes[i][:])
		w.full(&nodes, tlog.HashSize, 1)
	}
	w.queue(&nodes, 1)
	w.send()
	return w.err
}

func (s *Store) insertArtifacts(w *writer, size int64, entries []ledger.NewEntry) error {
	artifacts := rows{sql: s.sql(`INSERT INTO @.artifacts (idx, role, pos, sha256, name)
SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::integer[], $4::bytea[], $5::bytea[])`)}
	for i, e := range entries {
		for role, refs := range [2][]ledger.Ref{e.Record.Subjects, e.Record.Dependencies} {
			for pos, ref := range refs {
				digest, err := raw(ref.Digest)
				if err != nil {
					return err
				}
				artifacts.ints = append(artifacts.ints, size+int64(i))
				artifacts.roles = append(artifacts.roles, int16(role))
				artifacts.places = append(artifacts.places, int32(pos))
				artifacts.bytes[0] = append(artifacts.bytes[0], digest)
				artifacts.bytes[1] = append(artifacts.bytes[1], []byte(ref.Name))
				w.full(&artifacts, len(ref.Name)+len(digest), 2)
			}
		}
	}
	w.queue(&artifacts, 2)
	return nil
}

// orEmpty keeps nil, which stands for NULL, apart from no bytes.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// rows are the columns of one statement: numbers first, then up to two of bytes.
type rows struct {
	sql    string
	ints   []int64
	roles  []int16
	places []int32
	bytes  [2][][]byte
	size   int
}

// writer sends statements; its first error stays.
type writer struct {
	ctx   context.Context
	tx    pgx.Tx
	batch *pgx.Batch
	size  int
	err   error
}

// full queues the rows when there are enough for one statement.
func (w *writer) full(r *rows, added, columns int) {
	if r.size += added; len(r.ints) == statementRows || r.size >= statementBytes {
		w.queue(r, columns)
	}
}

func (w *writer) queue(r *rows, columns int) {
	if len(r.ints) == 0 {
		return
	}
	args := []any{r.ints}
	if r.roles != nil {
		args = append(args, r.roles, r.places)
	}
	for _, column := range r.bytes[:columns] {
		args = append(args, column)
	}
	w.batch.Queue(r.sql, args...)
	w.size += r.size
	*r = rows{sql: r.sql}
	if w.size >= statementBytes {
		w.send()
	}
}

func (w *writer) send() {
	if w.err == nil && w.batch.Len() > 0 {
		w.err = w.tx.SendBatch(w.ctx, w.batch).Close()
	}
	w.batch, w.size = &pgx.Batch{}, 0
}
