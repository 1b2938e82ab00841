package ledger_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
	"github.com/weighmaster/weighmaster/ledger/sqlite"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// forger is somebody who can write the database file: it takes the triggers
// away, does its work, and puts them back so that the schema looks untouched.
func forger(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	triggers := map[string]string{}
	rows, err := db.Query("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			t.Fatal(err)
		}
		triggers[name] = text
	}
	if err := rows.Err(); err != nil || len(triggers) == 0 {
		t.Fatalf("%d triggers, %v", len(triggers), err)
	}
	run := func(statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run("PRAGMA foreign_keys = 0")
	for name := range triggers {
		run("DROP TRIGGER " + name)
	}
	for _, s := range statements {
		run(s)
	}
	for _, text := range triggers {
		run(text)
	}
}

// refused opens a log and, apart from that, verifies all of it:
// it returns the verification and Open's error, nil if its few reads found
// nothing.
func refused(t *testing.T, folder string) (ledger.Verification, error) {
	t.Helper()
	s := reopen(t, folder)
	opt := s.options(t)
	opt.Signer = nil
	_, openErr := ledger.Open(context.Background(), s.store, opt)
	v, err := ledger.Verify(context.Background(), s.store, opt)
	if err != nil {
		t.Fatal(err)
	}
	return v, openErr
}

func hasFinding(v ledger.Verification, check, where, got string) bool {
	for _, f := range v.Findings {
		if f.Check == check && strings.Contains(f.Where, where) && strings.Contains(f.Got, got) {
			return true
		}
	}
	return false
}

