package sqlite

// version is the schema's, kept in PRAGMA user_version. A changed schema gets
// a new number, and an older program refuses the newer file.
const version = 1

// applicationID marks the file as ours, kept in PRAGMA application_id: "WMlg".
const applicationID = 0x574d6c67

// schema makes the tables. Digests and hashes are 32 bytes; idx is the leaf
// index; pos of a node is its storage index (tlog.StoredHashIndex).
//
// The triggers are a seat-belt against mistakes. Who can write the file can
// drop them; the checkpoints outside are the proof.
var schema = []string{
	`CREATE TABLE entries (
	idx INTEGER PRIMARY KEY CHECK (idx >= 0),
	leaf BLOB NOT NULL,
	bundle_sha256 BLOB NOT NULL UNIQUE CHECK (length(bundle_sha256) = 32)
) STRICT`,
	`CREATE TABLE bundles (
	idx INTEGER PRIMARY KEY REFERENCES entries (idx),
	bundle BLOB NOT NULL
) STRICT`,
	`CREATE TABLE artifacts (
	idx INTEGER NOT NULL REFERENCES entries (idx),
	role INTEGER NOT NULL CHECK (role IN (0, 1)),
	pos INTEGER NOT NULL CHECK (pos >= 0),
	sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
	name TEXT NOT NULL,
	PRIMARY KEY (idx, role, pos)
) STRICT, WITHOUT ROWID`,
	`CREATE INDEX artifacts_by_sha256 ON artifacts (sha256, role, idx)`,
	`CREATE TABLE nodes (
	pos INTEGER PRIMARY KEY CHECK (pos >= 0),
	hash BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT`,
	refuse("entries", "UPDATE"), refuse("entries", "DELETE"),
	refuse("bundles", "UPDATE"), refuse("bundles", "DELETE"),
	refuse("artifacts", "UPDATE"), refuse("artifacts", "DELETE"),
	refuse("nodes", "UPDATE"), refuse("nodes", "DELETE"),
	inOrder("entries", "idx"), inOrder("nodes", "pos"),
}

func refuse(table, verb string) string {
	return `CREATE TRIGGER ` + table + `_no_` + verb + ` BEFORE ` + verb + ` ON ` + table + `
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: ` + verb + ` of ` + table + ` refused'); END`
}

func inOrder(table, column string) string {
	return `CREATE TRIGGER ` + table + `_in_order BEFORE INSERT ON ` + table + `
WHEN NEW.` + column + ` IS NOT (SELECT coalesce(max(` + column + `) + 1, 0) FROM ` + table + `)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: ` + table + ` grows at its end'); END`
}
