package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/memory"
	"github.com/weighmaster/weighmaster/ledger/postgres"
	"github.com/weighmaster/weighmaster/ledger/postgres/postgrestest"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

const tampered = 3 // the entry that the tests below tamper with, of 12

// site is a log of 12 entries in a schema of its own.
type site struct {
	server           *postgrestest.Server
	database, schema string
	store            *postgres.Store
	checkpoints      *memory.Checkpoints
}

var schemas int

func newSite(t *testing.T, server *postgrestest.Server, database string) *site {
	t.Helper()
	schemas++
	s := &site{server: server, database: database, schema: fmt.Sprint("log", schemas), checkpoints: memory.NewCheckpoints()}
	s.store = create(t, server.URL(database, "schema="+s.schema))
	log, err := ledger.Create(t.Context(), s.store, options(t, s.checkpoints))
	if err != nil {
		t.Fatal(err)
	}
	var bundles [][]byte
	for i := range 12 {
		bundles = append(bundles, storetest.Bundle(fmt.Sprint("step ", i), []string{fmt.Sprint("file ", i+1)}, []string{fmt.Sprint("file ", i), "tool"}))
	}
	for _, half := range [][][]byte{bundles[:5], bundles[5:]} {
		if _, err := log.AppendAll(t.Context(), half); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// forge does what somebody can who owns the tables: it takes the seat-belt off,
// changes what it likes, and puts it on again. @ stands for the schema.
func (s *site) forge(t *testing.T, statements ...string) {
	t.Helper()
	list := []string{"SET session_replication_role = replica"} // no foreign keys, no order
	for _, table := range []string{"format", "entries", "bundles", "artifacts", "nodes"} {
		list = append(list, "ALTER TABLE @."+table+" DISABLE TRIGGER "+table+"_append_only")
	}
	list = append(list, statements...)
	for _, table := range []string{"format", "entries", "bundles", "artifacts", "nodes"} {
		list = append(list, "ALTER TABLE @."+table+" ENABLE ALWAYS TRIGGER "+table+"_append_only")
	}
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "@", s.schema)
	}
	s.server.Exec(t, s.database, list...)
}

// verify returns the full verification and what opening the log says.
func (s *site) verify(t *testing.T) (v ledger.Verification, openErr error) {
	t.Helper()
	store, err := postgres.Open(t.Context(), s.server.URL(s.database, "schema="+s.schema))
	if err != nil {
		return ledger.Verification{}, err
	}
	defer store.Close()
	opt := options(t, s.checkpoints)
	opt.Signer = nil
	_, openErr = ledger.Open(t.Context(), store, opt)
	if v, err = ledger.Verify(t.Context(), store, opt); err != nil {
		t.Fatal(err)
	}
	return v, openErr
}

func hasFinding(v ledger.Verification, check, where, got string) bool {
	return slices.ContainsFunc(v.Findings, func(f ledger.Finding) bool {
		return f.Check == check && strings.Contains(f.Where, where) && strings.Contains(f.Got, got)
	})
}

