package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/memory"
	"github.com/weighmaster/weighmaster/ledger/postgres"
	"github.com/weighmaster/weighmaster/ledger/postgres/postgrestest"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// TestConnectionCut cuts the connection of an append at each of its messages:
// before the server gets it, and after the server answered and nobody heard.
// The append must return an error, and have happened as a whole or not at all,
// which ByBundle tells; only when the answer to COMMIT is lost, it happened.
func TestConnectionCut(t *testing.T) {
	server := postgrestest.Shared(t)
	proxy := postgrestest.NewProxy(t, server)
	name := server.Database(t)
	direct := create(t, server.URL(name))
	size, cuts, persisted := int64(0), 0, 0
	for _, when := range []postgrestest.When{postgrestest.Before, postgrestest.After} {
		for n := 1; ; n++ {
			s, err := postgres.Open(t.Context(), proxy.URL(name, "pool_max_conns=1"))
			if err != nil {
				t.Fatal(err)
			}
			entries, nodes := storetest.Batch(t, direct, size, 3, "batch of three")
			for i := range entries { // another bundle each time, with the same nodes: a store computes none
				fresh, _ := storetest.Batch(t, direct, size, 1, t.Name()+string(rune('a'+i))+time.Now().String())
				entries[i].Bundle, entries[i].Record.Bundle = fresh[0].Bundle, fresh[0].Record.Bundle
			}
			proxy.Cut(n, when)
			err = s.Append(t.Context(), size, entries, nodes)
			at := proxy.Fired()
			s.Close()
			if at == "" {
				if err != nil {
					t.Fatalf("append without a cut: %v", err)
				}
				size += 3
				break
			}
			cuts++
			happened := wholeOrNot(t, direct, entries)
			if err == nil || errors.Is(err, ledger.ErrConflict) || errors.Is(err, ledger.ErrDuplicate) {
				t.Errorf("cut at message %d (%q): %v, want an error that does not say that nothing happened", n, at, err)
			}
			if want := when == postgrestest.After && at == "commit"; happened != want {
				t.Errorf("cut at message %d (%q, %v): it happened: %v, want %v", n, at, when, happened, want)
			}
			if happened {
				persisted++
				size += 3
				wantRefused(t, "the lost answer", err, "which happened though its answer was lost")
			} else if at == "commit" {
				wantRefused(t, "the lost COMMIT", err, "which did not happen")
			}
			if got, err := direct.Size(t.Context()); err != nil || got != size {
				t.Fatalf("cut at message %d (%q): size %d, %v; want %d", n, at, got, err, size)
			}
			if findings, err := direct.Check(t.Context()); err != nil || len(findings) != 0 {
				t.Fatalf("cut at message %d (%q): check: %v, %v", n, at, findings, err)
			}
		}
	}
	if cuts < 10 || persisted != 1 {
		t.Errorf("%d cuts, %d persisted but reported lost; want at least 10 and 1", cuts, persisted)
	}
	t.Logf("%d connections cut, %d appends persisted but reported lost, %d entries", cuts, persisted, size)
}

// wholeOrNot says whether all of the entries are there; some are a failure.
func wholeOrNot(t *testing.T, s ledger.Store, entries []ledger.NewEntry) bool {
	t.Helper()
	there := 0
	for _, e := range entries {
		switch _, err := s.ByBundle(t.Context(), e.Record.Bundle); {
		case err == nil:
			there++
		case !errors.Is(err, ledger.ErrNotFound):
			t.Fatal(err)
		}
	}
	if there != 0 && there != len(entries) {
		t.Fatalf("%d of %d entries are there", there, len(entries))
	}
	return there != 0
}

// TestLostAnswer loses the answer to COMMIT under a log: the append fails, and
// appending the same bundle again finds the entry and covers it.
func TestLostAnswer(t *testing.T) {
	server := postgrestest.Shared(t)
	proxy := postgrestest.NewProxy(t, server)
	s := create(t, proxy.URL(server.Database(t)))
	log, err := ledger.Create(t.Context(), s, options(t, memory.NewCheckpoints()))
	if err != nil {
		t.Fatal(err)
	}
	bundle := storetest.Bundle("the only one", []string{"file"}, nil)
	lost := false
	for n := 1; !lost; n++ { // until it is the answer to COMMIT that is cut
		proxy.Cut(n, postgrestest.After)
		_, err := log.Append(t.Context(), bundle)
		at := proxy.Fired()
		if err == nil {
			t.Fatalf("cut at %q: no error", at)
		}
		lost = at == "commit"
	}
	e, err := log.Append(t.Context(), bundle)
	if err != nil || !e.Existed || e.Index != 0 {
		t.Fatalf("again: entry %d, existed %v, %v; want entry 0 that existed", e.Index, e.Existed, err)
	}
	if v := verify(t, log); v.Size != 1 || v.Checkpoints != 3 { // of sizes 0 and 1, and the latest
		t.Errorf("%d entries, %d checkpoints; want 1 and 3", v.Size, v.Checkpoints)
	}
}

