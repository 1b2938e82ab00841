package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/weighmaster/weighmaster/ledger"
)

// catalog asks the server for everything in the schema that could change what
// its tables hold or hide: a name and a definition, as the server spells it.
const catalog = `WITH ours AS (SELECT c.* FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1)
SELECT 'table ' || relname, format('kind %s, persistence %s, row security %s, rules %s, children %s', relkind, relpersistence, relrowsecurity,
	EXISTS (SELECT FROM pg_rewrite WHERE ev_class = ours.oid), EXISTS (SELECT FROM pg_inherits WHERE ours.oid IN (inhparent, inhrelid)))
FROM ours WHERE relkind <> 'i'
UNION ALL
SELECT format('column %s.%s', relname, attname), format('%s %s%s%s', attnum, format_type(atttypid, atttypmod),
	CASE WHEN attnotnull THEN ' not null' ELSE '' END, CASE WHEN atthasdef THEN ' default' ELSE '' END)
FROM ours JOIN pg_attribute ON attrelid = ours.oid WHERE relkind <> 'i' AND attnum > 0 AND NOT attisdropped
UNION ALL
SELECT format('constraint %s.%s', relname, conname), pg_get_constraintdef(o.oid)
FROM ours JOIN pg_constraint o ON conrelid = ours.oid WHERE contype <> 'n'
UNION ALL
SELECT 'index ' || relname, pg_get_indexdef(ours.oid) || CASE WHEN indisvalid AND indisready AND indislive THEN '' ELSE ', not valid' END
FROM ours JOIN pg_index ON indexrelid = ours.oid
UNION ALL
SELECT format('trigger %s.%s', relname, tgname), pg_get_triggerdef(t.oid) || ' enabled ' || tgenabled::text
FROM ours JOIN pg_trigger t ON tgrelid = ours.oid WHERE NOT tgisinternal
UNION ALL
SELECT format('trigger %s.%s', relname, conname), 'of the constraint, enabled ' || tgenabled::text
FROM ours JOIN pg_trigger t ON tgrelid = ours.oid LEFT JOIN pg_constraint o ON o.oid = tgconstraint WHERE tgisinternal AND tgenabled <> 'O'
UNION ALL
SELECT 'function ' || proname, format('%s %s%s', array_to_string(proconfig, ','), CASE WHEN prosecdef THEN 'security definer ' ELSE '' END, prosrc)
FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = $1`

