package postgres_test

import (
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/postgres"
	"github.com/weighmaster/weighmaster/ledger/postgres/postgrestest"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

func TestConformance(t *testing.T) {
	server := postgrestest.Start(t)
	storetest.Run(t, func(t *testing.T) ledger.Store { return create(t, server) })
}

// create makes a log in a database of its own.
func create(t testing.TB, server *postgrestest.Server) *postgres.Store {
	t.Helper()
	s, err := postgres.Create(t.Context(), server.URL(server.Database(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
