package sqlite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// queries are the statements that run on a log of any size.
func queries() map[string]bool {
	all := map[string]bool{
		sizeQuery: true, thereQuery: true, recordQuery: true, artifactsQuery: true, bundleQuery: true, byBundleQuery: true, byArtifactQuery: true,
		insertEntry: true, insertBundle: true, insertArtifact: true, insertNode: true,
	}
	for count := 1; count <= 64; count *= 2 {
		all[nodesQuery(count)] = true
	}
	return all
}

// TestNoStatementScans asks SQLite for the plan of every statement: each finds
// its rows by a key or an index, and sorts nothing.
func TestNoStatementScans(t *testing.T) {
	s, err := Create(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	scans := func(query string) []string {
		rows, err := s.db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		defer rows.Close()
		var bad []string
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(step, "SCAN") && step != "SCAN CONSTANT ROW" || strings.Contains(step, "TEMP B-TREE") {
				bad = append(bad, step)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return bad
	}
	for query := range queries() {
		if bad := scans(query); len(bad) > 0 {
			t.Errorf("%s: %q", query, bad)
		}
	}
	// The triggers look for the last row of the two tables that grow in order.
	for _, table := range [][2]string{{"entries", "idx"}, {"nodes", "pos"}} {
		query := "SELECT coalesce(max(" + table[1] + ") + 1, 0) FROM " + table[0]
		if !strings.Contains(inOrder(table[0], table[1]), query) {
			t.Errorf("the trigger of %s does not have %q", table[0], query)
		}
		if bad := scans(query); len(bad) > 0 {
			t.Errorf("the trigger of %s: %q", table[0], bad)
		}
	}
	// The check can fail: these scan and sort.
	for _, query := range []string{"SELECT idx FROM artifacts WHERE name = ?", "SELECT idx FROM artifacts WHERE sha256 = ? ORDER BY name"} {
		if len(scans(query)) == 0 {
			t.Errorf("%s: no scan found, want one", query)
		}
	}
}

// TestEveryStatementIsExplained finds the statements in the source, so that
// none is added without a plan. Those of the full check read whole tables.
func TestEveryStatementIsExplained(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	known := queries()
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "check.go" || name == "schema.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, verb := range []string{"SELECT ", "INSERT ", "UPDATE ", "DELETE ", "REPLACE ", "WITH "} {
				if !strings.HasPrefix(strings.ToUpper(text), verb) {
					continue
				}
				found++
				whole := known[text]
				for query := range known {
					whole = whole || strings.HasPrefix(text, "SELECT pos, hash") && strings.HasPrefix(query, text)
				}
				if !whole {
					t.Errorf("%s: %q has no plan in queries()", name, text)
				}
			}
			return true
		})
	}
	if found < 12 {
		t.Errorf("found %d statements in the source, want at least 12", found)
	}
}
