package ledger_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
	"github.com/weighmaster/weighmaster/ledger/postgres"
	"github.com/weighmaster/weighmaster/ledger/postgres/postgrestest"
	"github.com/weighmaster/weighmaster/ledger/sqlite"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// benchEntries lists the sizes of the logs that BenchmarkLedger makes, such as
// "1000,10000,100000,1000000"; a million takes 4 GB of disk below TMPDIR.
const benchEntries = "WEIGHMASTER_BENCH_ENTRIES"

// BenchmarkLedger measures a log on disk at several sizes. Each holds a chain
// of a thousand stages, and past that chains of 25; every entry is a bundle of
// 3 KB and also names one tool, so that one artifact has as many entries as
// the log. "peak-MB" is the most memory that the process had while one
// operation was measured, SQLite's included.
func BenchmarkLedger(b *testing.B) {
	benchSizes(b, func(b *testing.B) (*site, opener) {
		s := onDisk(b)
		return s, func(ctx context.Context) (ledger.Store, error) { return sqlite.Open(ctx, s.db) }
	})
}

// BenchmarkLedgerPostgres is BenchmarkLedger with the log in a PostgreSQL server
// on this machine.
func BenchmarkLedgerPostgres(b *testing.B) {
	server := postgrestest.Start(b)
	benchSizes(b, func(b *testing.B) (*site, opener) {
		url := server.URL(server.Database(b))
		store, err := postgres.Create(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { store.Close() })
		s := &site{store: store, dir: filepath.Join(b.TempDir(), "checkpoints")}
		if s.checkpoints, err = checkpoints.Create(s.dir); err != nil {
			b.Fatal(err)
		}
		return s, func(ctx context.Context) (ledger.Store, error) { return postgres.Open(ctx, url) }
	})
}

// opener opens a log's store as a new process does.
type opener func(context.Context) (ledger.Store, error)

func benchSizes(b *testing.B, create func(b *testing.B) (*site, opener)) {
	sizes := os.Getenv(benchEntries)
	if sizes == "" {
		sizes = "1000"
	}
	for text := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < stages {
			b.Fatalf("%s=%q: want sizes of at least %d", benchEntries, sizes, stages)
		}
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			s, open := create(b)
			benchLedger(b, s, open, n)
		})
	}
}

const stages, chainLength = 1000, 25

// stage is the bundle of entry i: 3 KB, as much as a small signed Statement.
func stage(i int) []byte {
	sum := sha256.Sum256(fmt.Append(nil, "stage ", i))
	payload := fmt.Sprintf("stage %d %s", i, strings.Repeat(hex.EncodeToString(sum[:]), 40))
	from := i
	if i >= stages && (i-stages)%chainLength == 0 {
		from = -i // nothing before it: a chain begins
	}
	return storetest.Bundle(payload, []string{artifactName(i + 1)}, []string{artifactName(from), "tool"})
}

func artifactName(i int) string { return fmt.Sprintf("artifact %d", i) }

func benchLedger(b *testing.B, s *site, open opener, n int) {
	log := s.create(b)
	ctx := context.Background()
	next := 0
	grow := func(b *testing.B, count int) {
		batch := make([][]byte, count)
		for i := range batch {
			batch[i] = stage(next + i)
		}
		if _, err := log.AppendAll(ctx, batch); err != nil {
			b.Fatal(err)
		}
		next += count
	}
	for next < n {
		grow(b, min(n-next, 5000))
	}
	run := func(name string, perOp int, op func(b *testing.B, i int)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(perOp * len(stage(1))))
			peak := startPeak()
			i := 0
			for b.Loop() {
				op(b, i)
				i++
			}
			if mb := peak(); mb > 0 {
				b.ReportMetric(mb, "peak-MB")
			}
		})
	}
	run("open", 0, func(b *testing.B, _ int) { s.openOnce(b, open) })
	run("prove", 0, func(b *testing.B, i int) {
		if _, err := log.Prove(ctx, ledger.LeafIndex(i*7919%n), nil); err != nil {
			b.Fatal(err)
		}
	})
	run("find", 0, func(b *testing.B, i int) {
		// One before and one behind, or one at the end of a chain.
		found, err := log.Find(ctx, storetest.Digest(artifactName(1+i*7919%n)))
		if err != nil || len(found) < 1 || len(found) > 2 {
			b.Fatalf("found %d entries, %v", len(found), err)
		}
	})
	lineage := func(artifact godigest.Digest, edges int) func(b *testing.B, _ int) {
		return func(b *testing.B, _ int) {
			g, err := log.Lineage(ctx, artifact)
			if err != nil || g.Truncated || len(g.Edges) != edges {
				b.Fatalf("%d edges, truncated %v, %v; want %d", len(g.Edges), g.Truncated, err, edges)
			}
		}
	}
	run("lineage-1000", 0, lineage(storetest.Digest(artifactName(stages/2)), stages))
	if n >= stages+chainLength {
		run("lineage-25", 0, lineage(storetest.Digest(artifactName(stages+chainLength/2)), chainLength))
	}
	run("verify", n, func(b *testing.B, _ int) { mustVerify(b, log) })
	run("append", 1, func(b *testing.B, _ int) { grow(b, 1) })
	run("append-1000", 1000, func(b *testing.B, _ int) { grow(b, 1000) })
}

// openOnce opens the log as a new process does, and closes it.
func (s *site) openOnce(b *testing.B, open opener) {
	b.Helper()
	store, err := open(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	again := site{store: store, db: s.db, dir: s.dir}
	if again.checkpoints, err = checkpoints.Open(s.dir); err != nil {
		b.Fatal(err)
	}
	if _, err := ledger.Open(context.Background(), store, again.options(b)); err != nil {
		b.Fatal(err)
	}
}

// startPeak forgets the most memory that the process had; what it returns
// tells the most since then in MB, or 0 where the system does not say.
func startPeak() func() float64 {
	debug.FreeOSMemory()
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		return func() float64 { return 0 }
	}
	return func() float64 {
		status, err := os.ReadFile(filepath.FromSlash("/proc/self/status"))
		if err != nil {
			return 0
		}
		_, rest, _ := strings.Cut(string(status), "VmHWM:")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0
		}
		kb, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0
		}
		return kb / 1024
	}
}
