package ledger_test

import (
	"context"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/ledger"
)

func sign(text string, s note.Signer) ([]byte, error) { return note.Sign(&note.Note{Text: text}, s) }

// BenchmarkAppend is one durable append with its checkpoint on disk.
func BenchmarkAppend(b *testing.B) {
	log := onDisk(b).create(b)
	b.SetBytes(int64(len(step(0))))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		appendOne(b, log, i)
		i++
	}
}

func BenchmarkProve(b *testing.B) {
	log := onDisk(b).create(b)
	chain(b, log, 1000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := log.Prove(context.Background(), ledger.LeafIndex(i%1000), nil); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkVerify is a full verification of 1000 entries and 1001 checkpoints.
func BenchmarkVerify(b *testing.B) {
	log := onDisk(b).create(b)
	chain(b, log, 1000)
	b.SetBytes(int64(1000 * len(step(0))))
	b.ReportAllocs()
	for b.Loop() {
		mustVerify(b, log)
	}
}
