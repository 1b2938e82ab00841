package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weighmaster/weighmaster/ledger"
)

// storeError is an error of this package: where, doing what, and the reason
// with every password hidden.
type storeError struct {
	text  string
	cause error
}

func (e *storeError) Error() string { return e.text }
func (e *storeError) Unwrap() error { return e.cause }

// fail says where and what failed and what to do.
func (s *Store) fail(doing string, err error) error {
	err = lostRace(err)
	text := fmt.Sprintf("ledger/postgres: %s: %s: %v%s", s.at.name, doing, err, advice(err))
	return &storeError{strings.ReplaceAll(s.at.hide(text), "\n\t", " "), err}
}

// lostRace maps the errors by which a server says that it undid the whole
// transaction because of another one.
func lostRace(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "40001" || refused.Code == "40P01") {
		return fmt.Errorf("%w: %w", ledger.ErrConflict, err)
	}
	return err
}

// refused says whether the server answered that it undid the transaction. An
// answer that ends the session may come after it was committed.
func refused(err error) bool {
	var answer *pgconn.PgError
	return errors.Is(err, pgx.ErrTxCommitRollback) || errors.As(err, &answer) && answer.SeverityUnlocalized == "ERROR"
}

// advice is what to do next about an error of the server (PostgreSQL's manual,
// appendix A).
func advice(err error) string {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return ""
	}
	switch code := refused.Code; {
	case code == "42501":
		return "; grant the role USAGE of the schema, SELECT and INSERT of its tables, and UPDATE of the table format"
	case code == "42P01", code == "42703":
		return "; the tables are not those of a log: restore them, or check the URL"
	case code == "55P03":
		return "; another writer holds the log's head for longer than lock_timeout: try again, or look for it in pg_stat_activity"
	case code == "25006":
		return "; connect to the primary, which takes writes"
	case code == "57014":
		return "; statement_timeout is too short for this, or somebody cancelled it"
	case code == "57P01", code == "57P02", code == "57P03":
		return "; the server stops or starts: try again when it is up"
	case code[:2] == "53":
		return "; give the server room and try again"
	case code[:2] == "28":
		return "; check the user and the password (PGPASSWORD or ~/.pgpass)"
	}
	return ""
}
