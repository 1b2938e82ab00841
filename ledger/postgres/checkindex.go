package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// indexes name the columns that each index is ordered by.
var indexes = []struct{ table, index, columns string }{
	{"entries", "entries_pkey", "idx"},
	{"entries", "entries_bundle_sha256_key", "bundle_sha256"},
	{"bundles", "bundles_pkey", "idx"},
	{"artifacts", "artifacts_pkey", "idx, role, pos"},
	{"artifacts", "artifacts_by_sha256", "sha256, role, idx"},
	{"nodes", "nodes_pkey", "pos"},
}

// counting sees one state, and changes settings of its own only.
var counting = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

// checkIndexes counts the rows of each table by its pages and by each index: an
// index that lacks rows hides entries from look-ups.
func (s *Store) checkIndexes(ctx context.Context, add adder) error {
	for _, x := range indexes {
		var pages, index int64
		err := pgx.BeginTxFunc(ctx, s.pool, counting, func(tx pgx.Tx) error {
			for _, way := range []struct {
				settings, query string
				count           *int64
			}{
				{"SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off", "SELECT count(*) FROM @." + x.table, &pages},
				{"SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = on; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off",
					"SELECT count(*) FROM (SELECT " + x.columns + " FROM @." + x.table + " ORDER BY " + x.columns + ") AS ordered", &index},
			} {
				if _, err := tx.Exec(ctx, way.settings); err != nil {
					return err
				}
				if err := tx.QueryRow(ctx, s.sql(way.query)).Scan(way.count); err != nil {
					return err
				}
			}
			return nil
		})
		if refused := corrupt(err); refused != nil {
			add("index "+x.index, refused.Message, "an index that can be read")
		} else if err != nil {
			return err
		} else if pages != index {
			add("index "+x.index, fmt.Sprintf("%d rows", index), fmt.Sprintf("%d as in the table", pages))
		}
	}
	return nil
}

// checkPages runs amcheck: every tuple of the tables, every page of the
// indexes, and whether each index holds every row.
func (s *Store) checkPages(ctx context.Context, add adder) error {
	var quoted string
	err := s.pool.QueryRow(ctx, "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'amcheck'").Scan(&quoted)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, table := range tables {
		if err := s.checkHeap(ctx, quoted, table, add); mayNot(err) {
			return nil
		} else if err != nil {
			return err
		}
	}
	rows, err := s.pool.Query(ctx, `SELECT c.oid, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_am a ON a.oid = c.relam AND a.amname = 'btree' WHERE n.nspname = $1 AND c.relkind = 'i'`, s.at.schema)
	if err != nil {
		return err
	}
	type index struct {
		OID  uint32
		Name string
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	if err != nil {
		return err
	}
	for _, x := range found {
		_, err := s.pool.Exec(ctx, "SELECT "+quoted+".bt_index_parent_check($1::oid::regclass, true)", x.OID)
		if mayNot(err) {
			return nil
		}
		if refused := corrupt(err); refused != nil {
			add("index "+x.Name, refused.Message, "an index that amcheck finds whole")
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) checkHeap(ctx context.Context, quoted, table string, add adder) error {
	rows, err := s.pool.Query(ctx, "SELECT blkno, msg FROM "+quoted+".verify_heapam($1::text::regclass, check_toast => true) LIMIT $2", s.sql("@."+table), maxRows)
	if err != nil {
		return err
	}
	var block int64
	var text string
	_, err = pgx.ForEachRow(rows, []any{&block, &text}, func() error {
		add(fmt.Sprintf("table %s, block %d", table, block), text, "rows that amcheck finds whole")
		return nil
	})
	if refused := corrupt(err); refused != nil {
		add("table "+table, refused.Message, "rows that amcheck finds whole")
		return nil
	}
	return err
}

// mayNot says whether the role lacks a right.
func mayNot(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "42501"
}

// corrupt is the server's word that data or an index is damaged.
func corrupt(err error) *pgconn.PgError {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "XX001" || refused.Code == "XX002") {
		return refused
	}
	return nil
}
