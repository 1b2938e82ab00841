package ledger

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint is a C2SP tlog-checkpoint whose signature verified.
type Checkpoint struct {
	Origin    string    // identity of the log
	Size      int64     // entries in the tree
	Root      tlog.Hash // RFC 6962 root at that size
	Extension string    // opaque lines, each with its newline; empty in our own
}

// ParseCheckpoint opens a signed note (C2SP signed-note, tlog-checkpoint) of at
// most MaxCheckpointBytes. It must be signed by v, and its origin line must be
// v's name, so that one key cannot speak for two logs. Signatures by other
// keys, such as witnesses, are ignored as the specification asks.
func ParseCheckpoint(msg []byte, v note.Verifier) (Checkpoint, error) {
	if v == nil {
		return Checkpoint{}, errors.New("ledger: no key given to verify the checkpoint with")
	}
	if len(msg) > MaxCheckpointBytes {
		return Checkpoint{}, fmt.Errorf("ledger: checkpoint of %d bytes, want at most %d", len(msg), MaxCheckpointBytes)
	}
	n, err := note.Open(msg, note.VerifierList(v))
	if err != nil {
		var unverified *note.UnverifiedNoteError
		if errors.As(err, &unverified) {
			return Checkpoint{}, fmt.Errorf("ledger: checkpoint is not signed by %s (key hash %08x): %w", v.Name(), v.KeyHash(), err)
		}
		return Checkpoint{}, fmt.Errorf("ledger: checkpoint: %w", err)
	}
	for _, s := range n.Sigs {
		// RFC 4648 section 3.5: a last character that has bits too many is
		// another spelling of the same signature.
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
			return Checkpoint{}, fmt.Errorf("ledger: checkpoint signature by %s is not canonical base64: %w", s.Name, err)
		}
	}
	c, err := parseCheckpointText(n.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	if c.Origin != v.Name() {
		return Checkpoint{}, fmt.Errorf("ledger: checkpoint is of the log %q, want %q", c.Origin, v.Name())
	}
	return c, nil
}

// parseCheckpointText reads the note text, tlog-checkpoint section "Note text".
func parseCheckpointText(text string) (Checkpoint, error) {
	lines := strings.SplitN(text, "\n", 4)
	if len(lines) < 4 {
		return Checkpoint{}, fmt.Errorf("ledger: checkpoint text of %d lines, want origin, size and root", len(lines)-1)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] {
		return Checkpoint{}, fmt.Errorf("ledger: checkpoint size %.40q, want a decimal number without leading zeros", lines[1])
	}
	if size > MaxEntries {
		return Checkpoint{}, fmt.Errorf("ledger: checkpoint size %d, want at most %d", size, int64(MaxEntries))
	}
	root, err := parseHash(lines[2])
	if err != nil {
		return Checkpoint{}, fmt.Errorf("ledger: checkpoint root: %w", err)
	}
	if err := checkOrigin(lines[0]); err != nil {
		return Checkpoint{}, err
	}
	for rest := lines[3]; rest != ""; {
		line, after, found := strings.Cut(rest, "\n")
		if line == "" || !found {
			return Checkpoint{}, errors.New("ledger: checkpoint has an empty or unfinished extension line")
		}
		rest = after
	}
	return Checkpoint{Origin: lines[0], Size: size, Root: root, Extension: lines[3]}, nil
}

// text returns the note text.
func (c Checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n%s", c.Origin, c.Size, c.Root, c.Extension)
}

// parseHash reads the one base64 text of a hash; tlog.ParseHash takes several.
func parseHash(s string) (tlog.Hash, error) {
	h, err := tlog.ParseHash(s)
	if err != nil || h.String() != s {
		return tlog.Hash{}, fmt.Errorf("hash %.80q, want the base64 of %d bytes", s, tlog.HashSize)
	}
	return h, nil
}

// checkOrigin follows the stricter reading of the specification: a schema-less
// URL without spaces and plus, which also makes it a key name.
func checkOrigin(origin string) error {
	if origin == "" || len(origin) > MaxOriginBytes || !utf8.ValidString(origin) {
		return fmt.Errorf("ledger: origin of %d bytes, want 1 to %d bytes of UTF-8", len(origin), MaxOriginBytes)
	}
	if strings.ContainsFunc(origin, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '+' }) {
		return fmt.Errorf("ledger: origin %q, want neither spaces nor plus nor control characters", origin)
	}
	return nil
}
