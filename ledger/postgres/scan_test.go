package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/postgres/postgrestest"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// TestNoQueryScans counts, as the server does, how often a table was read from
// one end to the other while everything but Check was asked and appended: never.
func TestNoQueryScans(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Database(t)
	s := create(t, server.URL(name))
	const n = 4000
	entries, nodes := storetest.Batch(t, s, 0, n, "x")
	if err := s.Append(t.Context(), 0, entries, nodes); err != nil {
		t.Fatal(err)
	}
	s.Close()
	server.Exec(t, name, "ANALYZE")
	before := scans(t, server.URL(name))
	s = open(t, server.URL(name))
	ctx := t.Context()
	for i := range 10 { // past the five of PostgreSQL that plan with the values at hand
		index := ledger.LeafIndex(i * 397)
		if _, err := s.Record(ctx, index); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Bundle(ctx, index); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ByBundle(ctx, entries[index].Record.Bundle); err != nil {
			t.Fatal(err)
		}
		// One that a single entry names, and one that all do.
		for _, artifact := range []ledger.Ref{entries[index].Record.Subjects[0], entries[index].Record.Dependencies[0]} {
			for role := range ledger.Role(2) {
				if _, err := s.ByArtifact(ctx, artifact.Digest, role, index, 5); err != nil {
					t.Fatal(err)
				}
			}
		}
		var asked []int64
		for level := range 12 {
			asked = append(asked, int64(level*331))
		}
		if _, err := s.Hashes(ctx, asked); err != nil {
			t.Fatal(err)
		}
		more, moreNodes := storetest.Batch(t, s, n+int64(i), 1, "more")
		more[0].Bundle = storetest.Bundle("more", []string{string(rune('a' + i))}, nil)
		more[0].Record.Bundle = storetest.Digest(string(rune('a' + i)))
		if err := s.Append(ctx, n+int64(i), more, moreNodes); err != nil {
			t.Fatal(err)
		}
	}
	s.Close() // its sessions report when they end
	var after map[string]int64
	waitFor(t, func() bool { after = scans(t, server.URL(name)); return after["by index"] > before["by index"]+50 })
	for _, table := range []string{"entries", "bundles", "artifacts", "nodes"} {
		if after[table] != before[table] {
			t.Errorf("table %s was read from end to end %d times", table, after[table]-before[table])
		}
	}
}

// scans returns how often each table was read as a whole, and "by index" how
// often indexes were used.
func scans(t *testing.T, url string) map[string]int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), "SELECT relname, coalesce(seq_scan, 0), coalesce(idx_scan, 0) FROM pg_stat_user_tables")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	var table string
	var whole, index int64
	if _, err := pgx.ForEachRow(rows, []any{&table, &whole, &index}, func() error {
		counts[table] = whole
		counts["by index"] += index
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return counts
}
