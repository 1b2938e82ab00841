package ledger_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	formatnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/storetest"
	"github.com/weighmaster/weighmaster/ledger/witness/witnesstest"
)

var (
	moment = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	w1     = witnesstest.NewKey("witness.example/w1", 1)
	w2     = witnesstest.NewKey("witness.example/w2", 2)
)

func witnessKeys(t testing.TB, keys ...witnesstest.Key) []note.Verifier {
	t.Helper()
	var texts []string
	for _, k := range keys {
		texts = append(texts, k.String())
	}
	list, err := ledger.ParseWitnessKeys(texts...)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// cosignedLog returns a log of n entries and its checkpoint.
func cosignedLog(t *testing.T, n int) (*ledger.Log, []byte, note.Verifier) {
	t.Helper()
	log := inMemory().create(t)
	chain(t, log, n)
	checkpoint, err := log.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, verifier := storetest.Keys(t, storetest.Origin, 1)
	return log, checkpoint, verifier
}

func TestCosignaturesAreCounted(t *testing.T) {
	_, checkpoint, log := cosignedLog(t, 5)
	both := w2.Cosign(w1.Cosign(checkpoint, moment), moment.Add(time.Hour))
	for _, c := range []struct {
		name      string
		msg       []byte
		witnesses []witnesstest.Key
		want      []ledger.Cosignature
	}{
		{"none", checkpoint, []witnesstest.Key{w1, w2}, []ledger.Cosignature{}},
		{"both", both, []witnesstest.Key{w2, w1}, []ledger.Cosignature{{w1.Name, moment}, {w2.Name, moment.Add(time.Hour)}}},
		{"a stranger's is ignored", both, []witnesstest.Key{w1}, []ledger.Cosignature{{w1.Name, moment}}},
		{"one witness twice counts once", w1.Cosign(w1.Cosign(checkpoint, moment), moment.Add(time.Minute)), []witnesstest.Key{w1, w2}, []ledger.Cosignature{{w1.Name, moment}}},
		{"the same name with another key is a stranger", witnesstest.NewKey(w1.Name, 9).Cosign(checkpoint, moment), []witnesstest.Key{w1}, []ledger.Cosignature{}},
		{"the same key under another name is a stranger", witnesstest.NewKey("witness.example/other", 1).Cosign(checkpoint, moment), []witnesstest.Key{w1}, []ledger.Cosignature{}},
	} {
		got, err := ledger.Cosignatures(c.msg, log, witnessKeys(t, c.witnesses...))
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
}

func TestCosignaturesRefused(t *testing.T) {
	_, checkpoint, log := cosignedLog(t, 5)
	_, smaller, _ := cosignedLog(t, 4)
	text := string(checkpoint[:bytes.LastIndex(checkpoint, []byte("\n\n"))+1])
	otherText := string(smaller[:bytes.LastIndex(smaller, []byte("\n\n"))+1])
	line := w1.Line(text, 1000)
	flipped := func(offset int) []byte { // a bit of key id + time + signature
		prefix, b64, _ := strings.Cut(strings.TrimSuffix(line, "\n"), w1.Name+" ")
		raw, err := base64.StdEncoding.DecodeString(b64)
		if err != nil {
			t.Fatal(err)
		}
		raw[offset] ^= 1
		return append(bytes.Clone(checkpoint), prefix+w1.Name+" "+base64.StdEncoding.EncodeToString(raw)+"\n"...)
	}
	good, err := ledger.Cosignatures(append(bytes.Clone(checkpoint), line...), log, witnessKeys(t, w1))
	if err != nil || len(good) != 1 {
		t.Fatalf("%v, %v", good, err)
	}
	for _, c := range []struct {
		name string
		msg  []byte
		want string
	}{
		{"time altered", flipped(11), "claims to be of witness.example/w1"},
		{"signature altered", flipped(30), "claims to be of witness.example/w1"},
		{"over another size", append(bytes.Clone(checkpoint), w1.Line(otherText, 1000)...), "claims to be of witness.example/w1"},
		{"time above 2^63-1", append(bytes.Clone(checkpoint), w1.Line(text, 1<<63)...), "claims to be of witness.example/w1"},
		{"without a time", append(bytes.Clone(checkpoint), w1.Line(text, 0)...), "has the time 0"},
		{"spare bits set", append(bytes.Clone(checkpoint), spareBits(line)...), "not canonical base64"},
		{"not signed by the log", append([]byte(text+"\n"), line...), "not signed by"},
		{"signed by the log only after an edit", w1.Cosign(bytes.Replace(checkpoint, []byte("\n5\n"), []byte("\n6\n"), 1), moment), "invalid signature"},
	} {
		got, err := ledger.Cosignatures(c.msg, log, witnessKeys(t, w1))
		if err == nil || !strings.Contains(err.Error(), c.want) || got != nil {
			t.Errorf("%s: %v, %v; want nothing and %q", c.name, got, err, c.want)
		}
	}
}

// spareBits spells a line whose base64 ends in "==" in a second way: the last
// digit before them has bits that decode to nothing.
func spareBits(line string) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	last := len(line) - len("?==\n")
	return line[:last] + string(digits[strings.IndexByte(digits, line[last])|1]) + line[last+1:]
}

// TestWitnessKeysAreDistinct keeps one key from counting as two.
func TestWitnessKeysAreDistinct(t *testing.T) {
	renamed := witnesstest.NewKey("witness.example/renamed", 1)
	for _, c := range []struct {
		name string
		keys []string
		want string
	}{
		{"one key under two names", []string{w1.String(), renamed.String()}, "have one public key"},
		{"twice", []string{w1.String(), w2.String(), w1.String()}, "given twice"},
		{"one name for two keys", []string{w1.String(), witnesstest.NewKey(w1.Name, 7).String()}, "two witnesses are named"},
		{"a log's key", []string{"log.example/x+dd5a5cdb+ATHyrFpRHJzAcxOQkqnBsTGL0gKgOzvSDbOVwqzRrIZh"}, "0x01"},
		{"hash of another name", []string{strings.Replace(w1.String(), "w1+", "w3+", 1)}, "key hash"},
		{"type altered", []string{w1.Name + "+00000000+" + base64.StdEncoding.EncodeToString(append([]byte{6}, make([]byte, 1312)...))}, "ML-DSA"},
		{"short", []string{w1.Name + "+00000000+BAAA"}, "got 2 bytes, want 32"},
		{"no name", []string{strings.TrimPrefix(w1.String(), w1.Name)}, "want \"name+hash+key\""},
		{"trailing bits", []string{w1.String() + "="}, "not base64"},
	} {
		if _, err := ledger.ParseWitnessKeys(c.keys...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	_, checkpoint, log := cosignedLog(t, 1)
	a, errA := ledger.ParseWitnessKey(w1.String())
	b, errB := ledger.ParseWitnessKey(renamed.String())
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if _, err := ledger.Cosignatures(checkpoint, log, []note.Verifier{a, b}); err == nil || !strings.Contains(err.Error(), "have one public key") {
		t.Errorf("%v, want one key under two names refused", err)
	}
	if _, err := ledger.Cosignatures(checkpoint, log, []note.Verifier{log}); err == nil || !strings.Contains(err.Error(), "not one for cosignatures") {
		t.Errorf("%v, want a log's key refused", err)
	}
}

// TestLogIsNotItsOwnWitness: the log's public key, dressed as a witness's.
func TestLogIsNotItsOwnWitness(t *testing.T) {
	_, checkpoint, log := cosignedLog(t, 1)
	parts := strings.SplitN(storetest.VerifierKey(t, storetest.Origin, 1), "+", 3)
	key, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	key[0] = 0x04
	for _, name := range []string{storetest.Origin, "witness.example/own"} {
		sum := sha256.Sum256(append([]byte(name+"\n"), key...))
		keys, err := ledger.ParseWitnessKeys(fmt.Sprintf("%s+%x+%s", name, sum[:4], base64.StdEncoding.EncodeToString(key)))
		if err != nil {
			t.Fatal(err)
		}
		if list, err := ledger.Cosignatures(checkpoint, log, keys); err == nil || !strings.Contains(err.Error(), "cannot be its own witness") || list != nil {
			t.Errorf("%s: %v, %v, want it refused", name, list, err)
		}
	}
}

// TestOtherImplementationsReadCosignatures gives what our tests sign to
// transparency-dev's verifier, and what its signer makes to ours.
func TestOtherImplementationsReadCosignatures(t *testing.T) {
	_, checkpoint, log := cosignedLog(t, 5)
	msg := w1.Cosign(checkpoint, moment)
	theirs, err := formatnote.NewVerifierForCosignatureV1(w1.String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(msg, note.VerifierList(theirs))
	if err != nil {
		t.Fatal(err)
	}
	if at, err := formatnote.CoSigV1Timestamp(n.Sigs[0]); err != nil || !at.Equal(moment) {
		t.Errorf("time %s, %v; want %s", at, err, moment)
	}
	secret, public, err := note.GenerateKey(rand.Reader, "witness.example/theirs")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := formatnote.NewSignerForCosignatureV1(secret)
	if err != nil {
		t.Fatal(err)
	}
	if public, err = formatnote.VKeyToCosignatureV1(public); err != nil {
		t.Fatal(err)
	}
	opened, err := note.Open(checkpoint, note.VerifierList(log))
	if err != nil {
		t.Fatal(err)
	}
	cosigned, err := note.Sign(opened, signer)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ledger.ParseWitnessKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	list, err := ledger.Cosignatures(cosigned, log, keys)
	if err != nil || len(list) != 1 || time.Since(list[0].Time) > time.Hour {
		t.Errorf("%v, %v; want theirs of just now", list, err)
	}
}

// TestTorchwoodReadsCosignatures gives ours to the other reference implementation.
func TestTorchwoodReadsCosignatures(t *testing.T) {
	program := torchwood(t)
	_, checkpoint, _ := cosignedLog(t, 5)
	file := filepath.Join(t.TempDir(), "checkpoint")
	if err := os.WriteFile(file, w2.Cosign(w1.Cosign(checkpoint, moment), moment), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "cosignatures", file, w1.String()).CombinedOutput()
	if want := fmt.Sprintf("%s %d\n", w1.Name, moment.Unix()); err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
	if out, err := exec.Command(program, "cosignatures", file, witnesstest.NewKey(w1.Name, 9).String()).CombinedOutput(); err == nil {
		t.Errorf("%q for another key of the same name, want it refused", out)
	}
}

// TestTorchwoodReadsProofs gives proofs to torchwood's checkpoint parser and
// proofs of nodes.
func TestTorchwoodReadsProofs(t *testing.T) {
	program := torchwood(t)
	log := inMemory().create(t)
	entries := chain(t, log, 11)
	vkey := storetest.VerifierKey(t, storetest.Origin, 1)
	dir := t.TempDir()
	check := func(proof, leaf []byte) (string, error) {
		for name, data := range map[string][]byte{"proof": proof, "leaf": leaf} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command(program, "proof", filepath.Join(dir, "proof"), filepath.Join(dir, "leaf"), vkey).CombinedOutput()
		return string(out), err
	}
	for _, e := range entries[8:] {
		proof, err := log.Prove(t.Context(), e.Index, nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := e.Leaf.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := check(proof, leaf); err != nil || out != fmt.Sprintf("%d 11\n", e.Index) {
			t.Errorf("entry %d: %q, %v", e.Index, out, err)
		}
		leaf[20] ^= 1
		if out, err := check(proof, leaf); err == nil {
			t.Errorf("entry %d: %q for another leaf, want it refused", e.Index, out)
		}
	}
}

// torchwood is the reader that .ci/interop/install-witness builds.
func torchwood(t *testing.T) string {
	t.Helper()
	program := os.Getenv("WEIGHMASTER_TORCHWOOD")
	if program == "" {
		shared.Missing(t, "WEIGHMASTER_TORCHWOOD does not name a reader made of filippo.io/torchwood; see .ci/interop/install-witness")
	}
	return program
}

func TestAddCosignatures(t *testing.T) {
	for name, s := range map[string]*site{"memory": inMemory(), "disk": onDisk(t)} {
		t.Run(name, func(t *testing.T) {
			log := s.create(t)
			chain(t, log, 3)
			ctx := t.Context()
			keys := witnessKeys(t, w1, w2)
			plain, err := log.Checkpoint(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := log.AddCosignatures(ctx, plain, keys); err == nil || !strings.Contains(err.Error(), "no cosignature") {
				t.Errorf("%v, want a checkpoint without cosignatures refused", err)
			}
			steps := []struct {
				given []byte
				want  []ledger.Cosignature
			}{
				{w1.Cosign(plain, moment), []ledger.Cosignature{{w1.Name, moment}}},
				{w2.Cosign(plain, moment), []ledger.Cosignature{{w1.Name, moment}, {w2.Name, moment}}},
				{w1.Cosign(plain, moment.Add(time.Hour)), []ledger.Cosignature{{w1.Name, moment.Add(time.Hour)}, {w2.Name, moment}}}, // the later stays
				{w1.Cosign(plain, moment.Add(-time.Hour)), []ledger.Cosignature{{w1.Name, moment.Add(time.Hour)}, {w2.Name, moment}}},
			}
			for i, step := range steps {
				merged, err := log.AddCosignatures(ctx, step.given, keys)
				if err != nil {
					t.Fatal(err)
				}
				reopened, err := ledger.Open(ctx, s.store, s.options(t))
				if err != nil {
					t.Fatal(err)
				}
				for where, l := range map[string]*ledger.Log{"same log": log, "opened again": reopened} {
					newest, err := l.Checkpoint(ctx)
					if err != nil || !bytes.Equal(newest, merged) {
						t.Errorf("step %d, %s: checkpoint %q, %v; want %q", i, where, newest, err, merged)
					}
				}
				got, err := ledger.Cosignatures(merged, s.options(t).Verifier, keys)
				if err != nil || len(got) != len(step.want) {
					t.Fatalf("step %d: %v, %v; want %v", i, got, err, step.want)
				}
				for j := range got {
					if got[j] != step.want[j] {
						t.Errorf("step %d: %v, want %v", i, got, step.want)
					}
				}
			}
			if v, err := log.Verify(ctx); err != nil || !v.OK() {
				t.Errorf("%+v, %v", v, err)
			}
			// The next checkpoint is not cosigned, and the cosigned one stays.
			appendOne(t, log, 77)
			newest, err := log.Checkpoint(ctx)
			if got, errC := ledger.Cosignatures(newest, s.options(t).Verifier, keys); err != nil || errC != nil || len(got) != 0 {
				t.Errorf("%v, %v, %v", got, err, errC)
			}
			kept, err := s.checkpoints.At(ctx, 3)
			if got, errC := ledger.Cosignatures(kept, s.options(t).Verifier, keys); err != nil || errC != nil || len(got) != 2 {
				t.Errorf("%v, %v, %v", got, err, errC)
			}
		})
	}
}

// TestReplaceComparesFirst: a cosigned checkpoint replaces only what was read.
func TestReplaceComparesFirst(t *testing.T) {
	for name, s := range map[string]*site{"memory": inMemory(), "disk": onDisk(t)} {
		c := s.checkpoints
		ctx := t.Context()
		if err := c.Put(ctx, 1, []byte("o\n1\nold\n")); err != nil {
			t.Fatal(err)
		}
		if err := c.Replace(ctx, 1, []byte("o\n1\nother\n"), []byte("o\n1\nnew\n")); !errors.Is(err, ledger.ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", name, err)
		}
		if err := c.Replace(ctx, 2, nil, []byte("o\n2\nnew\n")); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
		if got, err := c.At(ctx, 1); err != nil || string(got) != "o\n1\nold\n" {
			t.Errorf("%s: %q, %v after refused replacements", name, got, err)
		}
		if err := c.Replace(ctx, 1, []byte("o\n1\nold\n"), []byte("o\n1\nnew\n")); err != nil {
			t.Fatal(err)
		}
		for _, read := range []func() ([]byte, error){func() ([]byte, error) { return c.At(ctx, 1) }, func() ([]byte, error) { return c.Latest(ctx) }} {
			if got, err := read(); err != nil || string(got) != "o\n1\nnew\n" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
}
