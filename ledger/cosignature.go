package ledger

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// cosignatureKey is the signature type of Ed25519 cosignatures (C2SP
// signed-note, section "Signature types").
const cosignatureKey = 0x04

// Cosignature is one witness's verified word that, at a time, the checkpoint
// was the largest consistent tree that it had seen of the log.
type Cosignature struct {
	Name string    // the witness's key name
	Time time.Time // whole seconds, UTC
}

// WitnessKey is the public key of one witness, a [note.Verifier] of timestamped
// Ed25519 cosignatures (C2SP tlog-cosignature, "cosignature/v1").
type WitnessKey struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

// ParseWitnessKey reads a verifier key "name+hash+base64" of signature type
// 0x04. The hash must be the key's own. Keys of other types, such as a log's
// (0x01), are refused by name: what they sign carries no time.
func ParseWitnessKey(vkey string) (*WitnessKey, error) {
	name, rest, _ := strings.Cut(vkey, "+")
	hash16, key64, found := strings.Cut(rest, "+")
	if !found || checkOrigin(name) != nil {
		return nil, fmt.Errorf("ledger: witness key %.80q, want \"name+hash+key\"", vkey)
	}
	key, err := base64.StdEncoding.DecodeString(key64)
	if err != nil || base64.StdEncoding.EncodeToString(key) != key64 {
		return nil, fmt.Errorf("ledger: witness key of %s: its last part is not base64", name)
	}
	if len(key) == 0 || key[0] != cosignatureKey {
		return nil, fmt.Errorf("ledger: witness key of %s: got signature type %s, want 0x04 (timestamped Ed25519 cosignatures)", name, keyType(key))
	}
	if len(key) != 1+ed25519.PublicKeySize {
		return nil, fmt.Errorf("ledger: witness key of %s: got %d bytes, want %d", name, len(key)-1, ed25519.PublicKeySize)
	}
	sum := sha256.Sum256(slices.Concat([]byte(name), []byte("\n"), key))
	hash := binary.BigEndian.Uint32(sum[:])
	if got, err := strconv.ParseUint(hash16, 16, 32); err != nil || uint32(got) != hash || len(hash16) != 8 {
		return nil, fmt.Errorf("ledger: witness key of %s: got key hash %.20q, want %08x, the hash of this name and key", name, hash16, hash)
	}
	return &WitnessKey{name: name, hash: hash, key: ed25519.PublicKey(key[1:])}, nil
}

// keyType names a signature type.
func keyType(key []byte) string {
	if len(key) == 0 {
		return "none"
	}
	switch key[0] {
	case 0x01:
		return "0x01 (a log's Ed25519 key)"
	case 0x06:
		return "0x06 (ML-DSA-44, which this version does not verify)"
	}
	return fmt.Sprintf("%#02x", key[0])
}

// ParseWitnessKeys reads the keys of several witnesses. Two of one name, and one
// public key under two names, are refused: a threshold counts distinct keys.
func ParseWitnessKeys(vkeys ...string) ([]note.Verifier, error) {
	var list []note.Verifier
	for _, vkey := range vkeys {
		k, err := ParseWitnessKey(vkey)
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	_, err := distinctWitnesses(list)
	return list, err
}

// Name returns the key's name.
func (k *WitnessKey) Name() string { return k.name }

// KeyHash returns the key's id in signature lines.
func (k *WitnessKey) KeyHash() uint32 { return k.hash }

// Verify checks sig, 8 bytes of big-endian Unix time and an Ed25519 signature,
// over a checkpoint's text.
func (k *WitnessKey) Verify(text, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	if at > math.MaxInt64 {
		return false
	}
	// A witness signs checkpoints and nothing else.
	if _, err := parseCheckpointText(string(text)); err != nil {
		return false
	}
	return ed25519.Verify(k.key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text), sig[8:])
}