// TestCommitOnItsWay loses the connection while the server still works on COMMIT.
// Append waits for it: what ByBundle says afterwards does not change any more.
func TestCommitOnItsWay(t *testing.T) {
	server := postgrestest.Shared(t)
	proxy := postgrestest.NewProxy(t, server)
	name := server.Database(t)
	direct := create(t, server.URL(name))
	server.Exec(t, name, "CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$",
		"CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON weighmaster.bundles DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.slow()")
	s := open(t, proxy.URL(name))
	entries, nodes := storetest.Batch(t, direct, 0, 1, "x")
	for n, at := 1, ""; at != "commit"; n++ {
		proxy.Cut(n, postgrestest.Meanwhile)
		err := s.Append(t.Context(), 0, entries, nodes)
		if at = proxy.Fired(); at != "commit" {
			continue
		}
		wantRefused(t, "append", err, "which happened though its answer was lost")
		if !wholeOrNot(t, direct, entries) {
			t.Error("the append came back before it had happened")
		}
	}
}

// TestCancelled ends the context of an append while it waits for the head, which
// another session holds. Nothing is written, and the store goes on.
func TestCancelled(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Database(t)
	s := create(t, server.URL(name))
	release := holdHead(t, server.URL(name))
	ctx, cancel := context.WithCancel(t.Context())
	entries, nodes := storetest.Batch(t, s, 0, 1, "x")
	result := make(chan error)
	go func() { result <- s.Append(ctx, 0, entries, nodes) }()
	waitFor(t, func() bool { return waiting(t, server.URL(name)) })
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("append: %v, want context.Canceled", err)
	}
	release()
	if size, err := s.Size(t.Context()); err != nil || size != 0 {
		t.Errorf("size %d, %v; want 0", size, err)
	}
	if err := s.Append(t.Context(), 0, entries, nodes); err != nil {
		t.Errorf("append afterwards: %v", err)
	}
}

// TestHeadHeldTooLong meets a writer that does not let the head go.
func TestHeadHeldTooLong(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Database(t)
	s := create(t, server.URL(name, "lock_timeout=50ms"))
	release := holdHead(t, server.URL(name))
	entries, nodes := storetest.Batch(t, s, 0, 1, "x")
	err := s.Append(t.Context(), 0, entries, nodes)
	wantRefused(t, "append", err, "holds the log's head for longer than lock_timeout")
	if errors.Is(err, ledger.ErrConflict) {
		t.Error("a time-out is no conflict: the log would try again at once, without end")
	}
	if size, err := s.Size(t.Context()); err != nil || size != 0 {
		t.Errorf("readers wait, too: size %d, %v", size, err)
	}
	release()
	if err := s.Append(t.Context(), 0, entries, nodes); err != nil {
		t.Errorf("append afterwards: %v", err)
	}
}

// TestSilentWriterLosesTheHead: a session that took the head and says no more
// is ended by the server.
func TestSilentWriterLosesTheHead(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Database(t)
	s := create(t, server.URL(name))
	holdHead(t, server.URL(name, "idle_in_transaction_session_timeout=200ms"))
	entries, nodes := storetest.Batch(t, s, 0, 1, "x")
	if err := s.Append(t.Context(), 0, entries, nodes); err != nil {
		t.Errorf("append: %v", err)
	}
}

// TestServerFailsInTheMiddle lets the server run out of room at each table that
// an append writes. Nothing of it may stay, and the head must be free.
func TestServerFailsInTheMiddle(t *testing.T) {
	server := postgrestest.Shared(t)
	name := server.Database(t)
	s := create(t, server.URL(name))
	server.Exec(t, name, "CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$")
	entries, nodes := storetest.Batch(t, s, 0, 3, "x")
	for _, table := range []string{"entries", "bundles", "artifacts", "nodes"} {
		// At the first row, and at the end of the statement.
		for _, when := range []string{"BEFORE INSERT ON weighmaster." + table + " FOR EACH ROW", "AFTER INSERT ON weighmaster." + table + " FOR EACH STATEMENT"} {
			server.Exec(t, name, "CREATE TRIGGER no_room "+when+" EXECUTE FUNCTION public.full()")
			wantRefused(t, "append", s.Append(t.Context(), 0, entries, nodes), "give the server room and try again")
			server.Exec(t, name, "DROP TRIGGER no_room ON weighmaster."+table)
			if wholeOrNot(t, s, entries) {
				t.Errorf("%s: it happened", when)
			}
			if findings, err := s.Check(t.Context()); err != nil || len(findings) != 0 {
				t.Errorf("%s: check: %v, %v", when, findings, err)
			}
		}
	}
	if err := s.Append(t.Context(), 0, entries, nodes); err != nil {
		t.Errorf("append when there is room again: %v", err)
	}
}

// TestServerUndoesTheTransaction maps the errors by which a server says that it
// took everything back because of another transaction.
func TestServerUndoesTheTransaction(t *testing.T) {
	server := postgrestest.Shared(t)
	for code, want := range map[string]error{"40001": ledger.ErrConflict, "40P01": ledger.ErrConflict, "53100": nil, "XX000": nil} {
		name := server.Database(t)
		s := create(t, server.URL(name))
		server.Exec(t, name, "CREATE FUNCTION public.undo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'undone' USING ERRCODE = '"+code+"'; END $$",
			// At the very end, as a serialization failure comes.
			"CREATE CONSTRAINT TRIGGER undo AFTER INSERT ON weighmaster.nodes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.undo()")
		entries, nodes := storetest.Batch(t, s, 0, 1, "x")
		err := s.Append(t.Context(), 0, entries, nodes)
		if err == nil || want != nil && !errors.Is(err, want) || want == nil && errors.Is(err, ledger.ErrConflict) {
			t.Errorf("%s: %v, want %v", code, err, want)
		}
		if wholeOrNot(t, s, entries) {
			t.Errorf("%s: it happened", code)
		}
	}
}
