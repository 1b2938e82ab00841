package postgres_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/postgres/postgrestest"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

func TestConformance(t *testing.T) {
	server := postgrestest.Shared(t)
	database, n := server.Database(t), 0
	storetest.Run(t, func(t *testing.T) ledger.Store {
		n++
		return create(t, server.URL(database, fmt.Sprint("schema=log", n)))
	})
}

// TestConformanceUnderOddSettings runs the suite in a database whose encoding
// and settings are all others than one would hope for.
func TestConformanceUnderOddSettings(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t, "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	for _, setting := range []string{
		"default_transaction_isolation = serializable", "default_transaction_read_only = on", "default_transaction_deferrable = on",
		"synchronous_commit = off", "search_path = public", "standard_conforming_strings = off", "bytea_output = escape", "client_encoding = latin1",
		"row_security = on", "plan_cache_mode = force_generic_plan", "lock_timeout = '1ms'", "timezone = 'Asia/Kathmandu'", "check_function_bodies = off",
		"quote_all_identifiers = on", "default_toast_compression = pglz", "session_replication_role = replica",
	} {
		server.Exec(t, "postgres", "ALTER DATABASE "+database+" SET "+setting)
	}
	// What would take the place of ours if names were written without a schema.
	server.Exec(t, database, "SET default_transaction_read_only = off", "CREATE TABLE public.entries (idx text)", "CREATE FUNCTION public.max(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 7::bigint'")
	n := 0
	storetest.Run(t, func(t *testing.T) ledger.Store {
		n++
		return create(t, server.URL(database, fmt.Sprint("schema=log", n)))
	})
}

func TestDurable(t *testing.T) {
	server := postgrestest.Shared(t)
	url := server.URL(server.Database(t))
	storetest.Durable(t, func(t *testing.T) ledger.Store { return create(t, url) }, func(t *testing.T) ledger.Store { return open(t, url) })
}
