package witness_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/mod/sumdb/note"

	_ "modernc.org/sqlite"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/storetest"
	"github.com/weighmaster/weighmaster/ledger/witness"
)

// litewitness starts filippo.io/torchwood's witness on loopback, which knows the
// logs given with their keys, and returns its address and verifier key.
func litewitness(t *testing.T, logs map[string]string) witness.Witness {
	t.Helper()
	program := os.Getenv("WEIGHMASTER_LITEWITNESS")
	if program == "" {
		shared.Missing(t, "WEIGHMASTER_LITEWITNESS does not name litewitness; see .ci/interop/install-witness")
	}
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "litewitness.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// witnessctl's add-log and add-key.
	statements := []string{
		"CREATE TABLE log (origin TEXT PRIMARY KEY, tree_size INTEGER NOT NULL, tree_hash TEXT NOT NULL)",
		"CREATE TABLE key (origin TEXT NOT NULL, key TEXT NOT NULL, FOREIGN KEY(origin) REFERENCES log(origin))",
	}
	for origin, key := range logs {
		statements = append(statements,
			fmt.Sprintf("INSERT INTO log VALUES ('%s', 0, '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=')", origin),
			fmt.Sprintf("INSERT INTO key VALUES ('%s', '%s')", origin, key))
	}
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	seed := sha256.Sum256([]byte("litewitness"))
	secret := ed25519.NewKeyFromSeed(seed[:])
	socket, fingerprint := sshAgent(t, secret)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	cmd := exec.Command(program, "-name", "witness.example/lite", "-db", filepath.Join(dir, "litewitness.db"), "-ssh-agent", socket, "-key", fingerprint, "-listen", address)
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 200 {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			break
		}
		time.Sleep(25 * time.Millisecond)
	}
	found := regexp.MustCompile(`vkey="?([^\s"]+)`).FindStringSubmatch(out.String())
	if found == nil {
		t.Fatalf("litewitness prints no verifier key: %s", out)
	}
	key, err := ledger.ParseWitnessKey(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return witness.Witness{URL: "http://" + address, Key: key}
}

// output collects what a program prints while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// sshAgent serves an agent that holds one key.
func sshAgent(t *testing.T, secret ed25519.PrivateKey) (socket, fingerprint string) {
	t.Helper()
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: &secret}); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "agent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, conn) }()
		}
	}()
	public, err := ssh.NewPublicKey(secret.Public())
	if err != nil {
		t.Fatal(err)
	}
	return socket, ssh.FingerprintSHA256(public)
}

// TestLitewitness lets the reference witness cosign a growing log.
func TestLitewitness(t *testing.T) {
	w := litewitness(t, map[string]string{
		storetest.Origin:    storetest.VerifierKey(t, storetest.Origin, 1),
		"log.example/other": storetest.VerifierKey(t, "log.example/other", 1),
	})
	log, verifier := newLog(t, 0)
	client := &witness.Client{}
	size := 0
	for _, next := range []int{1, 2, 9, 300, 301} {
		grow(t, log, size, next)
		size = next
		checkpoint := newest(t, log)
		cosigned, got, err := client.Cosign(t.Context(), w, verifier, checkpoint, prover(log, checkpoint))
		if err != nil {
			t.Fatalf("size %d: %v", next, err)
		}
		if got.Name != "witness.example/lite" || time.Since(got.Time) > time.Minute {
			t.Errorf("%v", got)
		}
		merged, err := log.AddCosignatures(t.Context(), cosigned, []note.Verifier{w.Key})
		if err != nil {
			t.Fatal(err)
		}
		if list, err := ledger.Cosignatures(merged, verifier, []note.Verifier{w.Key}); err != nil || len(list) != 1 {
			t.Errorf("%v, %v, want one", list, err)
		}
	}
	refused := func(name string, log *ledger.Log, verifier note.Verifier, status int, want string) {
		t.Helper()
		checkpoint := newest(t, log)
		_, _, err := client.Cosign(t.Context(), w, verifier, checkpoint, prover(log, checkpoint))
		var failed *witness.Error
		if !errors.As(err, &failed) || failed.Status != status || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want status %d and %q", name, err, status, want)
		}
	}
	older, _ := newLog(t, 300)
	refused("a log that was set back", older, verifier, 409, "set back")
	fork, _ := newLog(t, 0)
	for i := range 400 {
		if _, err := fork.Append(t.Context(), storetest.Bundle(fmt.Sprint("fork", i), []string{"x"}, nil)); err != nil {
			t.Fatal(err)
		}
	}
	refused("a fork", fork, verifier, 422, "does not extend")
}