// TestEveryColumnEdited changes each column of each table, and rows as a
// whole, in a log of 12 entries.
func TestEveryColumnEdited(t *testing.T) {
	for _, c := range []struct {
		name              string
		sql               []string
		check, where, got string
	}{
		{"a leaf's predicate type", []string{`UPDATE entries SET leaf = CAST(replace(CAST(leaf AS TEXT), 'predicate/v1', 'predicate/v2') AS BLOB) WHERE idx = 3`},
			ledger.CheckSigned, "entry 3", `predicate type "https://example.com/predicate/v2" in the leaf`},
		{"a leaf's PAE", []string{`UPDATE entries SET leaf = (SELECT CAST(replace(CAST(a.leaf AS TEXT), substr(CAST(a.leaf AS TEXT), instr(CAST(a.leaf AS TEXT), '"pae":"sha256:') + 14, 64), '` + strings.Repeat("0", 64) + `') AS BLOB) FROM entries a WHERE a.idx = 3) WHERE idx = 3`},
			ledger.CheckSigned, "entry 3", "PAE sha256:0000"},
		{"a leaf's time", []string{`UPDATE entries SET leaf = CAST(replace(CAST(leaf AS TEXT), '2026-01-02', '2025-01-02') AS BLOB) WHERE idx = 3`},
			ledger.CheckNodes, "entry 3, node at level 0", ""},
		{"a leaf that is no leaf", []string{`UPDATE entries SET leaf = CAST('{}' AS BLOB) WHERE idx = 3`},
			ledger.CheckLeaf, "entry 3", "leaf type"},
		{"a leaf with white space", []string{`UPDATE entries SET leaf = CAST(CAST(leaf AS TEXT) || ' ' AS BLOB) WHERE idx = 3`},
			ledger.CheckLeaf, "entry 3", "not canonical"},
		{"an entry's place", []string{`UPDATE entries SET idx = 40 WHERE idx = 3`},
			ledger.CheckEntry, "entry 3", "no record"},
		{"an entry's place, absurdly far", []string{`UPDATE entries SET idx = 4611686018427387904 WHERE idx = 3`},
			ledger.CheckEntry, "entry 3", "no record"},
		{"an entry's bundle digest", []string{`UPDATE entries SET bundle_sha256 = zeroblob(32) WHERE idx = 3`},
			ledger.CheckBundle, "entry 3", "sha256:0000"},
		{"two entries' bundle digests swapped", []string{
			`UPDATE entries SET bundle_sha256 = zeroblob(32) WHERE idx = 3`,
			`UPDATE entries SET bundle_sha256 = (SELECT unhex(substr(CAST(leaf AS TEXT), instr(CAST(leaf AS TEXT), '"bundle":"sha256:') + 17, 64)) FROM entries WHERE idx = 3) WHERE idx = 4`},
			ledger.CheckBundle, "entry 3", "finds entry 4"},
		{"two entries reordered", []string{
			`UPDATE entries SET idx = 100 WHERE idx = 3`, `UPDATE entries SET idx = 3 WHERE idx = 4`, `UPDATE entries SET idx = 4 WHERE idx = 100`},
			ledger.CheckNodes, "entry 3, node at level 0", ""},
		{"two whole entries reordered, with bundles and artifacts", []string{
			`UPDATE entries SET idx = 100 WHERE idx = 3`, `UPDATE entries SET idx = 3 WHERE idx = 4`, `UPDATE entries SET idx = 4 WHERE idx = 100`,
			`UPDATE bundles SET idx = 100 WHERE idx = 3`, `UPDATE bundles SET idx = 3 WHERE idx = 4`, `UPDATE bundles SET idx = 4 WHERE idx = 100`,
			`UPDATE artifacts SET idx = 100 WHERE idx = 3`, `UPDATE artifacts SET idx = 3 WHERE idx = 4`, `UPDATE artifacts SET idx = 4 WHERE idx = 100`},
			ledger.CheckNodes, "entry 3, node at level 0", ""},
		{"a bundle", []string{`UPDATE bundles SET bundle = CAST(replace(CAST(bundle AS TEXT), 'step 3', 'step X') AS BLOB) WHERE idx = 3`},
			ledger.CheckBundle, "entry 3", "a bundle with digest"},
		{"a bundle's place", []string{`UPDATE bundles SET idx = 40 WHERE idx = 3`},
			ledger.CheckEntry, "entry 3", "no bundle"},
		{"two bundles swapped", []string{
			`UPDATE bundles SET idx = 100 WHERE idx = 3`, `UPDATE bundles SET idx = 3 WHERE idx = 4`, `UPDATE bundles SET idx = 4 WHERE idx = 100`},
			ledger.CheckBundle, "entry 3", "a bundle with digest"},
		{"an artifact's entry", []string{`UPDATE artifacts SET idx = 5, pos = 7 WHERE idx = 3 AND role = 0`},
			ledger.CheckIndex, "entry 3", "subjects 0 artifacts"},
		{"an artifact of no entry", []string{`INSERT INTO artifacts SELECT 77, role, pos, sha256, name FROM artifacts WHERE idx = 3`},
			ledger.CheckStore, "table artifacts", "belongs to no entry"},
		{"an artifact's role", []string{`UPDATE artifacts SET role = 1, pos = 2 WHERE idx = 3 AND role = 0`},
			ledger.CheckIndex, "entry 3", "dependencies 3 artifacts"},
		{"an artifact's role, unknown", []string{`PRAGMA ignore_check_constraints = 1`, `UPDATE artifacts SET role = 9 WHERE idx = 3 AND role = 1`},
			ledger.CheckStore, "database", "CHECK constraint"},
		{"an artifact's position", []string{`UPDATE artifacts SET pos = 7 WHERE idx = 3 AND role = 0`},
			ledger.CheckStore, "entry 3, role 0", "the last at 7"},
		{"an artifact's digest", []string{`UPDATE artifacts SET sha256 = zeroblob(32) WHERE idx = 3 AND role = 0`},
			ledger.CheckIndex, "entry 3", "sha256:0000"},
		{"an artifact's name", []string{`UPDATE artifacts SET name = 'evil' WHERE idx = 3 AND role = 1 AND pos = 1`},
			ledger.CheckIndex, "entry 3", `dependencies [1] "evil"`},
		{"an artifact removed", []string{`DELETE FROM artifacts WHERE idx = 3 AND role = 1 AND pos = 1`},
			ledger.CheckIndex, "entry 3", "dependencies 1 artifacts"},
		{"a node", []string{`UPDATE nodes SET hash = zeroblob(32) WHERE pos = 5`},
			ledger.CheckNodes, "entry 3", "AAAAAAAA"},
		{"a node's place", []string{`UPDATE nodes SET pos = 999 WHERE pos = 5`},
			ledger.CheckNodes, "entry 3", "not found"},
		{"a node too many", []string{`INSERT INTO nodes VALUES (999, zeroblob(32))`},
			ledger.CheckStore, "table nodes", "rows"},
		{"an entry removed", []string{`DELETE FROM entries WHERE idx = 3`, `DELETE FROM bundles WHERE idx = 3`, `DELETE FROM artifacts WHERE idx = 3`},
			ledger.CheckEntry, "entry 3", "no record"},
		{"the tail cut", []string{`DELETE FROM entries WHERE idx > 8`, `DELETE FROM bundles WHERE idx > 8`, `DELETE FROM artifacts WHERE idx > 8`, `DELETE FROM nodes WHERE pos >= 16`},
			ledger.CheckRoot, "size 12", "9 entries"},
		{"the tail cut, nodes left", []string{`DELETE FROM entries WHERE idx > 8`, `DELETE FROM bundles WHERE idx > 8`, `DELETE FROM artifacts WHERE idx > 8`},
			ledger.CheckStore, "table nodes", "22 rows"},
		{"everything removed", []string{`DELETE FROM entries`, `DELETE FROM bundles`, `DELETE FROM artifacts`, `DELETE FROM nodes`},
			ledger.CheckRoot, "size 12", "0 entries"},
		{"a trigger replaced", []string{`CREATE TRIGGER quiet BEFORE DELETE ON nodes BEGIN SELECT 1; END`},
			ledger.CheckStore, "schema", "quiet"},
		{"the index replaced by a partial one", []string{`DROP INDEX artifacts_by_sha256`, `CREATE INDEX artifacts_by_sha256 ON artifacts (sha256, role, idx) WHERE idx < 3`},
			ledger.CheckStore, "schema", "missing or changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := onDisk(t)
			chain(t, s.create(t), 12)
			s.store.Close()
			if v, _ := refused(t, filepath.Dir(s.db)); !v.OK() {
				t.Fatalf("before the attack: %v", v.Findings)
			}
			forger(t, s.db, c.sql...)
			v, openErr := refused(t, filepath.Dir(s.db))
			if v.OK() || !hasFinding(v, c.check, c.where, c.got) {
				t.Errorf("verify: want the finding %q at %q with %q, got:\n%v", c.check, c.where, c.got, v.Findings)
			}
			t.Logf("open: %v", openErr)
		})
	}
}

