// Package postgres keeps logs in a PostgreSQL database (github.com/jackc/pgx),
// for teams that append to one log from several machines.
//
// A log is named by a URL, postgres://user@host:port/database?schema=name. Each
// log has a schema of its own, "weighmaster" unless the URL names another, so a
// database can hold several. All other parts and parameters are those of
// PostgreSQL's URLs (libpq, section 34.1.1.2), and the environment variables of
// libpq count where the URL is silent. A password is better kept out of the URL,
// which other users of the machine can see: in ~/.pgpass or PGPASSWORD. No error
// of this package repeats one.
//
// Servers of version 14 and newer will do.
//
// Writers wait for one another at one row, the log's head, which they lock
// (SELECT … FOR UPDATE) at READ COMMITTED before they read how long the log is.
// An append counts as durable only on a server that writes through: fsync,
// full_page_writes and synchronous_commit must be on, which every connection and
// every append checks. A standby is refused, also for reading: it lags, and a log
// that lags looks like one whose end was cut off.
//
// Digests, leaves, bundles and names are bytes (bytea), so that neither the
// encoding nor the collation of the database matters, and names may hold any
// character.
//
// Triggers refuse UPDATE, DELETE and TRUNCATE. They are a seat-belt: who owns the
// tables can take them away. The proof is in the checkpoints, which are never
// kept in the database. Give the roles that append no more than they need: USAGE
// of the schema, SELECT and INSERT of its tables, and UPDATE of the table format,
// without which the head cannot be locked. With the extension amcheck in the
// database, and EXECUTE of its functions for the role, a verification looks into
// every page of the tables and indexes, too.
package postgres