// Cosignatures returns, by name, the cosignatures that a checkpoint carries
// (C2SP tlog-cosignature, Ed25519). Witnesses are the keys of [ParseWitnessKeys]
// that the verifier was told to believe. The checkpoint must be signed by log,
// see [ParseCheckpoint]. Signatures of others are ignored, as the specification
// asks; one that claims to be of a given witness and is not fails the whole
// checkpoint. Each key counts once, and a witness that holds the log's own key
// is refused: the log cannot be its own witness. Whether a time is recent
// enough is the caller's to judge.
func Cosignatures(checkpoint []byte, log note.Verifier, witnesses []note.Verifier) ([]Cosignature, error) {
	n, err := openCosigned(checkpoint, log, witnesses)
	if err != nil {
		return nil, err
	}
	list := []Cosignature{}
	for _, s := range n.Sigs {
		if s.Name == log.Name() && s.Hash == log.KeyHash() {
			continue
		}
		at, err := cosignedAt(s)
		if err != nil {
			return nil, err
		}
		list = append(list, Cosignature{Name: s.Name, Time: at})
	}
	slices.SortFunc(list, func(a, b Cosignature) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// openCosigned verifies the signatures of the log and of the witnesses.
func openCosigned(checkpoint []byte, log note.Verifier, witnesses []note.Verifier) (*note.Note, error) {
	if _, err := ParseCheckpoint(checkpoint, log); err != nil {
		return nil, err
	}
	keys, err := distinctWitnesses(witnesses)
	if err != nil {
		return nil, err
	}
	n, err := note.Open(checkpoint, note.VerifierList(append([]note.Verifier{log}, witnesses...)...))
	var invalid *note.InvalidSignatureError
	if errors.As(err, &invalid) {
		return nil, fmt.Errorf("ledger: checkpoint: the signature that claims to be of %s (key hash %08x) is not: it was altered, or made over another checkpoint", invalid.Name, invalid.Hash)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: checkpoint: %w", err)
	}
	for _, s := range n.Sigs {
		raw, err := base64.StdEncoding.Strict().DecodeString(s.Base64)
		if err != nil {
			return nil, fmt.Errorf("ledger: checkpoint: signature of %s is not canonical base64: %w", s.Name, err)
		}
		if s.Name != log.Name() || s.Hash != log.KeyHash() {
			continue
		}
		for _, k := range keys {
			if ed25519.Verify(k.key, []byte(n.Text), raw[4:]) {
				return nil, fmt.Errorf("ledger: the witness %s has the public key of the log %s: a log cannot be its own witness", k.name, log.Name())
			}
		}
	}
	return n, nil
}

// distinctWitnesses refuses keys that a count would take for several. What an
// Ed25519 cosignature signs does not name the witness, so the key alone tells
// witnesses apart.
func distinctWitnesses(witnesses []note.Verifier) ([]*WitnessKey, error) {
	var keys []*WitnessKey
	for _, w := range witnesses {
		k, ok := w.(*WitnessKey)
		if !ok {
			return nil, fmt.Errorf("ledger: the key of witness %s is not one for cosignatures", w.Name())
		}
		for _, other := range keys {
			if other.key.Equal(k.key) && other.name == k.name {
				return nil, fmt.Errorf("ledger: the witness %s is given twice", k.name)
			}
			if other.key.Equal(k.key) {
				return nil, fmt.Errorf("ledger: the witnesses %s and %s have one public key: it would count twice", other.name, k.name)
			}
			if other.name == k.name {
				return nil, fmt.Errorf("ledger: two witnesses are named %s: give each its own name", k.name)
			}
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// cosignedAt reads the time of a verified cosignature.
func cosignedAt(s note.Signature) (time.Time, error) {
	raw, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(raw) < 12 {
		return time.Time{}, fmt.Errorf("ledger: cosignature of %s has no time", s.Name)
	}
	seconds := binary.BigEndian.Uint64(raw[4:])
	if seconds == 0 {
		return time.Time{}, fmt.Errorf("ledger: cosignature of %s has the time 0: it does not say when", s.Name)
	}
	return time.Unix(int64(seconds), 0).UTC(), nil
}
