// Package evidence reads and writes evidence packages: the <name>.evidence.zip
// that travels with a delivered file and from which it can be verified offline.
//
// A package is a ZIP archive (APPNOTE 6.3) with exactly these members:
//
//	evidence.json          what the package is about and holds (Index, RFC 8785 JSON)
//	bundles.jsonl          one Sigstore bundle a line, in log order
//	checkpoint             the log's newest signed checkpoint (C2SP tlog-checkpoint)
//	proofs/<index>         one inclusion proof an entry (C2SP tlog-proof)
//	imported/<index>       of an entry that came from another log, that log's proof of it
//	objects/<hex>          public evidence objects by their SHA-256
//	private/<hex>          private objects, of a package for another machine of one's own
//	policy.yaml            the policy that decided
//
// Members are sorted, undated and deflated, so that the same evidence gives the
// same bytes. Nothing stands before the first member or behind the directory,
// and there is no ZIP64. A reader refuses any other member, a second one of a name, and
// anything beyond the limits of this package before it unpacks it.
package evidence

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strconv"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/schemas"
)

// IndexURI identifies the first document of a package.
const IndexURI = schemas.BaseURI + "schema/evidence/v1"

// Limits of a package. They are checked before anything is unpacked.
const (
	MaxPackage   = 1 << 30   // bytes of the archive
	MaxMember    = 64 << 20  // bytes of one unpacked member
	MaxTotal     = 512 << 20 // bytes of all unpacked members
	MaxMembers   = 60_000    // below the 65,535 beyond which an archive needs ZIP64
	maxDirectory = 16 << 20  // bytes of the ZIP directory, over 250 a member
)

// Index is evidence.json.
type Index struct {
	Schema   string   `json:"schema"`
	File     File     `json:"file"`
	Origin   string   `json:"origin"` // of the log
	Entries  []Entry  `json:"entries"`
	Objects  []Object `json:"objects"`
	Withheld []Object `json:"withheld"` // private objects: digests only
	// Private are evidence objects that only another machine of one's own may
	// have. A package with any is marked so by this alone, and is never published.
	Private []Private `json:"private,omitempty"`
}

// Private is an object of a private package. Public says how it is marked where it came from.
type Private struct {
	Object
	Public bool `json:"public"`
}

// PrivateError says that a package holds what is not to be published.
type PrivateError struct{ Objects int }

func (e *PrivateError) Error() string {
	return fmt.Sprintf("evidence package: it holds %d objects that are for another machine of one's own; export the public package instead", e.Objects)
}

// Publishable refuses a private package.
func (p *Package) Publishable() error {
	if n := len(p.Index.Private); n > 0 {
		return &PrivateError{n}
	}
	return nil
}

// File is the delivered file that the package travels with.
type File struct {
	Name   string          `json:"name"`
	Size   int64           `json:"size"` // bytes
	Digest godigest.Digest `json:"digest"`
}

// Entry is one log entry; its bundle is the line of the same position in bundles.jsonl.
type Entry struct {
	Index ledger.LeafIndex `json:"index"`
	Leaf  ledger.Leaf      `json:"leaf"`
	// Imported says which log the entry came from, if from another one.
	Imported *Imported `json:"imported,omitempty"`
}

// Imported is an entry in the log that it came from. That log's word counts for
// when it was there, where the reader believes that log.
type Imported struct {
	Origin string      `json:"origin"`
	Leaf   ledger.Leaf `json:"leaf"`
}

// Object describes one evidence object. Size is in bytes.
type Object struct {
	Digest    godigest.Digest `json:"digest"`
	Size      int64           `json:"size"`
	MediaType string          `json:"mediaType"`
}

// Package is a package in memory.
type Package struct {
	Index      Index
	Loose      bool     // bundles without a log, see [Loose]; such a package is not written
	Bundles    [][]byte // as Index.Entries
	Proofs     [][]byte // as Index.Entries
	Vouched    [][]byte // as Index.Entries, the other log's proof of an imported entry; may be nil where none is
	Checkpoint []byte
	Objects    map[godigest.Digest][]byte
	Private    map[godigest.Digest][]byte // of Index.Private; nil where there are none
	Policy     []byte
}

const (
	indexName      = "evidence.json"
	bundlesName    = "bundles.jsonl"
	checkpointName = "checkpoint"
	policyName     = "policy.yaml"
	proofPrefix    = "proofs/"
	importedPrefix = "imported/"
	objectPrefix   = "objects/"
	privatePrefix  = "private/"
)

// VouchedFor is the proof of the log that an entry was imported from, by the
// entry's place in Index.Entries; nil if it was not imported.
func (p *Package) VouchedFor(i int) []byte {
	if i >= len(p.Vouched) {
		return nil
	}
	return p.Vouched[i]
}

// Write writes the package. A bundle that holds a line break is refused: it
// could not be told from two.
func (p *Package) Write(w io.Writer) error {
	if p.Loose {
		return fmt.Errorf("evidence package: loose bundles have no log that vouches for them; export the file from a ledger")
	}
	if len(p.Bundles) != len(p.Index.Entries) || len(p.Proofs) != len(p.Index.Entries) {
		return fmt.Errorf("evidence package: %d entries, %d bundles, %d proofs; want as many of each", len(p.Index.Entries), len(p.Bundles), len(p.Proofs))
	}
	index, err := json.Marshal(p.Index)
	if err != nil {
		return err
	}
	if index, err = jsoncanonicalizer.Transform(index); err != nil {
		return err
	}
	members := map[string][]byte{indexName: index, checkpointName: p.Checkpoint, policyName: p.Policy}
	var lines bytes.Buffer
	for i, b := range p.Bundles {
		if bytes.ContainsAny(b, "\r\n") {
			return fmt.Errorf("evidence package: bundle of entry %d holds a line break; write bundles as one line of JSON", p.Index.Entries[i].Index)
		}
		lines.Write(b)
		lines.WriteByte('\n')
		number := strconv.FormatInt(int64(p.Index.Entries[i].Index), 10)
		members[proofPrefix+number] = p.Proofs[i]
		vouched := p.VouchedFor(i)
		if (vouched != nil) != (p.Index.Entries[i].Imported != nil) {
			return fmt.Errorf("evidence package: entry %s: another log and its proof go together", number)
		}
		if vouched != nil {
			members[importedPrefix+number] = vouched
		}
	}
	members[bundlesName] = lines.Bytes()
	named := map[godigest.Digest]bool{}
	for _, o := range p.Index.Objects {
		named[o.Digest] = true
		if _, ok := p.Objects[o.Digest]; !ok {
			return fmt.Errorf("evidence package: object %s is named and not there", o.Digest)
		}
	}
	for d, body := range p.Objects {
		if !named[d] {
			return fmt.Errorf("evidence package: object %s is there, which evidence.json does not name", d)
		}
		members[objectPrefix+d.Encoded()] = body
	}
	if len(p.Private) != len(p.Index.Private) {
		return fmt.Errorf("evidence package: %d private objects, and evidence.json names %d", len(p.Private), len(p.Index.Private))
	}
	for _, o := range p.Index.Private {
		body, ok := p.Private[o.Digest]
		if !ok {
			return fmt.Errorf("evidence package: private object %s is named and not there", o.Digest)
		}
		members[privatePrefix+o.Digest.Encoded()] = body
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	sort.Strings(names)
	z := zip.NewWriter(w)
	for _, name := range names {
		f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err != nil {
			return err
		}
		if _, err := f.Write(members[name]); err != nil {
			return err
		}
	}
	return z.Close()
}
