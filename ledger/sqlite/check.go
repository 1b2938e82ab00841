package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// Check asks SQLite whether pages and indexes are whole, compares the schema
// with the one that Create makes, and looks for rows that belong to no entry.
func (s *Store) Check(ctx context.Context) ([]ledger.Finding, error) {
	var findings []ledger.Finding
	add := func(where, got, want string) {
		findings = append(findings, ledger.Finding{Check: ledger.CheckStore, Where: where, Got: got, Want: want})
	}
	for _, check := range []func(context.Context, func(where, got, want string)) error{s.checkPages, s.checkSchema, s.checkRows} {
		if err := check(ctx, add); err != nil {
			return nil, fmt.Errorf("ledger/sqlite: check %s: %w", s.path, err)
		}
	}
	return findings, nil
}

func (s *Store) checkPages(ctx context.Context, add func(where, got, want string)) error {
	lines, err := s.strings(ctx, "PRAGMA integrity_check(100)")
	if err != nil {
		return err
	}
	for _, line := range lines {
		if line != "ok" {
			add("database", line, "ok from integrity_check")
		}
	}
	rows, err := s.db.QueryContext(ctx, "PRAGMA foreign_key_check")
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 0; rows.Next() && n < 100; n++ {
		var table, parent string
		var row, key any
		if err := rows.Scan(&table, &row, &parent, &key); err != nil {
			return err
		}
		add("table "+table, "a row that belongs to no entry", "only rows of entries")
	}
	return rows.Err()
}

func (s *Store) checkSchema(ctx context.Context, add func(where, got, want string)) error {
	got, err := s.strings(ctx, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
	if err != nil {
		return err
	}
	for _, want := range schema {
		if !slices.Contains(got, want) {
			add("schema", "missing or changed", first(want))
		}
	}
	for _, sql := range got {
		if !slices.Contains(schema, sql) {
			add("schema", first(sql), "nothing that Create did not make")
		}
	}
	return nil
}

func (s *Store) checkRows(ctx context.Context, add func(where, got, want string)) error {
	for _, count := range []struct {
		table string
		want  func(size int64) int64
	}{
		{"entries", func(size int64) int64 { return size }},
		{"bundles", func(size int64) int64 { return size }},
		{"nodes", tlog.StoredHashCount},
	} {
		// One statement sees one state, also while others append.
		var got, size int64
		query := "SELECT (SELECT count(*) FROM " + count.table + "), (" + sizeQuery + ")"
		if err := s.db.QueryRowContext(ctx, query).Scan(&got, &size); err != nil {
			return err
		}
		if want := count.want(size); got != want {
			add("table "+count.table, fmt.Sprintf("%d rows", got), fmt.Sprintf("%d for %d entries", want, size))
		}
	}
	return s.checkPlaces(ctx, add)
}

// checkPlaces looks for artifacts that are not numbered from 0 without gaps.
func (s *Store) checkPlaces(ctx context.Context, add func(where, got, want string)) error {
	rows, err := s.db.QueryContext(ctx, `SELECT idx, role, count(*), max(pos) FROM artifacts
GROUP BY idx, role HAVING min(pos) <> 0 OR max(pos) + 1 <> count(*) LIMIT 100`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var idx, role, count, last int64
		if err := rows.Scan(&idx, &role, &count, &last); err != nil {
			return err
		}
		add(fmt.Sprintf("table artifacts, entry %d, role %d", idx, role), fmt.Sprintf("%d rows, the last at %d", count, last), "rows numbered from 0")
	}
	return rows.Err()
}

func (s *Store) strings(ctx context.Context, query string) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		list = append(list, line)
	}
	return list, rows.Err()
}

// first returns the first line of a statement, without its bracket.
func first(sql string) string {
	line, _, _ := strings.Cut(sql, "\n")
	return strings.TrimSuffix(line, " (")
}
