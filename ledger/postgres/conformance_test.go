package postgres_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/postgres"
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

func create(t testing.TB, url string) *postgres.Store {
	t.Helper()
	s, err := postgres.Create(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestDurable(t *testing.T) {
	server := postgrestest.Shared(t)
	url := server.URL(server.Database(t))
	storetest.Durable(t, func(t *testing.T) ledger.Store { return create(t, url) }, func(t *testing.T) ledger.Store { return open(t, url) })
}

func open(t testing.TB, url string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
