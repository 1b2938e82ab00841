package ledger

import (
	"fmt"
	"unicode/utf8"

	godigest "github.com/opencontainers/go-digest"
)

// LeafIndex is the place of an entry in the log, from 0.
type LeafIndex int64

// Ref names one artifact by its digest.
type Ref struct {
	Name   string          // as the Statement spells it; may be empty
	Digest godigest.Digest // sha256
}

// Index is what an [Indexer] reads out of a bundle.
type Index struct {
	PAE           godigest.Digest // sha256 of the envelope's PAE
	PredicateType string
	Subjects      []Ref // artifacts that the Statement is about
	Dependencies  []Ref // artifacts that they were made of
}

// Indexer reads a bundle. It must be a pure function: [Log.Verify] calls it
// again on the stored bundle and compares. The log never takes its caller's
// word for what a bundle says.
type Indexer func(bundle []byte) (Index, error)

// Entry is one entry of the log with its bundle.
type Entry struct {
	Index        LeafIndex
	Leaf         Leaf
	Bundle       []byte
	Subjects     []Ref
	Dependencies []Ref

	// Existed is set by [Log.Append] and [Log.AppendAll] when the same bundle was in the log
	// already and nothing was added.
	Existed bool
}

func (x Index) check() error {
	if err := checkDigest(x.PAE); err != nil {
		return fmt.Errorf("PAE: %w", err)
	}
	if err := checkPredicateType(x.PredicateType); err != nil {
		return err
	}
	if err := checkRefs(x.Subjects); err != nil {
		return fmt.Errorf("subject %w", err)
	}
	if err := checkRefs(x.Dependencies); err != nil {
		return fmt.Errorf("dependency %w", err)
	}
	return nil
}

func checkRefs(refs []Ref) error {
	if len(refs) > MaxRefs {
		return fmt.Errorf("list of %d, want at most %d", len(refs), MaxRefs)
	}
	for i, r := range refs {
		if len(r.Name) > MaxNameBytes || !utf8.ValidString(r.Name) {
			return fmt.Errorf("%d: name %.80q, want UTF-8 of at most %d bytes", i, r.Name, MaxNameBytes)
		}
		if err := checkDigest(r.Digest); err != nil {
			return fmt.Errorf("%d (%.80q): %w", i, r.Name, err)
		}
	}
	return nil
}

// difference names the first way in which two lists of artifacts differ, or
// is empty.
func difference(got, want []Ref) (g, w string) {
	if len(got) != len(want) {
		return fmt.Sprintf("%d artifacts", len(got)), fmt.Sprintf("%d artifacts", len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Sprintf("[%d] %q %s", i, got[i].Name, got[i].Digest), fmt.Sprintf("[%d] %q %s", i, want[i].Name, want[i].Digest)
		}
	}
	return "", ""
}
