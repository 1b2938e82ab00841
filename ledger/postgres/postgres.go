package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Store is a [ledger.Store] in one schema of a PostgreSQL database.
type Store struct {
	pool *pgxpool.Pool
	at   location

	// appending makes the writers of this process wait for one another here,
	// where they hold no connection that readers need.
	appending chan struct{}
}

// Create makes the tables of a new log. The schema is made too, unless it is
// there and empty, as for a role that may not make one. A schema that holds
// anything is refused (fs.ErrExist) and not touched.
func Create(ctx context.Context, url string) (*Store, error) {
	s, err := connect(ctx, url)
	if err != nil {
		return nil, err
	}
	if err := s.create(ctx); err != nil {
		s.pool.Close()
		return nil, s.fail("create", err)
	}
	return s, nil
}

func (s *Store) create(ctx context.Context) error {
	return pgx.BeginTxFunc(ctx, s.pool, transaction, func(tx pgx.Tx) error {
		there, err := s.vacant(ctx, tx)
		if err != nil {
			return err
		}
		if !there {
			if _, err := tx.Exec(ctx, s.sql("CREATE SCHEMA @")); err != nil {
				return madeMeanwhile(err)
			}
		}
		for _, statement := range schema(s.at.schema) {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return madeMeanwhile(err)
			}
		}
		return nil
	})
}

// Vacant says, as an error or nil, whether a log could be made at a URL: the
// server can be reached and is fit, and the schema is not there or empty. It
// makes nothing.
func Vacant(ctx context.Context, url string) error {
	s, err := connect(ctx, url)
	if err != nil {
		return err
	}
	defer s.pool.Close()
	if _, err := s.vacant(ctx, s.pool); err != nil {
		return s.fail("create", err)
	}
	return nil
}

// vacant refuses a schema that holds anything, and says whether it is there.
func (s *Store) vacant(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (there bool, err error) {
	var filled bool
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1)
OR EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1)`, s.at.schema).Scan(&there, &filled)
	if err != nil {
		return false, err
	}
	if filled {
		return true, fmt.Errorf("the schema %w and is not empty; open it, or choose another with ?schema=", fs.ErrExist)
	}
	return there, nil
}

// madeMeanwhile tells when another process was quicker to make the same log.
func madeMeanwhile(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		switch refused.Code {
		case "42P06", "42P07", "23505": // duplicate schema, duplicate table, unique violation in the catalogue
			return fmt.Errorf("another process makes a log here now: %w: %w", fs.ErrExist, err)
		}
	}
	return err
}

// Open opens a log that [Create] made. It never creates: a schema that is not
// there (fs.ErrNotExist), one without a log, one of another version, and tables
// with other columns are errors.
func Open(ctx context.Context, url string) (*Store, error) {
	s, err := connect(ctx, url)
	if err != nil {
		return nil, err
	}
	if err := s.checkMarks(ctx); err != nil {
		s.pool.Close()
		return nil, s.fail("open", err)
	}
	return s, nil
}

func (s *Store) checkMarks(ctx context.Context) error {
	var there bool
	if err := s.pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", within(s.at.schema, "@.format")).Scan(&there); err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("no log is there: table format: %w; opening never creates a log, check the URL or run init", fs.ErrNotExist)
	}
	var got int
	if err := s.pool.QueryRow(ctx, s.sql("SELECT version FROM @.format")).Scan(&got); err != nil {
		return fmt.Errorf("table format: version: %w", err)
	}
	if got != version {
		return fmt.Errorf("version %d of the tables, want %d: another version of the program made them", got, version)
	}
	differences, err := s.differences(ctx, "table ", "column ")
	if err != nil {
		return err
	}
	for _, d := range differences {
		if d.ours {
			return fmt.Errorf("%s: got %s, want %s: something changed the tables; restore them from a backup", d.what, d.got, d.want)
		}
	}
	return nil
}

// connect opens a pool of connections, of which the first is made now.
func connect(ctx context.Context, url string) (*Store, error) {
	at, err := parse(url)
	if err != nil {
		return nil, err
	}
	s := &Store{at: at, appending: make(chan struct{}, 1)}
	at.config.AfterConnect = checkServer
	if s.pool, err = pgxpool.NewWithConfig(ctx, at.config); err != nil {
		return nil, s.fail("connect", err)
	}
	if err := s.pool.Ping(ctx); err != nil {
		s.pool.Close()
		return nil, s.fail("connect", err)
	}
	return s, nil
}

// oldest is the oldest server that is supported, as server_version_num.
const oldest = 14_00_00

// checkServer refuses a server on which an append would not be durable, or that
// may lag behind.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	var number int
	var standby bool
	var now durability
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),
current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')`).
		Scan(&number, &standby, &now.synchronousCommit, &now.fsync, &now.fullPageWrites)
	if err != nil {
		return err
	}
	if number < oldest {
		return fmt.Errorf("the server is PostgreSQL %d, want %d or newer", number/10000, oldest/10000)
	}
	if standby {
		return errors.New("the server is a standby, which may lag: a log that lags looks like one whose end was cut off; connect to the primary (target_session_attrs=read-write)")
	}
	return now.check()
}

// durability is what must be on so that a commit is on the disk.
type durability struct{ synchronousCommit, fsync, fullPageWrites string }

func (d durability) check() error {
	if d.fsync != "on" || d.fullPageWrites != "on" {
		return fmt.Errorf("the server has fsync = %s and full_page_writes = %s, want both on: a loss of power could take back what was acknowledged", d.fsync, d.fullPageWrites)
	}
	if d.synchronousCommit != "on" && d.synchronousCommit != "remote_apply" {
		return fmt.Errorf("the session has synchronous_commit = %s, want on or remote_apply: a crash could take back what was acknowledged", d.synchronousCommit)
	}
	return nil
}

func (s *Store) sql(query string) string { return within(s.at.schema, query) }

// String names the log without its password.
func (s *Store) String() string { return s.at.name }

// Close closes the connections.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}
