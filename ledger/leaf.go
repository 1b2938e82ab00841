package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/tlog"
)

// LeafType is the type of every leaf of this version.
const LeafType = "https://github.com/weighmaster/weighmaster/ledger/leaf/v1"

// timeLayout is RFC 3339 in UTC with whole seconds: one text for one moment.
const timeLayout = "2006-01-02T15:04:05Z"

// Leaf is what the tree hashes.
type Leaf struct {
	Type          string          `json:"type"`          // LeafType
	PAE           godigest.Digest `json:"pae"`           // sha256 of the envelope's DSSE PAE, what was signed
	Bundle        godigest.Digest `json:"bundle"`        // sha256 of the bundle's bytes
	PredicateType string          `json:"predicateType"` // of the Statement in the envelope
	Appended      string          `json:"appended"`      // RFC 3339, UTC, whole seconds, "Z"
}

// Canonical returns the leaf's RFC 8785 JSON. It refuses a leaf that
// [ParseLeaf] would refuse.
func (l Leaf) Canonical() ([]byte, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	plain, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("ledger: encode leaf: %w", err)
	}
	canonical, err := jsoncanonicalizer.Transform(plain)
	if err != nil {
		return nil, fmt.Errorf("ledger: canonical form of leaf: %w", err)
	}
	if len(canonical) > MaxLeafBytes {
		return nil, fmt.Errorf("ledger: leaf of %d bytes, want at most %d", len(canonical), MaxLeafBytes)
	}
	return canonical, nil
}

// Hash returns the leaf hash, RFC 6962 section 2.1: SHA-256(0x00 || Canonical).
func (l Leaf) Hash() (tlog.Hash, error) {
	canonical, err := l.Canonical()
	if err != nil {
		return tlog.Hash{}, err
	}
	return tlog.RecordHash(canonical), nil
}

// ParseLeaf reads a canonical leaf of at most MaxLeafBytes. It accepts exactly
// what [Leaf.Canonical] writes, byte for byte: no other order, white space,
// escapes, unknown or repeated keys.
func ParseLeaf(data []byte) (Leaf, error) {
	if len(data) > MaxLeafBytes {
		return Leaf{}, fmt.Errorf("ledger: leaf of %d bytes, want at most %d", len(data), MaxLeafBytes)
	}
	var l Leaf
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return Leaf{}, fmt.Errorf("ledger: leaf is not the JSON of a leaf: %w", err)
	}
	canonical, err := l.Canonical()
	if err != nil {
		return Leaf{}, err
	}
	if !bytes.Equal(canonical, data) {
		return Leaf{}, fmt.Errorf("ledger: leaf is not canonical (RFC 8785): got %.200q, want %.200q", data, canonical)
	}
	return l, nil
}

func (l Leaf) check() error {
	if l.Type != LeafType {
		return fmt.Errorf("ledger: leaf type %q, want %q; a newer version may have written it", l.Type, LeafType)
	}
	if err := checkDigest(l.PAE); err != nil {
		return fmt.Errorf("ledger: leaf field pae: %w", err)
	}
	if err := checkDigest(l.Bundle); err != nil {
		return fmt.Errorf("ledger: leaf field bundle: %w", err)
	}
	if err := checkPredicateType(l.PredicateType); err != nil {
		return fmt.Errorf("ledger: leaf field predicateType: %w", err)
	}
	t, err := time.Parse(timeLayout, l.Appended)
	if err != nil || t.Format(timeLayout) != l.Appended {
		return fmt.Errorf("ledger: leaf field appended: got %.64q, want RFC 3339 in UTC with whole seconds such as 2026-01-31T12:00:00Z", l.Appended)
	}
	return nil
}

// checkDigest accepts "sha256:" and 64 lower-case hexadecimal digits.
func checkDigest(d godigest.Digest) error {
	if len(d) > 256 {
		return fmt.Errorf("digest of %d characters, want sha256: and 64 hexadecimal digits", len(d))
	}
	if err := d.Validate(); err != nil || d.Algorithm() != godigest.SHA256 {
		return fmt.Errorf("digest %q, want sha256: and 64 lower-case hexadecimal digits", string(d))
	}
	return nil
}

func checkPredicateType(s string) error {
	if s == "" || len(s) > MaxPredicateTypeBytes {
		return fmt.Errorf("predicate type of %d bytes, want 1 to %d", len(s), MaxPredicateTypeBytes)
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fmt.Errorf("predicate type %.200q, want UTF-8 without spaces and control characters", s)
	}
	return nil
}