// TestTriggersRefuse shows that the seat-belt holds for who does not cut it.
func TestTriggersRefuse(t *testing.T) {
	s := onDisk(t)
	chain(t, s.create(t), 3)
	s.store.Close()
	db, err := sql.Open("sqlite", s.db+"?_pragma=recursive_triggers(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		`UPDATE entries SET leaf = x'00'`, `DELETE FROM entries`, `INSERT INTO entries VALUES (9, x'00', zeroblob(32))`,
		`REPLACE INTO entries VALUES (0, x'00', zeroblob(32))`,
		`UPDATE bundles SET bundle = x'00'`, `DELETE FROM bundles`, `REPLACE INTO bundles VALUES (0, x'00')`,
		`UPDATE artifacts SET name = ''`, `DELETE FROM artifacts`,
		`UPDATE nodes SET hash = zeroblob(32)`, `DELETE FROM nodes`, `INSERT INTO nodes VALUES (99, zeroblob(32))`,
	} {
		if _, err := db.Exec(statement); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v, want it refused as append-only", statement, err)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(to)
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantContradiction(t *testing.T, err error, reason string) *ledger.Contradiction {
	t.Helper()
	var c *ledger.Contradiction
	if !errors.As(err, &c) || !strings.Contains(c.Reason, reason) {
		t.Fatalf("open: %v, want a contradiction: %s", err, reason)
	}
	_, verifier := storetest.Keys(t, storetest.Origin, 1)
	for _, msg := range [][]byte{c.Signed, c.Other} {
		if msg == nil {
			continue
		}
		if _, err := ledger.ParseCheckpoint(msg, verifier); err != nil {
			t.Errorf("the proof carries a checkpoint that does not verify: %v", err)
		}
	}
	if c.Signed == nil {
		t.Error("the proof carries no signed checkpoint")
	}
	return c
}

func TestOlderDatabasePutBack(t *testing.T) {
	s := onDisk(t)
	log := s.create(t)
	chain(t, log, 5)
	s.store.Close()
	copyFile(t, s.db, s.db+".old")
	again := reopen(t, filepath.Dir(s.db))
	log, err := ledger.Open(t.Context(), again.store, again.options(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := 5; i < 9; i++ {
		appendOne(t, log, i)
	}
	again.store.Close()
	copyFile(t, s.db+".old", s.db)
	v, openErr := refused(t, filepath.Dir(s.db))
	c := wantContradiction(t, openErr, "signed 9 entries and the store has only 5")
	if c.Size != 5 || c.At != 5 {
		t.Errorf("contradiction at %d of %d, want 5 of 5", c.At, c.Size)
	}
	wantContradiction(t, v.Contradiction, "the store has only 5")
}

func TestAnotherLogPutInPlace(t *testing.T) {
	s, other := onDisk(t), onDisk(t)
	chain(t, s.create(t), 5)
	log := other.create(t)
	for i := range 8 {
		appendOne(t, log, 100+i)
	}
	s.store.Close()
	other.store.Close()

	copyFile(t, other.db, s.db)
	v, openErr := refused(t, filepath.Dir(s.db))
	wantContradiction(t, openErr, "for the first 5 entries and the stored ones have another")
	wantContradiction(t, v.Contradiction, "the stored ones have another")
	if !hasFinding(v, ledger.CheckRoot, "size 1", "") {
		t.Errorf("verify: %v, want the first checkpoint named", v.Findings)
	}

	// With its own checkpoints it is a valid log. Only somebody who kept one
	// of the first log's checkpoints can tell.
	kept, err := os.ReadFile(filepath.Join(s.dir, "latest"))
	if err != nil {
		t.Fatal(err)
	}
	whole := reopen(t, filepath.Dir(other.db))
	log, err = ledger.Open(t.Context(), whole.store, whole.options(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = log.Extends(t.Context(), kept)
	wantContradiction(t, err, "the stored ones have another")

	// A log of another key is none of ours, whatever it holds.
	opt := whole.options(t)
	opt.Signer, opt.Verifier = storetest.Keys(t, storetest.Origin, 2)
	var unusable *ledger.CheckpointError
	if _, err := ledger.Open(t.Context(), whole.store, opt); !errors.As(err, &unusable) || !strings.Contains(err.Error(), "not signed by") {
		t.Errorf("open with another key: %v, want a CheckpointError: not signed by", err)
	}
}

func TestForkedLog(t *testing.T) {
	s := onDisk(t)
	chain(t, s.create(t), 4)
	s.store.Close()
	fork := filepath.Join(filepath.Dir(s.db), "fork.db")
	copyFile(t, s.db, fork)
	left := reopen(t, filepath.Dir(s.db))
	leftLog, err := ledger.Open(t.Context(), left.store, left.options(t))
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), fork)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	right := site{store: store, checkpoints: left.checkpoints}
	rightLog, err := ledger.Open(t.Context(), right.store, right.options(t))
	if err != nil {
		t.Fatal(err)
	}
	appendOne(t, leftLog, 50)
	_, err = rightLog.Append(t.Context(), step(60))
	wantContradiction(t, err, "for the first 5 entries and the stored ones have another")
	if sizes := sizesOf(t, left.checkpoints); len(sizes) != 6 {
		t.Errorf("checkpoints %v; the fork must not have signed one", sizes)
	}
}

func TestTwoSignedCheckpointsContradict(t *testing.T) {
	s, other := onDisk(t), onDisk(t)
	chain(t, s.create(t), 5)
	log := other.create(t)
	for i := range 5 {
		appendOne(t, log, 100+i)
	}
	copyFile(t, filepath.Join(other.dir, "latest"), filepath.Join(s.dir, "latest"))
	_, err := ledger.Open(t.Context(), s.store, s.options(t))
	c := wantContradiction(t, err, "two checkpoints of size 5 have the roots")
	if c.Other == nil || string(c.Other) == string(c.Signed) {
		t.Error("the proof does not carry two checkpoints")
	}
	v, err := ledger.Verify(t.Context(), s.store, s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	c = wantContradiction(t, v.Contradiction, "the stored ones have another")
	if c.Other == nil || string(c.Other) == string(c.Signed) {
		t.Error("the full verification's proof does not carry two checkpoints")
	}
}

func TestCheckpointFilesAltered(t *testing.T) {
	edit := func(name string, change func(string) string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			os.Remove(path)
			if err := os.WriteFile(path, []byte(change(string(data))), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	const folder = "0000000000000/000/"
	const five, six = folder + "0000000000000000005", folder + "0000000000000000006"
	resize := func(s string) string { return strings.Replace(s, "\n6\n", "\n5\n", 1) }
	for _, c := range []struct {
		name       string
		attack     func(t *testing.T, dir string)
		open       string // in Open's error; empty: Open's few reads do not show it
		where, got string // finding of Verify
	}{
		{"the newest's size", edit(six, resize), "invalid signature", "size 6", "invalid signature"},
		{"the latest's size", edit("latest", resize), "invalid signature", "latest", "invalid signature"},
		{"an old one's size", edit(five, func(s string) string { return strings.Replace(s, "\n5\n", "\n4\n", 1) }), "", "size 5", "invalid signature"},
		{"an old one's signature cut off", edit(five, func(s string) string { return s[:strings.Index(s, "—")] }), "", "size 5", "malformed"},
		{"an old one emptied", edit(five, func(string) string { return "" }), "", "size 5", "malformed"},
		{"an old one grown without end", edit(five, func(s string) string { return s + strings.Repeat("x", 1<<20) }), "", "size 5", "want at most"},
		{"the newest under an older one's name", func(t *testing.T, dir string) {
			copyFile(t, filepath.Join(dir, six), filepath.Join(dir, five))
		}, "", "size 5", "says size 6"},
		{"an older one under the newest's name", func(t *testing.T, dir string) {
			copyFile(t, filepath.Join(dir, five), filepath.Join(dir, six))
		}, "says size 5", "size 6", "says size 5"},
		{"the newest removed", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, six)) }, "", "latest", "not kept under its size"},
		{"the latest removed", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "latest")) }, "", "latest", "none"},
		{"all removed", func(t *testing.T, dir string) {
			names, _ := filepath.Glob(filepath.Join(dir, "*"))
			for _, n := range names {
				os.RemoveAll(n)
			}
		}, "no checkpoint is kept outside", "latest", "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := onDisk(t)
			chain(t, s.create(t), 6)
			s.store.Close()
			c.attack(t, s.dir)
			v, openErr := refused(t, filepath.Dir(s.db))
			if c.open == "" && openErr != nil || c.open != "" && (openErr == nil || !strings.Contains(openErr.Error(), c.open)) {
				t.Errorf("open: %v, want %q", openErr, c.open)
			}
			if v.OK() || !hasFinding(v, ledger.CheckNote, c.where, c.got) {
				t.Errorf("verify: %v, want %q at %q", v.Findings, c.got, c.where)
			}
		})
	}
}

