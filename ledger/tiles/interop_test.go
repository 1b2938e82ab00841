package tiles_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/memory"
	"github.com/weighmaster/weighmaster/ledger/storetest"
	"github.com/weighmaster/weighmaster/ledger/tiles"
)

// tool is a program that .ci/interop/install-witness installs.
func tool(t *testing.T, variable string) string {
	t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		shared.Missing(t, "%s does not name the program; see .ci/interop/install-witness", variable)
	}
	return program
}

// tileFiles reads tiles from a folder for package tlog; it knows C2SP's layout
// only from the specification's text, not from our code.
type tileFiles string

func (tileFiles) Height() int                         { return 8 }
func (tileFiles) SaveTiles(_ []tlog.Tile, _ [][]byte) {}
func (f tileFiles) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	var out [][]byte
	for _, t := range list {
		name := fmt.Sprintf("%03d", t.N%1000)
		for n := t.N / 1000; n > 0; n /= 1000 {
			name = fmt.Sprintf("x%03d/%s", n%1000, name)
		}
		if t.W < 256 {
			name += ".p/" + strconv.Itoa(t.W)
		}
		data, err := os.ReadFile(filepath.Join(string(f), "tile", strconv.Itoa(t.L), name))
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

// TestTileHashReader lets package tlog read the tree from the tiles, and
// transparency-dev/merkle check the proofs that it makes of them.
func TestTileHashReader(t *testing.T) {
	log, verifier, folder := exported(t, 700)
	msg, err := os.ReadFile(filepath.Join(folder, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ledger.ParseCheckpoint(msg, verifier)
	if err != nil {
		t.Fatal(err)
	}
	reader := tlog.TileHashReader(tlog.Tree{N: c.Size, Hash: c.Root}, tileFiles(folder))
	if root, err := tlog.TreeHash(c.Size, reader); err != nil || root != c.Root {
		t.Errorf("%s, %v, want %s", root, err, c.Root)
	}
	i := int64(0)
	for leaf, err := range log.Leaves(t.Context(), 0, 700) {
		if err != nil {
			t.Fatal(err)
		}
		if i%97 == 0 || i == 699 {
			path, err := tlog.ProveRecord(c.Size, i, reader)
			if err != nil {
				t.Fatal(err)
			}
			if err := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(i), uint64(c.Size), rfc6962.DefaultHasher.HashLeaf(leaf), slices(path), c.Root[:]); err != nil {
				t.Errorf("entry %d: %v", i, err)
			}
		}
		i++
	}
	for _, old := range []int64{1, 255, 256, 300, 512, 699} {
		before, err := tlog.TreeHash(old, reader)
		if err != nil {
			t.Fatal(err)
		}
		path, err := tlog.ProveTree(c.Size, old, reader)
		if err != nil {
			t.Fatal(err)
		}
		if err := proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(old), uint64(c.Size), slices(path), before[:], c.Root[:]); err != nil {
			t.Errorf("from size %d: %v", old, err)
		}
	}
	// The reader authenticates: a byte of a tile that is not the tree's is found.
	file := filepath.Join(folder, "tile", "0", "001")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[0] ^= 1
	os.Remove(file)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tlog.ProveRecord(c.Size, 256, tlog.TileHashReader(tlog.Tree{N: c.Size, Hash: c.Root}, tileFiles(folder))); err == nil {
		t.Error("package tlog accepts an altered tile")
	}
}

func slices[H ~[32]byte](hashes []H) [][]byte {
	var out [][]byte
	for _, h := range hashes {
		out = append(out, append([]byte(nil), h[:]...))
	}
	return out
}

// TestTorchwoodReadsTiles lets torchwood's tlog client read all entries, check
// them against the tree and prove each of them.
func TestTorchwoodReadsTiles(t *testing.T) {
	program := tool(t, "WEIGHMASTER_TORCHWOOD")
	key := storetest.VerifierKey(t, storetest.Origin, 1)
	for _, size := range []int{1, 256, 300, 700} {
		log, _, folder := exported(t, size)
		sum := sha256.New()
		for leaf, err := range log.Leaves(t.Context(), 0, ledger.LeafIndex(size)) {
			if err != nil {
				t.Fatal(err)
			}
			sum.Write(leaf)
		}
		out, err := exec.Command(program, "tiles", folder, key).CombinedOutput()
		if want := fmt.Sprintf("%d %x\n", size, sum.Sum(nil)); err != nil || string(out) != want {
			t.Errorf("%d entries: %q, %v, want %q", size, out, err, want)
		}
		if out, err := exec.Command(program, "tiles", folder, storetest.VerifierKey(t, storetest.Origin, 2)).CombinedOutput(); err == nil {
			t.Errorf("%q with another key, want it refused", out)
		}
		file := filepath.Join(folder, "tile", "entries", "000")
		if size < 256 {
			file += ".p/" + strconv.Itoa(size)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data[9] ^= 1
		os.Remove(file)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(program, "tiles", folder, key).CombinedOutput(); err == nil {
			t.Errorf("%q with an altered entry, want it refused", out)
		}
	}
}

// TestFsck lets tessera's fsck check the folder. It exits 0 whatever it finds, so
// what it says counts.
func TestFsck(t *testing.T) {
	program := tool(t, "WEIGHMASTER_TILES_FSCK")
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(storetest.VerifierKey(t, storetest.Origin, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	fsck := func(url string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, "--ui=false", "-v=2", "--logtostderr", "--storage_url="+url+"/", "--public_key="+key).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	// Several exports of a growing log, then each kind of damage.
	log, _, folder := exported(t, 300)
	grow(t, log, "", 300, 700)
	if _, err := tiles.Export(t.Context(), log, folder); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.FileServer(http.Dir(folder))) // any web server will do
	defer web.Close()
	for _, url := range []string{"file://" + folder, web.URL} {
		if out := fsck(url); strings.Contains(out, "fsck failed") || !strings.Contains(out, "Successfully fsck'd log with size 700") {
			t.Errorf("fsck of %s: %s", url, out)
		}
	}
	// An altered full tile of level 0 is left out: fsck v1.0.4 then waits for ever.
	for _, name := range []string{"tile/0/002.p/188", "tile/1/000.p/2", "tile/entries/002.p/188", "checkpoint"} {
		file := filepath.Join(folder, name)
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bad := append([]byte(nil), good...)
		bad[len(bad)/2] ^= 1
		os.Remove(file)
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if out := fsck("file://" + folder); !strings.Contains(out, "fsck failed") {
			t.Errorf("fsck accepts an altered %s: %.500s", name, out)
		}
		if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTesseraLog reads tessera's own test log with our reader, at each of its
// checkpoints. Its entries are not ours and its key is not in the data.
func TestTesseraLog(t *testing.T) {
	folder := shared.Path(t, "vectors", "tessera", "testdata", "log")
	for size := range int64(16) {
		msg, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("checkpoint.%d", size)))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(msg), "\n")
		root, err := tlog.ParseHash(lines[2])
		if err != nil || lines[1] != fmt.Sprint(size) {
			t.Fatalf("%q, %v", lines, err)
		}
		v, err := tiles.VerifyTree(t.Context(), os.DirFS(folder), tlog.Tree{N: size, Hash: root})
		if err != nil || !v.OK() || v.Root != root {
			t.Errorf("size %d: %+v, %v", size, v, err)
		}
		root[0] ^= 1
		if v, err := tiles.VerifyTree(t.Context(), os.DirFS(folder), tlog.Tree{N: size, Hash: root}); err != nil || v.OK() {
			t.Errorf("size %d with another root: %+v, %v", size, v, err)
		}
	}
	if _, err := tiles.Verify(t.Context(), os.DirFS(folder), verifierOf(t)); err == nil || !strings.Contains(err.Error(), "not signed by") {
		t.Errorf("%v, want a checkpoint of another log refused", err)
	}
}

func verifierOf(t *testing.T) note.Verifier {
	_, v := storetest.Keys(t, storetest.Origin, 1)
	return v
}

// BenchmarkExport writes a log of 10,000 entries; bytes are those of the leaves.
func BenchmarkExport(b *testing.B) {
	log, _ := newLog(b, memory.NewStore(), 1)
	grow(b, log, "", 0, 10_000)
	bytes := int64(0)
	for leaf, err := range log.Leaves(b.Context(), 0, 10_000) {
		if err != nil {
			b.Fatal(err)
		}
		bytes += int64(len(leaf))
	}
	b.SetBytes(bytes)
	for b.Loop() {
		if _, err := tiles.Export(b.Context(), log, filepath.Join(b.TempDir(), fmt.Sprint(b.N))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify checks it.
func BenchmarkVerify(b *testing.B) {
	log, verifier, folder := exported(b, 10_000)
	bytes := int64(0)
	for leaf, err := range log.Leaves(b.Context(), 0, 10_000) {
		if err != nil {
			b.Fatal(err)
		}
		bytes += int64(len(leaf))
	}
	b.SetBytes(bytes)
	for b.Loop() {
		if v, err := tiles.Verify(b.Context(), os.DirFS(folder), verifier); err != nil || !v.OK() {
			b.Fatalf("%+v, %v", v, err)
		}
	}
}
