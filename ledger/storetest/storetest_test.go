package storetest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/memory"
	"github.com/weighmaster/weighmaster/ledger/sqlite"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) ledger.Store { return memory.NewStore() })
}

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) ledger.Store {
		dir := filepath.Join(t.TempDir(), "a folder #1?%41")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Create(t.Context(), filepath.Join(dir, "ledger.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}

func TestSQLiteIsDurable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	open := func(f func(context.Context, string) (*sqlite.Store, error)) func(*testing.T) ledger.Store {
		return func(t *testing.T) ledger.Store {
			s, err := f(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		}
	}
	storetest.Durable(t, open(sqlite.Create), open(sqlite.Open))
}