func TestCheckpointFileRenamed(t *testing.T) {
	s := onDisk(t)
	chain(t, s.create(t), 3)
	if err := os.Rename(checkpointFile(t, s.dir, 3), filepath.Join(filepath.Dir(checkpointFile(t, s.dir, 3)), "3.old")); err != nil {
		t.Fatal(err)
	}
	_, err := ledger.Open(t.Context(), s.store, s.options(t))
	if err == nil || !strings.Contains(err.Error(), "3.old is not named like a checkpoint") {
		t.Errorf("open: %v, want the file named", err)
	}
}

// TestForgedTailIsNotSigned puts an entry into the database past the newest
// checkpoint, as somebody without the key would. A log with the key must not
// sign it when it is not what its bundle says.
func TestForgedTailIsNotSigned(t *testing.T) {
	for _, c := range []struct{ name, sql, check string }{
		{"artifact", `UPDATE artifacts SET name = 'evil' WHERE idx = 3 AND role = 0`, ledger.CheckIndex},
		{"bundle", `UPDATE bundles SET bundle = x'7b7d' WHERE idx = 3`, ledger.CheckBundle},
		{"node", `UPDATE nodes SET hash = zeroblob(32) WHERE pos = 6`, ledger.CheckNodes},
		{"inner node", `UPDATE nodes SET hash = zeroblob(32) WHERE pos = 5`, ledger.CheckNodes},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := onDisk(t)
			chain(t, s.create(t), 4)
			s.store.Close()
			forger(t, s.db, c.sql)
			os.Remove(filepath.Join(s.dir, "latest"))
			os.Remove(checkpointFile(t, s.dir, 4))
			again := reopen(t, filepath.Dir(s.db))
			_, err := ledger.Open(t.Context(), again.store, again.options(t))
			var bad *ledger.EntryError
			if !errors.As(err, &bad) || bad.Check != c.check || !strings.Contains(bad.Where, "entry 3") {
				t.Errorf("open: %v, want %q at entry 3", err, c.check)
			}
			dir, err := checkpoints.Open(s.dir)
			if err != nil {
				t.Fatal(err)
			}
			if sizes := sizesOf(t, dir); len(sizes) != 4 {
				t.Errorf("checkpoints of sizes %v; want 0 to 3: nothing may have been signed", sizes)
			}
		})
	}
}
