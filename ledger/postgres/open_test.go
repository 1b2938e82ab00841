package postgres_test

import (
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/postgres"
	"github.com/weighmaster/weighmaster/ledger/postgres/postgrestest"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

func wantRefused(t *testing.T, what string, err error, reason string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: %v, want it refused: %s", what, err, reason)
	}
}

func TestOpenNeverCreates(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Database(t)
	_, err := postgres.Open(t.Context(), server.URL(name))
	wantRefused(t, "no schema", err, "opening never creates a log")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want fs.ErrNotExist", err)
	}
	server.Exec(t, name, "CREATE SCHEMA weighmaster")
	_, err = postgres.Open(t.Context(), server.URL(name))
	wantRefused(t, "an empty schema", err, "opening never creates a log")
	if err := postgres.Vacant(t.Context(), server.URL(name)); err != nil {
		t.Errorf("opening made something: %v", err)
	}
	_, err = postgres.Open(t.Context(), server.URL("nowhere"))
	wantRefused(t, "no database", err, `database "nowhere" does not exist`)
}

func TestCreateRefusesWhatExists(t *testing.T) {
	server := postgrestest.Shared(t)
	for what, statement := range map[string]string{
		"a table":    "CREATE TABLE weighmaster.precious (x int)",
		"a function": "CREATE FUNCTION weighmaster.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"a view":     "CREATE VIEW weighmaster.v AS SELECT 1",
	} {
		name := server.Database(t)
		server.Exec(t, name, "CREATE SCHEMA weighmaster", statement)
		_, err := postgres.Create(t.Context(), server.URL(name))
		wantRefused(t, what, err, "not empty")
		wantRefused(t, what+", asked before", postgres.Vacant(t.Context(), server.URL(name)), "not empty")
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v, want fs.ErrExist", what, err)
		}
	}
	name := server.Database(t)
	create(t, server.URL(name))
	_, err := postgres.Create(t.Context(), server.URL(name))
	wantRefused(t, "a log", err, "open it, or choose another")
}

func TestOfTwoCreatorsOneSucceeds(t *testing.T) {
	server := postgrestest.Shared(t)
	url := server.URL(server.Database(t))
	results := make([]error, 6)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			s, err := postgres.Create(t.Context(), url)
			if err == nil {
				err = s.Close()
			}
			results[i] = err
		})
	}
	wg.Wait()
	made := 0
	for _, err := range results {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, fs.ErrExist):
			t.Errorf("%v, want fs.ErrExist", err)
		}
	}
	if made != 1 {
		t.Errorf("%d made the log, want 1", made)
	}
	s, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if findings, err := s.Check(t.Context()); err != nil || len(findings) != 0 {
		t.Errorf("check: %v, %v", findings, err)
	}
}

// TestChangedTablesAreRefused changes the tables so that a log in them would not
// be what the store thinks it is. Each is refused by name when it is opened.
func TestChangedTablesAreRefused(t *testing.T) {
	server := postgrestest.Shared(t)
	off := "ALTER TABLE weighmaster.format DISABLE TRIGGER ALL"
	for _, c := range []struct {
		name, reason string
		statements   []string
	}{
		{"a newer version", "version 2 of the tables, want 1", []string{off, "UPDATE weighmaster.format SET version = 2"}},
		{"no version", "version: no rows", []string{off, "DELETE FROM weighmaster.format"}},
		{"no table format", "opening never creates", []string{"DROP TABLE weighmaster.format"}},
		{"a table missing", "table nodes: got nothing", []string{"DROP TABLE weighmaster.nodes"}},
		{"a column more", "column entries.extra", []string{"ALTER TABLE weighmaster.entries ADD extra int"}},
		{"a column with a default", "column nodes.hash: got 2 bytea not null default", []string{"ALTER TABLE weighmaster.nodes ALTER hash SET DEFAULT ''"}},
		{"a column missing", "column artifacts.name: got nothing", []string{"ALTER TABLE weighmaster.artifacts DROP name"}},
		{"a column renamed", "column bundles.bundel: got 2 bytea not null, want nothing", []string{"ALTER TABLE weighmaster.bundles RENAME bundle TO bundel"}},
		{"a column of another type", "column artifacts.name: got 5 text not null, want 5 bytea not null", []string{"ALTER TABLE weighmaster.artifacts DROP CONSTRAINT artifacts_name_check, ALTER name TYPE text USING ''"}},
		{"a column that may be null", "column entries.leaf: got 2 bytea, want 2 bytea not null", []string{"ALTER TABLE weighmaster.entries ALTER leaf DROP NOT NULL"}},
		{"a table that a crash empties", "table nodes: got kind r, persistence u", []string{"ALTER TABLE weighmaster.nodes SET UNLOGGED"}},
		{"a view in a table's place", "table nodes: got kind v", []string{"ALTER TABLE weighmaster.nodes RENAME TO hidden", "CREATE VIEW weighmaster.nodes AS SELECT * FROM weighmaster.hidden"}},
		{"rows hidden by a policy", "table entries: got kind r, persistence p, row security t", []string{"ALTER TABLE weighmaster.entries ENABLE ROW LEVEL SECURITY"}},
		{"a rule that drops inserts", "table nodes: got kind r, persistence p, row security f, rules t", []string{"CREATE RULE quiet AS ON INSERT TO weighmaster.nodes DO INSTEAD NOTHING"}},
		{"a table that inherits", "table nodes: got kind r, persistence p, row security f, rules f, children t", []string{"CREATE TABLE public.more () INHERITS (weighmaster.nodes)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := server.Database(t)
			create(t, server.URL(name))
			server.Exec(t, name, c.statements...)
			_, err := postgres.Open(t.Context(), server.URL(name))
			wantRefused(t, "open", err, c.reason)
		})
	}
}

