package imported_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/imported"
	"github.com/weighmaster/weighmaster/ledger/memory"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// other makes another log with n entries and returns what it has to give.
func other(t testing.TB, n int) ([]byte, []imported.Entry) {
	t.Helper()
	ctx := context.Background()
	signer, verifier := storetest.Keys(t, storetest.Origin, 1)
	log, err := ledger.Create(ctx, memory.NewStore(), ledger.Options{
		Origin: storetest.Origin, Signer: signer, Verifier: verifier, Checkpoints: memory.NewCheckpoints(), Index: storetest.Index,
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []imported.Entry
	for i := range n {
		if _, err := log.Append(ctx, storetest.Bundle(strings.Repeat("x", i+1), []string{"a"}, nil)); err != nil {
			t.Fatal(err)
		}
	}
	for e, err := range log.Entries(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		proof, err := log.Prove(ctx, e.Index, nil)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, imported.Entry{Leaf: e.Leaf, Proof: proof})
	}
	msg, err := log.Checkpoint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return msg, list
}

func TestKeep(t *testing.T) {
	root := filepath.Join(t.TempDir(), "imported")
	s := imported.Open(root)
	if logs, err := s.Logs(); err != nil || len(logs) != 0 {
		t.Fatalf("logs before the first: %v, %v", logs, err)
	}
	l := s.Log(storetest.Origin)
	if _, err := l.Checkpoints(); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("checkpoints before the first: %v, want ErrNotFound", err)
	}
	msg, entries := other(t, 5)
	if _, err := l.Entry(entries[0].Leaf.Bundle); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("entry before the first: %v, want ErrNotFound", err)
	}
	for range 2 { // the second time changes nothing
		if err := l.Keep(t.Context(), 5, msg, entries); err != nil {
			t.Fatal(err)
		}
	}
	logs, err := s.Logs()
	if err != nil || len(logs) != 1 || logs[0].Origin() != storetest.Origin {
		t.Fatalf("logs: %v, %v", logs, err)
	}
	for _, want := range entries {
		got, err := logs[0].Entry(want.Leaf.Bundle)
		if err != nil || got.Leaf != want.Leaf || !bytes.Equal(got.Proof, want.Proof) {
			t.Errorf("entry: %+v, %v; want %+v", got, err, want)
		}
	}
	n := 0
	for _, err := range l.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	kept, err := l.Checkpoints()
	if err != nil || n != 5 {
		t.Fatalf("%d entries, %v; want 5", n, err)
	}
	if got, err := kept.At(t.Context(), 5); err != nil || !bytes.Equal(got, msg) {
		t.Errorf("checkpoint: %q, %v; want %q", got, err, msg)
	}
	for _, d := range []godigest.Digest{"", "md5:00", "sha256:../../../etc/passwd"} {
		if _, err := l.Entry(d); err == nil || errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("entry of %q: %v, want a refusal", d, err)
		}
	}
}

// TestAltered changes what is kept: each is named.
func TestAltered(t *testing.T) {
	msg, entries := other(t, 3)
	hex := entries[1].Leaf.Bundle.Encoded()
	file := filepath.Join("entries", hex[:2], hex)
	for _, c := range []struct {
		name   string
		attack func(t *testing.T, dir string)
		want   string
	}{
		{"an entry cut off", func(t *testing.T, dir string) { write(t, filepath.Join(dir, file), "{}") }, "an entry of one line"},
		{"an entry of another bundle", func(t *testing.T, dir string) {
			body, err := entries[2].Encode()
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, file), string(body))
		}, "is the entry of bundle"},
		{"an entry without end", func(t *testing.T, dir string) { write(t, filepath.Join(dir, file), strings.Repeat("x", 1<<20)) }, "more than"},
		{"an entry under another name", func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, file), filepath.Join(dir, file+"x")); err != nil {
				t.Fatal(err)
			}
		}, "is not named like an entry"},
		{"another origin", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "origin"), "other.example/log\n") }, "want the origin whose SHA-256 names its folder"},
	} {
		root := t.TempDir()
		s := imported.Open(root)
		l := s.Log(storetest.Origin)
		if err := l.Keep(t.Context(), 3, msg, entries); err != nil {
			t.Fatal(err)
		}
		c.attack(t, filepath.Join(root, godigest.FromString(storetest.Origin).Encoded()))
		_, last := s.Logs()
		for _, err := range l.Entries() {
			last = errors.Join(last, err)
		}
		if last == nil || !strings.Contains(last.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, last, c.want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	os.Remove(path)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func FuzzParseEntry(f *testing.F) {
	_, entries := other(f, 3)
	for _, e := range entries {
		body, err := e.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
		f.Add(body[:len(body)/2])
		f.Add(append(body, body...))
		f.Add(bytes.Replace(body, []byte("\n"), nil, 1))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := imported.ParseEntry(body)
		if err != nil {
			return
		}
		again, err := e.Encode()
		if err != nil || !bytes.Equal(again, body) {
			t.Fatalf("an entry does not read back as itself: %v", err)
		}
	})
}
