package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weighmaster/weighmaster/ledger/postgres/postgrestest"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// TestTriggersRefuse shows that the seat-belt holds, also for the owner of the
// tables, in a session that replays a replica's changes, and for rows that are
// not there.
func TestTriggersRefuse(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Database(t)
	s := create(t, server.URL(name))
	entries, nodes := storetest.Batch(t, s, 0, 3, "x")
	if err := s.Append(t.Context(), 0, entries, nodes); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), server.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	refused := 0
	for _, role := range []string{"origin", "replica"} {
		if _, err := conn.Exec(t.Context(), "SET session_replication_role = "+role); err != nil {
			t.Fatal(err)
		}
		for table, column := range map[string]string{"format": "version", "entries": "leaf", "bundles": "bundle", "artifacts": "name", "nodes": "hash"} {
			for _, statement := range []string{
				"UPDATE weighmaster." + table + " SET " + column + " = " + column,
				"UPDATE weighmaster." + table + " SET " + column + " = " + column + " WHERE false",
				"DELETE FROM weighmaster." + table, "DELETE FROM weighmaster." + table + " WHERE false",
				"TRUNCATE weighmaster." + table + " CASCADE",
			} {
				wantAppendOnly(t, conn, role, statement)
				refused++
			}
		}
	}
	if _, err := conn.Exec(t.Context(), "SET session_replication_role = origin"); err != nil {
		t.Fatal(err)
	}
	const digest = `'\x0000000000000000000000000000000000000000000000000000000000000000'`
	statements := []string{
		"INSERT INTO weighmaster.entries VALUES (9, '', " + digest + ")",
		"INSERT INTO weighmaster.entries VALUES (3, '', " + digest + `), (5, '', '\x` + strings.Repeat("01", 32) + "')",
		"INSERT INTO weighmaster.nodes VALUES (99, " + digest + ")",
		"INSERT INTO weighmaster.nodes VALUES (0, " + digest + ") ON CONFLICT (pos) DO UPDATE SET hash = excluded.hash",
	}
	if conn.PgConn().ParameterStatus("server_version") >= "15" {
		statements = append(statements, "MERGE INTO weighmaster.nodes n USING (SELECT 0::bigint AS pos) x ON n.pos = x.pos WHEN MATCHED THEN DELETE")
	}
	for _, statement := range statements {
		wantAppendOnly(t, conn, "origin", statement)
		refused++
	}
	t.Logf("%d statements refused as append-only", refused)
	if findings, err := s.Check(t.Context()); err != nil || len(findings) != 0 {
		t.Errorf("check: %v, %v", findings, err)
	}
}

func wantAppendOnly(t *testing.T, conn *pgx.Conn, role, statement string) {
	t.Helper()
	_, err := conn.Exec(context.Background(), statement)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "the ledger is append-only") {
		t.Errorf("as %s, %s: %v, want it refused as append-only", role, statement, err)
	}
}

// TestLimitsOfTheTables shows that the constraints refuse what the log would
// not have written.
func TestLimitsOfTheTables(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Database(t)
	create(t, server.URL(name))
	conn, err := pgx.Connect(t.Context(), server.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	const digest = `'\x0000000000000000000000000000000000000000000000000000000000000000'`
	const entry = "INSERT INTO weighmaster.entries VALUES (0, '', " + digest + ");"
	for constraint, statement := range map[string]string{
		"entries_idx_check":           "INSERT INTO weighmaster.entries VALUES (-1, '', " + digest + ")",
		"entries_leaf_check":          "INSERT INTO weighmaster.entries VALUES (0, convert_to(repeat('x', 8193), 'UTF8'), " + digest + ")",
		"entries_bundle_sha256_check": `INSERT INTO weighmaster.entries VALUES (0, '', '\x00')`,
		"bundles_bundle_check":        entry + "INSERT INTO weighmaster.bundles VALUES (0, convert_to(repeat('x', 16777217), 'UTF8'))",
		"bundles_idx_fkey":            "INSERT INTO weighmaster.bundles VALUES (0, '')",
		"artifacts_idx_fkey":          "INSERT INTO weighmaster.artifacts VALUES (0, 0, 0, " + digest + ", '')",
		"artifacts_role_check":        entry + "INSERT INTO weighmaster.artifacts VALUES (0, 2, 0, " + digest + ", '')",
		"artifacts_pos_check":         entry + "INSERT INTO weighmaster.artifacts VALUES (0, 0, -1, " + digest + ", '')",
		"artifacts_sha256_check":      entry + "INSERT INTO weighmaster.artifacts VALUES (0, 0, 0, '', '')",
		"artifacts_name_check":        entry + "INSERT INTO weighmaster.artifacts VALUES (0, 0, 0, " + digest + ", convert_to(repeat('x', 4097), 'UTF8'))",
		"nodes_pos_check":             "INSERT INTO weighmaster.nodes VALUES (-1, " + digest + ")",
		"nodes_hash_check":            "INSERT INTO weighmaster.nodes VALUES (0, '')",
		"format_id_check":             "INSERT INTO weighmaster.format VALUES (2, 1)",
		"format_pkey":                 "INSERT INTO weighmaster.format VALUES (1, 1)",
	} {
		// One transaction without a prepared statement: the entry goes with the rest.
		_, err := conn.PgConn().Exec(t.Context(), statement).ReadAll()
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.ConstraintName != constraint {
			t.Errorf("%s: %v, want %s", statement[:60], err, constraint)
		}
	}
}