// TestServerMustWriteThrough gives settings under which an acknowledged append
// could be lost.
func TestServerMustWriteThrough(t *testing.T) {
	server := postgrestest.Start(t)
	name := server.Database(t)
	s := create(t, server.URL(name))
	for _, setting := range []string{"off", "local", "remote_write"} {
		_, err := postgres.Open(t.Context(), server.URL(name, "synchronous_commit="+setting))
		wantRefused(t, setting, err, "synchronous_commit = "+setting)
	}
	again, err := postgres.Open(t.Context(), server.URL(name, "synchronous_commit=remote_apply"))
	if err != nil {
		t.Errorf("a stronger setting: %v", err)
	} else {
		again.Close()
	}
	for _, parameter := range []string{"fsync", "full_page_writes"} {
		server.Exec(t, name, "ALTER SYSTEM SET "+parameter+" = off", "SELECT pg_reload_conf()")
		waitFor(t, func() bool {
			_, err := postgres.Open(t.Context(), server.URL(name))
			return err != nil && strings.Contains(err.Error(), parameter+" = off") && strings.Contains(err.Error(), "a loss of power could take back")
		})
		// A connection that was made before finds out, too.
		entries, nodes := storetest.Batch(t, s, 0, 1, "x")
		wantRefused(t, "append with "+parameter+" off", s.Append(t.Context(), 0, entries, nodes), parameter+" = off")
		server.Exec(t, name, "ALTER SYSTEM RESET "+parameter, "SELECT pg_reload_conf()")
		waitFor(t, func() bool {
			s, err := postgres.Open(t.Context(), server.URL(name))
			return err == nil && s.Close() == nil
		})
	}
	if size, err := s.Size(t.Context()); err != nil || size != 0 {
		t.Errorf("size %d, %v; want nothing appended", size, err)
	}
}

// TestStandbyIsRefused: a standby lags, which looks like a log whose end was cut.
func TestStandbyIsRefused(t *testing.T) {
	server := postgrestest.Start(t)
	url := server.URL(server.Database(t))
	s := create(t, url)
	server.BecomeStandby(t)
	_, err := postgres.Open(t.Context(), url)
	wantRefused(t, "open", err, "the server is a standby, which may lag")
	wantRefused(t, "create", postgres.Vacant(t.Context(), url), "the server is a standby")
	// A store that was opened before makes its next connection to it.
	waitFor(t, func() bool {
		_, err := s.Size(t.Context())
		return err != nil && strings.Contains(err.Error(), "the server is a standby")
	})
}

// TestLogsOfOneDatabase keeps two logs apart.
func TestLogsOfOneDatabase(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Database(t)
	stores := []*postgres.Store{create(t, server.URL(name)), create(t, server.URL(name, "schema=team_a")), create(t, server.URL(name, "schema=select"))}
	for i, s := range stores {
		entries, nodes := storetest.Batch(t, s, 0, int64(i+1), s.String())
		if err := s.Append(t.Context(), 0, entries, nodes); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range stores {
		if size, err := s.Size(t.Context()); err != nil || size != int64(i+1) {
			t.Errorf("%s: size %d, %v; want %d", s, size, err, i+1)
		}
		if findings, err := s.Check(t.Context()); err != nil || len(findings) != 0 {
			t.Errorf("%s: check: %v, %v", s, findings, err)
		}
	}
}

// TestRights lets a role append that may not change anything, and one that may
// only read.
func TestRights(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Database(t)
	owner := create(t, server.URL(name))
	server.Exec(t, name,
		"CREATE ROLE writer LOGIN", "CREATE ROLE reader LOGIN", "CREATE ROLE stranger LOGIN",
		"GRANT USAGE ON SCHEMA weighmaster TO writer, reader",
		"GRANT SELECT ON ALL TABLES IN SCHEMA weighmaster TO writer, reader",
		"GRANT INSERT ON ALL TABLES IN SCHEMA weighmaster TO writer",
		"GRANT UPDATE ON weighmaster.format TO writer")
	open := func(user string) *postgres.Store {
		s, err := postgres.Open(t.Context(), server.URL(name, "user="+user))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	writer, reader := open("writer"), open("reader")
	entries, nodes := storetest.Batch(t, owner, 0, 3, "x")
	wantRefused(t, "a reader appends", reader.Append(t.Context(), 0, entries, nodes), "UPDATE of the table format")
	if err := writer.Append(t.Context(), 0, entries, nodes); err != nil {
		t.Fatal(err)
	}
	if size, err := reader.Size(t.Context()); err != nil || size != 3 {
		t.Errorf("size %d, %v", size, err)
	}
	for _, s := range []ledger.Store{writer, reader} {
		if findings, err := s.Check(t.Context()); err != nil || len(findings) != 0 {
			t.Errorf("check: %v, %v", findings, err)
		}
	}
	_, err := postgres.Open(t.Context(), server.URL(name, "user=stranger"))
	wantRefused(t, "a stranger opens", err, "grant the role USAGE of the schema")
}
