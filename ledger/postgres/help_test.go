package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/postgres"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// waitFor waits until something holds, which it must soon.
func waitFor(t testing.TB, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited for a minute in vain")
		}
	}
}

func options(t testing.TB, c ledger.Checkpoints) ledger.Options {
	t.Helper()
	signer, verifier := storetest.Keys(t, storetest.Origin, 1)
	return ledger.Options{Origin: storetest.Origin, Signer: signer, Verifier: verifier, Checkpoints: c, Index: storetest.Index,
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
}

// verify checks the whole log, of which everything must hold.
func verify(t testing.TB, log *ledger.Log) ledger.Verification {
	t.Helper()
	v, err := log.Verify(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if !v.OK() {
		t.Fatalf("verify: %v, contradiction %v", v.Findings, v.Contradiction)
	}
	return v
}

// holdHead locks the head as a writer does and keeps it until the returned
// function is called.
func holdHead(t testing.TB, url string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"BEGIN", "SELECT FROM weighmaster.format FOR UPDATE"} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	release = func() { conn.Close(context.Background()) }
	t.Cleanup(release)
	return release
}

// waiting says whether a session of the database waits for a lock.
func waiting(t testing.TB, url string) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// create makes a log at a URL.
func create(t testing.TB, url string) *postgres.Store {
	t.Helper()
	s, err := postgres.Create(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
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
