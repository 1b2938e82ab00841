package ledger_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	formatlog "github.com/transparency-dev/formats/log"
	formatproof "github.com/transparency-dev/formats/proof"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

func hashOf(b []byte) (h tlog.Hash, ok bool) { return h, copy(h[:], b) == len(b) && len(b) == len(h) }

func hashesOf(list [][]byte) (out []tlog.Hash, ok bool) {
	for _, b := range list {
		h, ok := hashOf(b)
		if !ok {
			return nil, false
		}
		out = append(out, h)
	}
	return out, true
}

func eachVector(t *testing.T, root string, check func(path string, data []byte)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			n++
			check(path, data)
		}
		return err
	})
	if err != nil || n == 0 {
		t.Fatalf("%d vectors in %s, %v", n, root, err)
	}
	t.Logf("%d vectors", n)
}

// TestMerkleVectors holds package tlog, which all our proofs go through,
// against the vectors of transparency-dev/merkle.
func TestMerkleVectors(t *testing.T) {
	root := shared.Path(t, "vectors", "merkle", "testdata")
	eachVector(t, filepath.Join(root, "inclusion"), func(path string, data []byte) {
		var v struct {
			LeafIdx, TreeSize uint64
			Root, LeafHash    []byte
			Proof             [][]byte
			WantErr           bool
		}
		if err := json.Unmarshal(data, &v); err != nil {
			var number *json.UnmarshalTypeError
			if !errors.As(err, &number) {
				t.Fatalf("%s: %v", path, err)
			}
		}
		root, ok1 := hashOf(v.Root)
		leaf, ok2 := hashOf(v.LeafHash)
		p, ok3 := hashesOf(v.Proof)
		err := fs.ErrInvalid
		if size := int64(v.TreeSize); ok1 && ok2 && ok3 && size <= ledger.MaxEntries {
			err = tlog.CheckRecord(p, size, root, int64(v.LeafIdx), leaf)
		}
		if (err != nil) != v.WantErr {
			t.Errorf("%s: %v, want an error: %v", path, err, v.WantErr)
		}
	})
	eachVector(t, filepath.Join(root, "consistency"), func(path string, data []byte) {
		var v struct {
			Size1, Size2 uint64
			Root1, Root2 []byte
			Proof        [][]byte
			WantErr      bool
		}
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if v.Size1 == 0 {
			return // the empty tree is compared by its root, see TestAppendReadVerify
		}
		root1, ok1 := hashOf(v.Root1)
		root2, ok2 := hashOf(v.Root2)
		if !ok1 || !ok2 {
			return // roots that are no hashes cannot reach tlog
		}
		p, ok3 := hashesOf(v.Proof)
		err := fs.ErrInvalid
		if size := int64(v.Size2); ok3 && size <= ledger.MaxEntries {
			err = tlog.CheckTree(p, size, root2, int64(v.Size1), root1)
		}
		if (err != nil) != v.WantErr {
			t.Errorf("%s: %v, want an error: %v", path, err, v.WantErr)
		}
	})
}

// TestCanonicalVectors holds the RFC 8785 canonicalizer against its vectors.
func TestCanonicalVectors(t *testing.T) {
	root := shared.Path(t, "vectors", "jcs", "testdata")
	eachVector(t, filepath.Join(root, "input"), func(path string, data []byte) {
		want, err := os.ReadFile(filepath.Join(root, "output", filepath.Base(path)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := jsoncanonicalizer.Transform(data)
		if err != nil || !bytes.Equal(got, bytes.TrimSuffix(want, []byte("\n"))) {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	})
}

// TestTesseraLog checks that checkpoints of another implementation parse, up
// to the signature: their key is not in the data.
func TestTesseraLog(t *testing.T) {
	root := shared.Path(t, "vectors", "tessera", "testdata", "log")
	files, err := filepath.Glob(filepath.Join(root, "checkpoint*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d checkpoints, %v", len(files), err)
	}
	_, stranger := storetest.Keys(t, "example.com/log/testdata", 1)
	for _, file := range files {
		msg, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ledger.ParseCheckpoint(msg, stranger); err == nil || !strings.Contains(err.Error(), "not signed by") {
			t.Errorf("%s: %v, want it well-formed and not signed by our key", file, err)
		}
	}
}

// TestOtherImplementationsReadUs gives our checkpoints and proofs to
// transparency-dev's parsers and Merkle code.
func TestOtherImplementationsReadUs(t *testing.T) {
	log := inMemory().create(t)
	entries := chain(t, log, 11)
	_, verifier := storetest.Keys(t, storetest.Origin, 1)
	for _, e := range entries {
		text, err := log.Prove(t.Context(), e.Index, nil)
		if err != nil {
			t.Fatal(err)
		}
		var p formatproof.TLogProof
		if err := p.Unmarshal(text); err != nil {
			t.Fatal(err)
		}
		c, _, _, err := formatlog.ParseCheckpoint(p.Checkpoint, storetest.Origin, verifier)
		if err != nil {
			t.Fatal(err)
		}
		hash, err := e.Leaf.Hash()
		if err != nil {
			t.Fatal(err)
		}
		var path [][]byte
		for _, h := range p.Hashes {
			path = append(path, h[:])
		}
		if err := proof.VerifyInclusion(rfc6962.DefaultHasher, p.Index, c.Size, hash[:], path, c.Hash); err != nil {
			t.Errorf("entry %d: %v", e.Index, err)
		}
	}
}
