package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// transaction is how everything is written. At READ COMMITTED a statement sees
// what was committed before it began; so the one after the head is locked sees
// all that writers before this one wrote.
var transaction = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// Append adds entries in one transaction that locks the head first.
//
// When the answer to COMMIT is lost, Append returns an error, after it has waited
// until the transaction has ended one way or the other, so that ByBundle tells
// the truth from then on. Only when the server cannot be reached for long, the
// error says that it is not known.
func (s *Store) Append(ctx context.Context, size int64, entries []ledger.NewEntry, hashes []tlog.Hash) error {
	doing := fmt.Sprintf("append %d at %d", len(entries), size)
	digests, err := bundleDigests(entries)
	if err != nil {
		return s.fail(doing, err)
	}
	select {
	case s.appending <- struct{}{}:
		defer func() { <-s.appending }()
	case <-ctx.Done():
		return s.fail(doing, ctx.Err())
	}
	tx, err := s.pool.BeginTx(ctx, transaction)
	if err != nil {
		return s.fail(doing, err)
	}
	// Without the context, which may be what ended the append. A transaction
	// that was committed is not touched.
	defer tx.Rollback(context.WithoutCancel(ctx))
	if err := s.lock(ctx, tx, size, digests); err != nil {
		return s.fail(doing, err)
	}
	if err := s.insert(ctx, tx, size, entries, digests, hashes); err != nil {
		return s.fail(doing, err)
	}
	if err := tx.Commit(ctx); err != nil {
		if !refused(err) {
			err = fmt.Errorf("commit, %s: %w", s.settle(ctx, digests), err)
		}
		return s.fail(doing, err)
	}
	return nil
}

// settleTime bounds the wait for what became of a COMMIT.
const settleTime = 20 * time.Second

// settle waits until a transaction whose COMMIT was not answered has ended: it
// may still be on its way, and holds the head until then.
func (s *Store) settle(ctx context.Context, digests [][]byte) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	var there bool
	err := pgx.BeginTxFunc(ctx, s.pool, transaction, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.sql("SELECT FROM @.format FOR UPDATE")); err != nil {
			return err
		}
		return tx.QueryRow(ctx, s.sql("SELECT EXISTS (SELECT FROM @.entries WHERE bundle_sha256 = ANY ($1))"), digests).Scan(&there)
	})
	switch {
	case err != nil:
		return "of which it is not known whether it happened"
	case there:
		return "which happened though its answer was lost"
	}
	return "which did not happen"
}

// lock takes the head and looks whether the entries fit the log as it is now.
func (s *Store) lock(ctx context.Context, tx pgx.Tx, size int64, digests [][]byte) error {
	var b pgx.Batch
	b.Queue(s.sql(`SELECT version, current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')
FROM @.format FOR UPDATE`)).QueryRow(func(row pgx.Row) error {
		var got int
		var now durability
		if err := row.Scan(&got, &now.synchronousCommit, &now.fsync, &now.fullPageWrites); err != nil {
			return fmt.Errorf("lock the head: %w", err)
		}
		if got != version {
			return fmt.Errorf("version %d of the tables, want %d: another version of the program changed them", got, version)
		}
		return now.check()
	})
	b.Queue(s.sql(lastQuery)).QueryRow(func(row pgx.Row) error {
		var last *int64
		if err := row.Scan(&last); err != nil {
			return err
		}
		if head := sizeOf(last); head != size {
			return fmt.Errorf("the log has %d entries: %w", head, ledger.ErrConflict)
		}
		return nil
	})
	b.Queue(s.sql(`SELECT bundle_sha256 FROM @.entries WHERE bundle_sha256 = ANY ($1) LIMIT 1`), digests).QueryRow(func(row pgx.Row) error {
		var there []byte
		switch err := row.Scan(&there); {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("bundle %s: %w", digestOf(there), ledger.ErrDuplicate)
	})
	return tx.SendBatch(ctx, &b).Close()
}

// bundleDigests returns the digests of the entries' bundles; ErrDuplicate when
// two are the same.
func bundleDigests(entries []ledger.NewEntry) ([][]byte, error) {
	seen := make(map[godigest.Digest]bool, len(entries))
	list := make([][]byte, len(entries))
	for i, e := range entries {
		digest, err := raw(e.Record.Bundle)
		if err != nil {
			return nil, err
		}
		if seen[e.Record.Bundle] {
			return nil, fmt.Errorf("bundle %s twice: %w", e.Record.Bundle, ledger.ErrDuplicate)
		}
		seen[e.Record.Bundle], list[i] = true, digest
	}
	return list, nil
}

// raw returns a digest's 32 bytes.
func raw(d godigest.Digest) ([]byte, error) {
	if err := d.Validate(); err != nil || d.Algorithm() != godigest.SHA256 {
		return nil, fmt.Errorf("digest %.100q, want sha256", string(d))
	}
	return hex.DecodeString(d.Encoded())
}

func digestOf(raw []byte) godigest.Digest {
	return godigest.NewDigestFromBytes(godigest.SHA256, raw)
}
