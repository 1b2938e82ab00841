package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// maxRows bounds the findings of one kind.
const maxRows = 100

type adder func(where, got, want string)

// Check compares tables, constraints, indexes, triggers and functions with
// those that Create makes, counts rows, looks for rows that belong to no entry,
// and lets the extension amcheck look into pages and indexes where the database
// has it and the role may use it.
func (s *Store) Check(ctx context.Context) ([]ledger.Finding, error) {
	var findings []ledger.Finding
	add := func(where, got, want string) {
		findings = append(findings, ledger.Finding{Check: ledger.CheckStore, Where: where, Got: s.at.hide(got), Want: want})
	}
	for _, check := range []func(context.Context, adder) error{s.checkCatalog, s.checkCounts, s.checkOrphans, s.checkPlaces, s.checkPages} {
		if err := check(ctx, add); err != nil {
			return nil, s.fail("check", err)
		}
	}
	return findings, nil
}

func (s *Store) checkCatalog(ctx context.Context, add adder) error {
	list, err := s.differences(ctx)
	for _, d := range list {
		add(d.what, d.got, d.want)
	}
	return err
}

func (s *Store) checkCounts(ctx context.Context, add adder) error {
	for _, count := range []struct {
		table string
		want  func(size int64) int64
	}{
		{"format", func(int64) int64 { return 1 }},
		{"entries", func(size int64) int64 { return size }},
		{"bundles", func(size int64) int64 { return size }},
		{"nodes", tlog.StoredHashCount},
	} {
		// One statement sees one state, also while others append.
		var got int64
		var last *int64
		if err := s.pool.QueryRow(ctx, s.sql("SELECT (SELECT count(*) FROM @."+count.table+"), ("+lastQuery+")")).Scan(&got, &last); err != nil {
			return err
		}
		size := sizeOf(last)
		if size > ledger.MaxEntries {
			add("table entries", fmt.Sprintf("a last index of %d", *last), fmt.Sprintf("less than %d", int64(ledger.MaxEntries)))
			return nil
		}
		if want := count.want(size); got != want {
			add("table "+count.table, fmt.Sprintf("%d rows", got), fmt.Sprintf("%d for %d entries", want, size))
		}
	}
	return nil
}

func (s *Store) checkOrphans(ctx context.Context, add adder) error {
	for _, table := range []string{"bundles", "artifacts"} {
		rows, err := s.pool.Query(ctx, s.sql("SELECT DISTINCT idx FROM @."+table+" t WHERE NOT EXISTS (SELECT FROM @.entries e WHERE e.idx = t.idx) ORDER BY idx LIMIT $1"), maxRows)
		if err != nil {
			return err
		}
		var idx int64
		if _, err := pgx.ForEachRow(rows, []any{&idx}, func() error {
			add("table "+table, fmt.Sprintf("a row that belongs to no entry, idx %d", idx), "only rows of entries")
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// checkPlaces looks for artifacts that are not numbered from 0 without gaps.
func (s *Store) checkPlaces(ctx context.Context, add adder) error {
	rows, err := s.pool.Query(ctx, s.sql(`SELECT idx, role, count(*), max(pos) FROM @.artifacts
GROUP BY idx, role HAVING min(pos) <> 0 OR max(pos) + 1 <> count(*) OR role NOT IN (0, 1) ORDER BY idx, role LIMIT $1`), maxRows)
	if err != nil {
		return err
	}
	var idx, role, count, last int64
	_, err = pgx.ForEachRow(rows, []any{&idx, &role, &count, &last}, func() error {
		add(fmt.Sprintf("table artifacts, entry %d, role %d", idx, role), fmt.Sprintf("%d rows, the last at %d", count, last), "roles 0 and 1, rows numbered from 0")
		return nil
	})
	return err
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
	indexes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	if err != nil {
		return err
	}
	for _, x := range indexes {
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