// TestEveryColumnEdited asks the database for every column of every table, and
// changes it in one row. An edit that no case below knows fails the test.
func TestEveryColumnEdited(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	first := newSite(t, server, database)
	node := tlog.StoredHashIndex(0, tampered)
	row := map[string]string{"format": "true", "entries": "idx = 3", "bundles": "idx = 3", "artifacts": "idx = 3 AND role = 1 AND pos = 1", "nodes": fmt.Sprint("pos = ", node)}
	const flip = "set_byte(%[1]s, 0, get_byte(%[1]s, 0) # 1)"
	cases := map[string]struct {
		value, check, where, got string
		before                   string // a statement that makes the edit possible
	}{
		"format.id":             {value: "2", check: ledger.CheckStore, where: "constraint format.format_id_check", got: "nothing", before: "ALTER TABLE @.format DROP CONSTRAINT format_id_check"},
		"format.version":        {value: "2"}, // refused when it is opened
		"entries.idx":           {value: "40", check: ledger.CheckEntry, where: "entry 3", got: "no record"},
		"entries.leaf":          {value: "decode(replace(encode(leaf, 'escape'), 'predicate/v1', 'predicate/v2'), 'escape')", check: ledger.CheckSigned, where: "entry 3", got: "predicate/v2"},
		"entries.bundle_sha256": {value: fmt.Sprintf(flip, "bundle_sha256"), check: ledger.CheckBundle, where: "entry 3", got: "in the row"},
		"bundles.idx":           {value: "40", check: ledger.CheckEntry, where: "entry 3", got: "no bundle"},
		"bundles.bundle":        {value: fmt.Sprintf(flip, "bundle"), check: ledger.CheckBundle, where: "entry 3", got: "a bundle with digest"},
		"artifacts.idx":         {value: "5, pos = 7", check: ledger.CheckIndex, where: "entry 3", got: "dependencies 1 artifacts"},
		"artifacts.role":        {value: "0", check: ledger.CheckIndex, where: "entry 3", got: "subjects 2 artifacts"},
		"artifacts.pos":         {value: "7", check: ledger.CheckStore, where: "entry 3, role 1", got: "the last at 7"},
		"artifacts.sha256":      {value: fmt.Sprintf(flip, "sha256"), check: ledger.CheckIndex, where: "entry 3", got: `dependencies [1] "tool"`},
		"artifacts.name":        {value: "'evil'", check: ledger.CheckIndex, where: "entry 3", got: `dependencies [1] "evil"`},
		"nodes.pos":             {value: "999", check: ledger.CheckNodes, where: "entry 3", got: "not found"},
		"nodes.hash":            {value: fmt.Sprintf(flip, "hash"), check: ledger.CheckNodes, where: "entry 3", got: ""},
	}
	for _, column := range columns(t, server.URL(database), first.schema) {
		t.Run(column, func(t *testing.T) {
			c, ok := cases[column]
			if !ok {
				t.Fatal("no case edits this column: write one")
			}
			delete(cases, column)
			table, name, _ := strings.Cut(column, ".")
			s := newSite(t, server, database)
			if v, err := s.verify(t); err != nil || !v.OK() {
				t.Fatalf("before the attack: %v, %v", v.Findings, err)
			}
			statements := []string{"UPDATE @." + table + " SET " + name + " = " + c.value + " WHERE " + row[table]}
			if c.before != "" {
				statements = append([]string{c.before}, statements...)
			}
			s.forge(t, statements...)
			v, openErr := s.verify(t)
			if column == "format.version" {
				wantRefused(t, "open", openErr, "version 2 of the tables")
				return
			}
			if v.OK() || !hasFinding(v, c.check, c.where, c.got) {
				t.Errorf("verify: want the finding %q at %q with %q, got:\n%v", c.check, c.where, c.got, v.Findings)
			}
		})
	}
	for column := range cases {
		t.Errorf("the database has no column %s", column)
	}
}

