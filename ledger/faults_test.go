package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

var errInjected = errors.New("injected fault")

// fault counts calls and fails one of them.
type fault struct {
	calls, at int
	after     bool // the call is carried out and reported as failed
	fired     int
}

// run carries out a call, or fails before or after it.
func (f *fault) run(call func() error) error {
	f.calls++
	if f.calls != f.at {
		return call()
	}
	f.fired++
	if f.after {
		if err := call(); err != nil {
			return err
		}
	}
	return errInjected
}

func result[T any](f *fault, call func() (T, error)) (T, error) {
	var v T
	err := f.run(func() (err error) { v, err = call(); return err })
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// faultyStore fails one call, of its writes or of its reads.
type faultyStore struct {
	ledger.Store
	writes, reads *fault
}

func (s faultyStore) Append(ctx context.Context, size int64, e []ledger.NewEntry, h []tlog.Hash) error {
	return s.writes.run(func() error { return s.Store.Append(ctx, size, e, h) })
}
func (s faultyStore) Size(ctx context.Context) (int64, error) {
	return result(s.reads, func() (int64, error) { return s.Store.Size(ctx) })
}
func (s faultyStore) Record(ctx context.Context, i ledger.LeafIndex) (ledger.Record, error) {
	return result(s.reads, func() (ledger.Record, error) { return s.Store.Record(ctx, i) })
}
func (s faultyStore) Bundle(ctx context.Context, i ledger.LeafIndex) ([]byte, error) {
	return result(s.reads, func() ([]byte, error) { return s.Store.Bundle(ctx, i) })
}
func (s faultyStore) ByBundle(ctx context.Context, d godigest.Digest) (ledger.LeafIndex, error) {
	return result(s.reads, func() (ledger.LeafIndex, error) { return s.Store.ByBundle(ctx, d) })
}
func (s faultyStore) ByArtifact(ctx context.Context, d godigest.Digest, r ledger.Role, from ledger.LeafIndex, n int) ([]ledger.LeafIndex, error) {
	return result(s.reads, func() ([]ledger.LeafIndex, error) { return s.Store.ByArtifact(ctx, d, r, from, n) })
}
func (s faultyStore) Hashes(ctx context.Context, x []int64) ([]tlog.Hash, error) {
	return result(s.reads, func() ([]tlog.Hash, error) { return s.Store.Hashes(ctx, x) })
}
func (s faultyStore) Check(ctx context.Context) ([]ledger.Finding, error) {
	return result(s.reads, func() ([]ledger.Finding, error) { return s.Store.Check(ctx) })
}

type faultyCheckpoints struct {
	ledger.Checkpoints
	writes, reads *fault
}

func (c faultyCheckpoints) Put(ctx context.Context, size int64, msg []byte) error {
	return c.writes.run(func() error { return c.Checkpoints.Put(ctx, size, msg) })
}
func (c faultyCheckpoints) Sizes(ctx context.Context) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		for size, err := range c.Checkpoints.Sizes(ctx) {
			if err == nil {
				err = c.reads.run(func() error { return nil })
			}
			if !yield(size, err) || err != nil {
				return
			}
		}
	}
}
func (c faultyCheckpoints) Newest(ctx context.Context) (int64, error) {
	return result(c.reads, func() (int64, error) { return c.Checkpoints.Newest(ctx) })
}
func (c faultyCheckpoints) At(ctx context.Context, size int64) ([]byte, error) {
	return result(c.reads, func() ([]byte, error) { return c.Checkpoints.At(ctx, size) })
}
func (c faultyCheckpoints) Latest(ctx context.Context) ([]byte, error) {
	return result(c.reads, func() ([]byte, error) { return c.Checkpoints.Latest(ctx) })
}

// TestEveryWriteLost lets each write of ten appends fail, once without effect
// and once with its effect but reported as failed. The caller does what the
// contract says, it appends the same bundle again, either with the same Log or
// after opening it anew as a new process would. Nothing may be lost, doubled
// or out of order.
func TestEveryWriteLost(t *testing.T) {
	const n = 10
	fired := 0
	for _, after := range []bool{false, true} {
		for _, reopen := range []bool{false, true} {
			for _, where := range []string{"store", "checkpoints"} {
				for at := 1; at <= n; at++ {
					f := &fault{at: at, after: after}
					none := &fault{}
					good := inMemory()
					good.create(t)
					bad := *good
					if where == "store" {
						bad.store = faultyStore{good.store, f, none}
					} else {
						bad.checkpoints = faultyCheckpoints{good.checkpoints, f, none}
					}
					appendAll(t, good, &bad, n, reopen)
					if f.fired != 1 {
						t.Fatalf("%s write %d: the fault fired %d times, want 1", where, at, f.fired)
					}
					fired += f.fired
				}
			}
		}
	}
	t.Logf("%d faults injected into writes", fired)
}

