package postgres

import (
	"fmt"
	"strings"

	"github.com/weighmaster/weighmaster/ledger"
)

// version is the tables', kept in the one row of the table format. Changed
// tables get a new number, and another program refuses them.
const version = 1

// tables in the order in which they are made. Digests and hashes are 32 bytes;
// idx is the leaf index; pos of a node is its storage index
// (tlog.StoredHashIndex).
var tables = []string{"format", "entries", "bundles", "artifacts", "nodes"}

// schema returns the statements that make a log in a PostgreSQL schema that
// exists. @ stands for the schema in them.
func schema(name string) []string {
	list := []string{
		// Its one row is the head that writers lock.
		`CREATE TABLE @.format (
	id integer PRIMARY KEY CHECK (id = 1),
	version integer NOT NULL
)`,
		fmt.Sprintf(`INSERT INTO @.format (id, version) VALUES (1, %d)`, version),
		fmt.Sprintf(`CREATE TABLE @.entries (
	idx bigint PRIMARY KEY CHECK (idx >= 0 AND idx < %d),
	leaf bytea NOT NULL CHECK (octet_length(leaf) <= %d),
	bundle_sha256 bytea NOT NULL UNIQUE CHECK (octet_length(bundle_sha256) = 32)
)`, int64(ledger.MaxEntries), ledger.MaxLeafBytes),
		fmt.Sprintf(`CREATE TABLE @.bundles (
	idx bigint PRIMARY KEY REFERENCES @.entries (idx),
	bundle bytea NOT NULL CHECK (octet_length(bundle) <= %d)
)`, ledger.MaxBundleBytes),
		fmt.Sprintf(`CREATE TABLE @.artifacts (
	idx bigint REFERENCES @.entries (idx),
	role smallint CHECK (role >= 0 AND role <= 1),
	pos integer CHECK (pos >= 0),
	sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
	name bytea NOT NULL CHECK (octet_length(name) <= %d),
	PRIMARY KEY (idx, role, pos)
)`, ledger.MaxNameBytes),
		`CREATE INDEX artifacts_by_sha256 ON @.artifacts (sha256, role, idx)`,
		`CREATE TABLE @.nodes (
	pos bigint PRIMARY KEY CHECK (pos >= 0),
	hash bytea NOT NULL CHECK (octet_length(hash) = 32)
)`,
		function("refuse", refuseBody),
		function("entries_in_order", inOrderBody("entries", "idx")),
		function("nodes_in_order", inOrderBody("nodes", "pos")),
		inOrder("entries"), inOrder("nodes"),
	}
	for _, table := range tables {
		list = append(list,
			`CREATE TRIGGER `+table+`_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON @.`+table+` FOR EACH STATEMENT EXECUTE FUNCTION @.refuse()`,
			// Also in a session that replays a replica's changes.
			`ALTER TABLE @.`+table+` ENABLE ALWAYS TRIGGER `+table+`_append_only`)
	}
	for i, statement := range list {
		list[i] = within(name, statement)
	}
	return list
}

// within puts a schema's name, which needs no more quoting than this, for @.
func within(schema, sql string) string { return strings.ReplaceAll(sql, "@", `"`+schema+`"`) }

func function(name, body string) string {
	return `CREATE FUNCTION @.` + name + `() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $body$` + body + `$body$`
}

const refuseBody = `
BEGIN
	RAISE EXCEPTION 'the ledger is append-only: % of % refused', TG_OP, TG_TABLE_NAME;
END
`

func inOrder(table string) string {
	return `CREATE TRIGGER ` + table + `_in_order AFTER INSERT ON @.` + table + ` REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION @.` + table + `_in_order()`
}

// inOrderBody lets a table grow only at its end and without gaps.
func inOrderBody(table, column string) string {
	return strings.NewReplacer("TABLE", "@."+table, "NAME", table, "COLUMN", column).Replace(`
DECLARE
	first bigint;
	last bigint;
	rows bigint;
BEGIN
	SELECT min(COLUMN), max(COLUMN), count(*) INTO first, last, rows FROM added;
	IF rows > 0 AND (last - first + 1 <> rows
		OR first <> coalesce((SELECT max(COLUMN) + 1 FROM TABLE WHERE COLUMN < first), 0)
		OR last < (SELECT max(COLUMN) FROM TABLE)) THEN
		RAISE EXCEPTION 'the ledger is append-only: NAME grows at its end';
	END IF;
	RETURN NULL;
END
`)
}
