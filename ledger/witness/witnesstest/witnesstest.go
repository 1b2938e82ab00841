// Package witnesstest has a witness for tests: keys that sign at any time, and a
// server of C2SP tlog-witness in memory.
package witnesstest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// Key is a witness's key pair.
type Key struct {
	Name   string
	secret ed25519.PrivateKey
}

// NewKey derives a key from a number; the same number gives the same key.
func NewKey(name string, number byte) Key {
	seed := sha256.Sum256([]byte{'w', number})
	return Key{Name: name, secret: ed25519.NewKeyFromSeed(seed[:])}
}

func (k Key) public() []byte {
	return append([]byte{0x04}, k.secret.Public().(ed25519.PublicKey)...)
}

func (k Key) hash() uint32 {
	sum := sha256.Sum256(slices.Concat([]byte(k.Name), []byte("\n"), k.public()))
	return binary.BigEndian.Uint32(sum[:])
}

// String is the verifier key, as trust.yaml has it.
func (k Key) String() string {
	return fmt.Sprintf("%s+%08x+%s", k.Name, k.hash(), base64.StdEncoding.EncodeToString(k.public()))
}

// Line is a signature line over a checkpoint's text, made at a Unix time.
func (k Key) Line(text string, at uint64) string {
	raw := binary.BigEndian.AppendUint32(nil, k.hash())
	raw = binary.BigEndian.AppendUint64(raw, at)
	raw = append(raw, ed25519.Sign(k.secret, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text))...)
	return fmt.Sprintf("— %s %s\n", k.Name, base64.StdEncoding.EncodeToString(raw))
}

// Cosign appends the key's line to a checkpoint.
func (k Key) Cosign(checkpoint []byte, at time.Time) []byte {
	text := checkpoint[:bytes.LastIndex(checkpoint, []byte("\n\n"))+1]
	return append(bytes.Clone(checkpoint), k.Line(string(text), uint64(at.Unix()))...)
}

// Server is a witness of one log that keeps its word. It is an http.Handler.
type Server struct {
	Key Key
	Log note.Verifier
	Now func() time.Time // nil is time.Now

	mu     sync.Mutex
	latest ledger.Checkpoint
	note   []byte
	asked  int
}

// Asked says how many add-checkpoint requests came.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Forget makes it a witness that has seen nothing.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest, s.note = ledger.Checkpoint{}, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, fmt.Sprintf("/%x/checkpoint", sha256.Sum256([]byte(s.Log.Name())))) && s.note != nil {
		_, _ = w.Write(s.note)
		return
	}
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/add-checkpoint") {
		http.Error(w, "no such address", http.StatusNotFound)
		return
	}
	s.asked++
	body, err := io.ReadAll(r.Body)
	head, msg, ok := bytes.Cut(body, []byte("\n\n"))
	if err != nil || !ok {
		http.Error(w, "no checkpoint", http.StatusBadRequest)
		return
	}
	lines := strings.Split(string(head), "\n")
	old, err := strconv.ParseInt(strings.TrimPrefix(lines[0], "old "), 10, 64)
	if err != nil {
		http.Error(w, "no old size", http.StatusBadRequest)
		return
	}
	if origin, _, _ := strings.Cut(string(msg), "\n"); origin != s.Log.Name() {
		http.Error(w, "unknown log", http.StatusNotFound)
		return
	}
	c, err := ledger.ParseCheckpoint(msg, s.Log)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if old != s.latest.Size {
		w.Header().Set("Content-Type", "text/x.tlog.size")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, "%d\n", s.latest.Size)
		return
	}
	var proof tlog.TreeProof
	for _, line := range lines[1:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		proof = append(proof, h)
	}
	if old > 0 && tlog.CheckTree(proof, c.Size, c.Root, old, s.latest.Root) != nil || old == 0 && len(proof) > 0 {
		http.Error(w, "not consistent", http.StatusUnprocessableEntity)
		return
	}
	now := time.Now()
	if s.Now != nil {
		now = s.Now()
	}
	s.latest, s.note = c, s.Key.Cosign(msg, now)
	_, _ = io.WriteString(w, s.Key.Line(string(msg[:bytes.LastIndex(msg, []byte("\n\n"))+1]), uint64(now.Unix())))
}
