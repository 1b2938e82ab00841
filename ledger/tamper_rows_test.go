package ledger_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/faulttest"
)

// table is a table as the database describes it.
type table struct {
	name    string
	columns []string
	key     []string // columns of the primary key
	rows    [][]any
}

// tables reads every table, with every column that the schema has today: a
// column that is added tomorrow is tampered with tomorrow.
func tables(t *testing.T, path string) []table {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var list []table
	for _, r := range query(t, db, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name") {
		tb := table{name: r[0].(string)}
		for _, c := range query(t, db, "SELECT name, pk FROM pragma_table_info('"+tb.name+"')") {
			tb.columns = append(tb.columns, c[0].(string))
			if c[1].(int64) > 0 {
				tb.key = append(tb.key, c[0].(string))
			}
		}
		tb.rows = query(t, db, fmt.Sprintf("SELECT %s FROM %s ORDER BY %s", strings.Join(tb.columns, ", "), tb.name, strings.Join(tb.key, ", ")))
		list = append(list, tb)
	}
	return list
}

func query(t *testing.T, db *sql.DB, text string) [][]any {
	t.Helper()
	rows, err := db.Query(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var list [][]any
	for rows.Next() {
		r, to := make([]any, len(names)), make([]any, len(names))
		for i := range r {
			to[i] = &r[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func literal(v any) string {
	switch v := v.(type) {
	case []byte:
		return fmt.Sprintf("x'%x'", v)
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	}
	return fmt.Sprint(v)
}

// other is a value of the same type.
func other(v any) any {
	switch v := v.(type) {
	case []byte:
		w := bytes.Clone(v)
		w[len(w)/2] ^= 1
		return w
	case string:
		return v + " "
	case int64:
		return v + 1000
	}
	panic(fmt.Sprintf("a column of type %T", v))
}

// aside is a third value, which makes room in a unique column.
func aside(v any) any {
	if v, ok := v.([]byte); ok {
		w := bytes.Clone(v)
		w[0] ^= 0x80
		return w
	}
	return other(other(v))
}

// where picks a row by its key.
func (tb table) where(row []any) string {
	var parts []string
	for i, c := range tb.columns {
		for _, k := range tb.key {
			if c == k {
				parts = append(parts, c+" = "+literal(row[i]))
			}
		}
	}
	return " WHERE " + strings.Join(parts, " AND ")
}

// entry is the entry that a row belongs to.
func (tb table) entry(row []any) int64 {
	n := row[0].(int64)
	if tb.name == "nodes" {
		level, at := tlog.SplitStoredHashIndex(n)
		n = (at+1)<<level - 1 // the last one below the node completed it
	}
	return n
}

// TestEveryRowEdited changes every column of every table in the first row, one
// in the middle and the last one, swaps every column's value with another
// row's, and removes and doubles rows. Each must be found, and the entry or the
// table named.
func TestEveryRowEdited(t *testing.T) {
	s := onDisk(t)
	chain(t, s.create(t), 12)
	s.store.Close()
	const ignore = "PRAGMA ignore_check_constraints = 1"
	edits, seen := 0, map[string]int{}
	try := func(name string, tb table, row []any, statements ...string) {
		t.Helper()
		edits++
		dir := faulttest.TempDir(t)
		defer os.RemoveAll(dir)
		db := filepath.Join(dir, "ledger.db")
		copyFile(t, s.db, db)
		forger(t, db, append([]string{ignore}, statements...)...)
		again := reopenAt(t, db, s.dir)
		defer again.store.Close()
		opt := again.options(t)
		opt.Signer = nil
		v, err := ledger.Verify(context.Background(), again.store, opt)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if v.OK() {
			t.Errorf("%s: not detected", name)
			return
		}
		where := fmt.Sprintf("entry %d", tb.entry(row))
		for _, f := range v.Findings {
			if (f.Where == where || strings.HasPrefix(f.Where, where+",")) && f.Got != f.Want {
				return
			}
		}
		if !strings.Contains(fmt.Sprint(v.Findings), tb.name) {
			t.Errorf("%s: want %s or table %s named, got %v", name, where, tb.name, v.Findings)
		}
	}
	for _, tb := range tables(t, s.db) {
		if len(tb.rows) < 12 || len(tb.key) == 0 {
			t.Fatalf("table %s: %d rows, key %v", tb.name, len(tb.rows), tb.key)
		}
		for place, row := range map[string][]any{"first": tb.rows[0], "middle": tb.rows[len(tb.rows)/2], "last": tb.rows[len(tb.rows)-1]} {
			for i, column := range tb.columns {
				seen[tb.name+"."+column]++
				try(fmt.Sprintf("%s.%s, %s row", tb.name, column, place), tb, row,
					fmt.Sprintf("UPDATE %s SET %s = %s%s", tb.name, column, literal(other(row[i])), tb.where(row)))
				swap := tb.rows[len(tb.rows)/3]
				if literal(swap[i]) == literal(row[i]) || keyed(tb, column) {
					continue
				}
				// Out of the way of unique columns first.
				try(fmt.Sprintf("%s.%s, %s row swapped with another", tb.name, column, place), tb, row,
					fmt.Sprintf("UPDATE %s SET %s = %s%s", tb.name, column, literal(aside(swap[i])), tb.where(swap)),
					fmt.Sprintf("UPDATE %s SET %s = %s%s", tb.name, column, literal(swap[i]), tb.where(row)),
					fmt.Sprintf("UPDATE %s SET %s = %s%s", tb.name, column, literal(row[i]), tb.where(swap)))
			}
			try(fmt.Sprintf("%s, %s row removed", tb.name, place), tb, row, "DELETE FROM "+tb.name+tb.where(row))
			double := append([]any{other(row[0])}, row[1:]...)
			for i, column := range tb.columns {
				if column == "bundle_sha256" {
					double[i] = other(double[i])
				}
			}
			var values []string
			for _, v := range double {
				values = append(values, literal(v))
			}
			named := double
			if tb.name == "entries" {
				named = []any{int64(12)} // the first that is missing before it
			}
			try(fmt.Sprintf("%s, %s row doubled at the end", tb.name, place), tb, named, fmt.Sprintf("INSERT INTO %s VALUES (%s)", tb.name, strings.Join(values, ", ")))
		}
	}
	if len(seen) < 12 {
		t.Errorf("columns %v, want at least 12", seen)
	}
	fmt.Printf("ledger rows: %d edits of %d columns: %d detected and named\n", edits, len(seen), edits)
}

func keyed(tb table, column string) bool {
	for _, k := range tb.key {
		if k == column {
			return true
		}
	}
	return false
}