// columns asks the database for every column of a schema's tables.
func columns(t *testing.T, url, schema string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, _ := conn.Query(t.Context(), "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = $1 ORDER BY 1", schema)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestRowsTampered moves, adds and removes rows, and changes what keeps them.
func TestRowsTampered(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	swap := func(table string) []string {
		return []string{"UPDATE @." + table + " SET idx = 100 WHERE idx = 3", "UPDATE @." + table + " SET idx = 3 WHERE idx = 4", "UPDATE @." + table + " SET idx = 4 WHERE idx = 100"}
	}
	cut := []string{"DELETE FROM @.artifacts WHERE idx > 8", "DELETE FROM @.bundles WHERE idx > 8", "DELETE FROM @.entries WHERE idx > 8"}
	const digest = `'\x0000000000000000000000000000000000000000000000000000000000000000'`
	for _, c := range []struct {
		name              string
		sql               []string
		check, where, got string
		contradiction     bool
	}{
		{"two entries reordered", swap("entries"), ledger.CheckNodes, "entry 3, node at level 0", "", true},
		{"two whole entries reordered", slices.Concat(swap("entries"), swap("bundles"), swap("artifacts")), ledger.CheckNodes, "entry 3, node at level 0", "", true},
		{"two bundles swapped", swap("bundles"), ledger.CheckBundle, "entry 3", "a bundle with digest", false},
		{"an entry removed", []string{"DELETE FROM @.artifacts WHERE idx = 3", "DELETE FROM @.bundles WHERE idx = 3", "DELETE FROM @.entries WHERE idx = 3"}, ledger.CheckEntry, "entry 3", "no record", false},
		{"an artifact removed", []string{"DELETE FROM @.artifacts WHERE idx = 3 AND role = 1 AND pos = 1"}, ledger.CheckIndex, "entry 3", "dependencies 1 artifacts", false},
		{"an artifact of no entry", []string{"INSERT INTO @.artifacts VALUES (77, 0, 0, " + digest + ", '')"}, ledger.CheckStore, "table artifacts", "belongs to no entry, idx 77", false},
		{"a bundle of no entry", []string{"INSERT INTO @.bundles VALUES (77, '')"}, ledger.CheckStore, "table bundles", "belongs to no entry, idx 77", false},
		{"a node too many", []string{"INSERT INTO @.nodes VALUES (999, " + digest + ")"}, ledger.CheckStore, "table nodes", "rows", false},
		{"the tail cut", append(slices.Clone(cut), "DELETE FROM @.nodes WHERE pos >= 16"), ledger.CheckRoot, "size 12", "9 entries", true},
		{"the tail cut, nodes left", cut, ledger.CheckStore, "table nodes", "22 rows", true},
		{"everything removed", []string{"TRUNCATE @.entries, @.bundles, @.artifacts, @.nodes"}, ledger.CheckRoot, "size 12", "0 entries", true},
		{"an entry absurdly far", []string{"UPDATE @.entries SET idx = 1099511627775 WHERE idx = 3"}, ledger.CheckEntry, "entry 3", "no record", false},
		{"the head removed", []string{"INSERT INTO @.nodes VALUES (999, " + digest + ")", "ALTER TABLE @.format DROP CONSTRAINT format_id_check", "INSERT INTO @.format VALUES (2, 1)"}, ledger.CheckStore, "table format", "2 rows", false},
		{"a trigger removed", []string{"DROP TRIGGER entries_in_order ON @.entries"}, ledger.CheckStore, "trigger entries.entries_in_order", "nothing", false},
		{"a trigger disabled", []string{"ALTER TABLE @.nodes DISABLE TRIGGER nodes_in_order"}, ledger.CheckStore, "trigger nodes.nodes_in_order", "enabled D", false},
		{"a trigger of a constraint disabled", []string{"ALTER TABLE @.artifacts DISABLE TRIGGER ALL"}, ledger.CheckStore, "trigger artifacts.artifacts_idx_fkey", "enabled D", false},
		{"a trigger added", []string{"CREATE TRIGGER quiet BEFORE INSERT ON @.nodes FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()"}, ledger.CheckStore, "trigger nodes.quiet", "CREATE TRIGGER quiet", false},
		{"a function that refuses no more", []string{"CREATE OR REPLACE FUNCTION @.refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS 'BEGIN RETURN NEW; END'"}, ledger.CheckStore, "function refuse", "RETURN NEW", false},
		{"a function added", []string{"CREATE FUNCTION @.f() RETURNS int LANGUAGE sql AS 'SELECT 1'"}, ledger.CheckStore, "function f", "SELECT 1", false},
		{"a constraint removed", []string{"ALTER TABLE @.artifacts DROP CONSTRAINT artifacts_role_check"}, ledger.CheckStore, "constraint artifacts.artifacts_role_check", "nothing", false},
		{"a constraint not valid", []string{"ALTER TABLE @.nodes DROP CONSTRAINT nodes_pos_check, ADD CONSTRAINT nodes_pos_check CHECK (pos >= 0) NOT VALID"}, ledger.CheckStore, "constraint nodes.nodes_pos_check", "NOT VALID", false},
		{"the index replaced by a partial one", []string{"DROP INDEX @.artifacts_by_sha256", "CREATE INDEX artifacts_by_sha256 ON @.artifacts (sha256, role, idx) WHERE idx < 3"}, ledger.CheckStore, "index artifacts_by_sha256", "WHERE (idx < 3)", false},
		{"the index marked as not valid", []string{"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '@.artifacts_by_sha256'::regclass"}, ledger.CheckStore, "index artifacts_by_sha256", "not valid", false},
		{"a table added", []string{"CREATE TABLE @.other (x int)"}, ledger.CheckStore, "table other", "kind r", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, server, database)
			s.forge(t, c.sql...)
			v, openErr := s.verify(t)
			if v.OK() || !hasFinding(v, c.check, c.where, c.got) {
				t.Errorf("verify: want the finding %q at %q with %q, got:\n%v; open: %v", c.check, c.where, c.got, v.Findings, openErr)
			}
			if got := v.Contradiction != nil; got != c.contradiction {
				t.Errorf("a signed checkpoint is contradicted: %v, want %v", got, c.contradiction)
			}
		})
	}
}