// definitions are what catalog answers for the tables of this version; @ stands
// for the schema.
func definitions() map[string]string {
	list := map[string]string{
		"column format.id":                               "1 integer not null",
		"column format.version":                          "2 integer not null",
		"column entries.idx":                             "1 bigint not null",
		"column entries.leaf":                            "2 bytea not null",
		"column entries.bundle_sha256":                   "3 bytea not null",
		"column bundles.idx":                             "1 bigint not null",
		"column bundles.bundle":                          "2 bytea not null",
		"column artifacts.idx":                           "1 bigint not null",
		"column artifacts.role":                          "2 smallint not null",
		"column artifacts.pos":                           "3 integer not null",
		"column artifacts.sha256":                        "4 bytea not null",
		"column artifacts.name":                          "5 bytea not null",
		"column nodes.pos":                               "1 bigint not null",
		"column nodes.hash":                              "2 bytea not null",
		"index artifacts_by_sha256":                      "CREATE INDEX artifacts_by_sha256 ON @.artifacts USING btree (sha256, role, idx)",
		"index artifacts_pkey":                           "CREATE UNIQUE INDEX artifacts_pkey ON @.artifacts USING btree (idx, role, pos)",
		"index bundles_pkey":                             "CREATE UNIQUE INDEX bundles_pkey ON @.bundles USING btree (idx)",
		"index entries_pkey":                             "CREATE UNIQUE INDEX entries_pkey ON @.entries USING btree (idx)",
		"index entries_bundle_sha256_key":                "CREATE UNIQUE INDEX entries_bundle_sha256_key ON @.entries USING btree (bundle_sha256)",
		"index format_pkey":                              "CREATE UNIQUE INDEX format_pkey ON @.format USING btree (id)",
		"index nodes_pkey":                               "CREATE UNIQUE INDEX nodes_pkey ON @.nodes USING btree (pos)",
		"constraint artifacts.artifacts_idx_fkey":        "FOREIGN KEY (idx) REFERENCES @.entries(idx)",
		"constraint artifacts.artifacts_name_check":      fmt.Sprintf("CHECK ((octet_length(name) <= %d))", ledger.MaxNameBytes),
		"constraint artifacts.artifacts_pkey":            "PRIMARY KEY (idx, role, pos)",
		"constraint artifacts.artifacts_pos_check":       "CHECK ((pos >= 0))",
		"constraint artifacts.artifacts_role_check":      "CHECK (((role >= 0) AND (role <= 1)))",
		"constraint artifacts.artifacts_sha256_check":    "CHECK ((octet_length(sha256) = 32))",
		"constraint bundles.bundles_bundle_check":        fmt.Sprintf("CHECK ((octet_length(bundle) <= %d))", ledger.MaxBundleBytes),
		"constraint bundles.bundles_idx_fkey":            "FOREIGN KEY (idx) REFERENCES @.entries(idx)",
		"constraint bundles.bundles_pkey":                "PRIMARY KEY (idx)",
		"constraint entries.entries_bundle_sha256_check": "CHECK ((octet_length(bundle_sha256) = 32))",
		"constraint entries.entries_bundle_sha256_key":   "UNIQUE (bundle_sha256)",
		"constraint entries.entries_idx_check":           fmt.Sprintf("CHECK (((idx >= 0) AND (idx < '%d'::bigint)))", int64(ledger.MaxEntries)),
		"constraint entries.entries_leaf_check":          fmt.Sprintf("CHECK ((octet_length(leaf) <= %d))", ledger.MaxLeafBytes),
		"constraint entries.entries_pkey":                "PRIMARY KEY (idx)",
		"constraint format.format_id_check":              "CHECK ((id = 1))",
		"constraint format.format_pkey":                  "PRIMARY KEY (id)",
		"constraint nodes.nodes_hash_check":              "CHECK ((octet_length(hash) = 32))",
		"constraint nodes.nodes_pkey":                    "PRIMARY KEY (pos)",
		"constraint nodes.nodes_pos_check":               "CHECK ((pos >= 0))",
		"trigger entries.entries_in_order":               "CREATE TRIGGER entries_in_order AFTER INSERT ON @.entries REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION @.entries_in_order() enabled O",
		"trigger nodes.nodes_in_order":                   "CREATE TRIGGER nodes_in_order AFTER INSERT ON @.nodes REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION @.nodes_in_order() enabled O",
		"function refuse":                                "search_path=pg_catalog " + refuseBody,
		"function entries_in_order":                      "search_path=pg_catalog " + inOrderBody("entries", "idx"),
		"function nodes_in_order":                        "search_path=pg_catalog " + inOrderBody("nodes", "pos"),
	}
	for _, table := range tables {
		list["table "+table] = "kind r, persistence p, row security f, rules f, children f"
		list["trigger "+table+"."+table+"_append_only"] = "CREATE TRIGGER " + table + "_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON @." + table + " FOR EACH STATEMENT EXECUTE FUNCTION @.refuse() enabled A"
	}
	return list
}

// difference is something in the schema that is not as Create made it.
type difference struct {
	what, got, want string
	ours            bool // of a table that Create makes
}

// differences compares the catalogue with what Create made; only what begins
// with one of the prefixes if there are any.
func (s *Store) differences(ctx context.Context, prefixes ...string) ([]difference, error) {
	var quoted string
	if err := s.pool.QueryRow(ctx, "SELECT quote_ident($1)", s.at.schema).Scan(&quoted); err != nil {
		return nil, err
	}
	want := definitions()
	asked := func(what string) bool {
		return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(what, p) })
	}
	rows, err := s.pool.Query(ctx, catalog, s.at.schema)
	if err != nil {
		return nil, err
	}
	var list []difference
	var what, got string
	_, err = pgx.ForEachRow(rows, []any{&what, &got}, func() error {
		expected, known := want[what]
		delete(want, what)
		switch {
		case !asked(what):
		case !known:
			list = append(list, difference{what, first(got), "nothing that Create did not make", ofOurs(what)})
		case got != spelled(what, expected, s.at.schema, quoted):
			list = append(list, difference{what, first(got), first(strings.ReplaceAll(expected, "@", quoted)), true})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for what, expected := range want {
		if asked(what) {
			list = append(list, difference{what, "nothing", first(strings.ReplaceAll(expected, "@", quoted)), true})
		}
	}
	slices.SortFunc(list, func(a, b difference) int {
		return cmp.Or(cmp.Compare(rank(a.what), rank(b.what)), strings.Compare(a.what, b.what))
	})
	return list, nil
}

// rank puts tables before what they consist of.
func rank(what string) int {
	if strings.HasPrefix(what, "table ") {
		return 0
	}
	return 1
}

// spelled puts the schema into a definition: as we wrote it in a function's
// body, as the server quotes it elsewhere.
func spelled(what, definition, schema, quoted string) string {
	if strings.HasPrefix(what, "function ") {
		return within(schema, definition)
	}
	return strings.ReplaceAll(definition, "@", quoted)
}

func ofOurs(what string) bool {
	_, name, _ := strings.Cut(what, " ")
	table, _, _ := strings.Cut(name, ".")
	return slices.Contains(tables, table)
}

// first returns the first line of a definition that says something.
func first(definition string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(definition), "\n")
	return line
}
