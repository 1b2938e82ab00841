package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// maxRows bounds the findings of one kind.
const maxRows = 100

type adder func(where, got, want string)

// Check compares tables, constraints, indexes, triggers and functions with
// those that Create makes, counts rows, looks for rows that belong to no entry
// and for indexes that lack rows, and lets the extension amcheck look into pages
// and indexes where the database has it and the role may use it.
func (s *Store) Check(ctx context.Context) ([]ledger.Finding, error) {
	var findings []ledger.Finding
	add := func(where, got, want string) {
		findings = append(findings, ledger.Finding{Check: ledger.CheckStore, Where: where, Got: s.at.hide(got), Want: want})
	}
	for _, check := range []func(context.Context, adder) error{s.checkCatalog, s.checkCounts, s.checkOrphans, s.checkPlaces, s.checkIndexes, s.checkPages} {
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