// TestOlderDatabasePutBack restores a copy of the tables from before the newest
// checkpoint, as a backup does.
func TestOlderDatabasePutBack(t *testing.T) {
	server := postgrestest.Shared(t)
	s := newSite(t, server, server.Database(t))
	tables := []string{"entries", "bundles", "artifacts", "nodes"}
	var keep, restore []string
	for _, table := range tables {
		keep = append(keep, "CREATE TABLE old_"+table+" AS SELECT * FROM "+s.schema+"."+table)
		restore = append(restore, "INSERT INTO @."+table+" SELECT * FROM old_"+table)
	}
	server.Exec(t, s.database, keep...)
	log, err := ledger.Open(t.Context(), s.store, options(t, s.checkpoints))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), storetest.Bundle("later", nil, nil)); err != nil {
		t.Fatal(err)
	}
	s.forge(t, append([]string{"TRUNCATE @.entries, @.bundles, @.artifacts, @.nodes"}, restore...)...)
	v, openErr := s.verify(t)
	wantRefused(t, "open", openErr, "signed 13 entries and the store has only 12")
	if v.Contradiction == nil || v.Contradiction.Size != 12 {
		t.Errorf("verify: contradiction %v, want one at 12 entries", v.Contradiction)
	}
}

// TestSplitBrain lets two machines append to two servers that were one, as when a
// failover goes to a copy that lags: each has signed a tree that the other's does
// not extend. Neither goes on, and the two checkpoints prove it.
func TestSplitBrain(t *testing.T) {
	server := postgrestest.Shared(t)
	s := newSite(t, server, server.Database(t))
	other := newSite(t, server, s.database) // the same 12 entries, as in a copy
	append1 := func(s *site, payload string) *ledger.Log {
		log, err := ledger.Open(t.Context(), s.store, options(t, s.checkpoints))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), storetest.Bundle(payload, nil, nil)); err != nil {
			t.Fatal(err)
		}
		return log
	}
	left, right := append1(s, "left"), append1(other, "right")
	signed, err := right.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lied *ledger.Contradiction
	if _, err := left.Extends(t.Context(), signed); !errors.As(err, &lied) || len(lied.Signed) == 0 {
		t.Errorf("the left one, told of the right one's checkpoint: %v, want a contradiction with its proof", err)
	}
	// The left machine, with its checkpoints, reaches the right server.
	_, err = ledger.Open(t.Context(), other.store, options(t, s.checkpoints))
	if !errors.As(err, &lied) || !strings.Contains(err.Error(), "the stored ones have another") {
		t.Errorf("the left machine at the right server: %v, want a contradiction", err)
	}
	if newest, err := s.checkpoints.Newest(t.Context()); err != nil || newest != 13 {
		t.Errorf("newest checkpoint %d, %v; want 13: nothing may have been signed", newest, err)
	}
}

// TestIndexThatLacksRows hides rows from look-ups. The store finds that for every
// index by itself, and amcheck finds it where the database has it.
func TestIndexThatLacksRows(t *testing.T) {
	server := postgrestest.Shared(t)
	plain, extended := server.Database(t), server.Database(t)
	server.Exec(t, extended, "CREATE EXTENSION amcheck")
	for _, c := range []struct{ database, table, index, where, got string }{
		{plain, "entries", "entries_pkey", "idx = 3", "11 rows"},
		{plain, "entries", "entries_bundle_sha256_key", "idx = 3", "11 rows"},
		{plain, "bundles", "bundles_pkey", "idx = 3", "11 rows"},
		{plain, "artifacts", "artifacts_pkey", "idx = 3", "33 rows"},
		{plain, "artifacts", "artifacts_by_sha256", "idx = 3", "33 rows"},
		{plain, "nodes", "nodes_pkey", "pos = 4", "21 rows"},
		{extended, "artifacts", "artifacts_by_sha256", "idx = 3", "33 rows"},
		{extended, "artifacts", "artifacts_by_sha256", "idx = 3", "lacks matching index tuple"},
	} {
		t.Run(c.index+" "+c.got, func(t *testing.T) {
			s := newSite(t, server, c.database)
			if v, err := s.verify(t); err != nil || !v.OK() {
				t.Fatalf("before: %v, %v", v.Findings, err)
			}
			ready := func(yes string) string {
				return "UPDATE pg_index SET indisready = " + yes + " WHERE indexrelid = '@." + c.index + "'::regclass"
			}
			s.forge(t, "CREATE TEMPORARY TABLE kept AS SELECT * FROM @."+c.table+" WHERE "+c.where, ready("false"),
				"DELETE FROM @."+c.table+" WHERE "+c.where, "INSERT INTO @."+c.table+" SELECT * FROM kept", ready("true"))
			if v, _ := s.verify(t); !hasFinding(v, ledger.CheckStore, "index "+c.index, c.got) {
				t.Errorf("verify: %v, want the index named, which has %s", v.Findings, c.got)
			}
		})
	}
}