func appendAll(t *testing.T, good, bad *site, n int, reopen bool) {
	t.Helper()
	log, err := ledger.Open(t.Context(), bad.store, bad.options(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		e, err := log.Append(t.Context(), step(i))
		if err != nil {
			if !errors.Is(err, errInjected) {
				t.Fatalf("append %d: %v, want the injected fault", i, err)
			}
			// What is there now, without the retry, must be a valid log.
			other, err := ledger.Open(t.Context(), good.store, good.options(t))
			if err != nil {
				t.Fatalf("open after the fault: %v", err)
			}
			mustVerify(t, other)
			if reopen {
				if log, err = ledger.Open(t.Context(), bad.store, bad.options(t)); err != nil {
					t.Fatal(err)
				}
			}
			if e, err = log.Append(t.Context(), step(i)); err != nil {
				t.Fatalf("append %d again: %v", i, err)
			}
		}
		if int(e.Index) != i {
			t.Fatalf("append %d became entry %d", i, e.Index)
		}
		msg, err := good.checkpoints.Latest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, verifier := storetest.Keys(t, storetest.Origin, 1)
		if c, err := ledger.ParseCheckpoint(msg, verifier); err != nil || c.Size != int64(i+1) {
			t.Fatalf("append %d was acknowledged under the checkpoint of size %d, %v", i, c.Size, err)
		}
	}
	if v := mustVerify(t, log); v.Size != int64(n) {
		t.Fatalf("%d entries, want %d", v.Size, n)
	}
	for i := range n {
		if e, err := log.Entry(t.Context(), ledger.LeafIndex(i)); err != nil || !bytes.Equal(e.Bundle, step(i)) {
			t.Fatalf("entry %d: %q, %v", i, e.Bundle, err)
		}
	}
}

// TestEveryReadFails lets each read of a whole session fail. It must come out
// as that error, never as a finding, a contradiction or a wrong answer.
func TestEveryReadFails(t *testing.T) {
	fired := 0
	for _, where := range []string{"store", "checkpoints"} {
		for at := 1; ; at++ {
			good := inMemory()
			chain(t, good.create(t), 6)
			f, none := &fault{at: at}, &fault{}
			bad := *good
			if where == "store" {
				bad.store = faultyStore{good.store, none, f}
			} else {
				bad.checkpoints = faultyCheckpoints{good.checkpoints, none, f}
			}
			err := session(t.Context(), &bad, bad.options(t))
			if f.fired == 0 {
				if err != nil {
					t.Fatalf("without a fault: %v", err)
				}
				break
			}
			fired++
			if !errors.Is(err, errInjected) {
				t.Errorf("%s read %d: %v, want the injected fault", where, at, err)
			}
			log, err := ledger.Open(t.Context(), good.store, good.options(t))
			if err != nil {
				t.Fatalf("open after a fault in %s read %d: %v", where, at, err)
			}
			mustVerify(t, log)
		}
	}
	if fired < 100 {
		t.Errorf("only %d reads failed, want over 100", fired)
	}
	t.Logf("%d faults injected into reads", fired)
}

func session(ctx context.Context, s *site, opt ledger.Options) error {
	log, err := ledger.Open(ctx, s.store, opt)
	if err != nil {
		return err
	}
	if _, err := log.Append(ctx, step(6)); err != nil {
		return err
	}
	if _, err := log.Append(ctx, step(2)); err != nil {
		return err
	}
	if _, err := log.Prove(ctx, 3, nil); err != nil {
		return err
	}
	if _, err := log.Find(ctx, storetest.Digest("file 3")); err != nil {
		return err
	}
	if _, err := log.Lineage(ctx, storetest.Digest("file 3")); err != nil {
		return err
	}
	for _, err := range log.Entries(ctx) {
		if err != nil {
			return err
		}
	}
	v, err := log.Verify(ctx)
	if err == nil && !v.OK() {
		return errors.New("verification has findings")
	}
	return err
}
