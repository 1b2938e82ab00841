package evidence

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	godigest "github.com/opencontainers/go-digest"
)

// FormatError says what is wrong with a package or a file of bundles, and where.
type FormatError struct{ Member, Got, Want string }

func (e *FormatError) Error() string {
	return fmt.Sprintf("evidence: %s: got %s, want %s; ask the sender for the evidence again", e.Member, e.Got, e.Want)
}

// Read reads a package strictly. It checks form only: that members are exactly
// those that the index names. Whether they are true is for package verify.
func Read(r io.ReaderAt, size int64) (*Package, error) {
	if size > MaxPackage {
		return nil, &FormatError{"archive", fmt.Sprintf("%d bytes", size), fmt.Sprintf("at most %d", int64(MaxPackage))}
	}
	if err := checkDirectory(r, size); err != nil {
		return nil, err
	}
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, &FormatError{"archive", err.Error(), "a ZIP archive"}
	}
	members, err := unpack(z)
	if err != nil {
		return nil, err
	}
	p := &Package{Objects: map[godigest.Digest][]byte{}}
	if p.Index, err = readIndex(members); err != nil {
		return nil, err
	}
	if p.Checkpoint, err = take(members, checkpointName); err != nil {
		return nil, err
	}
	if p.Policy, err = take(members, policyName); err != nil {
		return nil, err
	}
	if err := p.takeEntries(members); err != nil {
		return nil, err
	}
	for _, o := range p.Index.Objects {
		if p.Objects[o.Digest], err = takeObject(members, objectPrefix, o); err != nil {
			return nil, err
		}
	}
	for _, o := range p.Index.Private {
		if p.Private == nil {
			p.Private = map[godigest.Digest][]byte{}
		}
		if p.Private[o.Digest], err = takeObject(members, privatePrefix, o.Object); err != nil {
			return nil, err
		}
	}
	for name := range members {
		return nil, &FormatError{name, "a member that evidence.json does not name", "none"}
	}
	if err := checkFrame(r, size, z); err != nil {
		return nil, err
	}
	return p, nil
}

// takeObject takes an object out of the members.
func takeObject(members map[string][]byte, prefix string, o Object) ([]byte, error) {
	if o.Digest.Validate() != nil || o.Digest.Algorithm() != godigest.SHA256 {
		return nil, &FormatError{indexName, fmt.Sprintf("object digest %q", o.Digest), "sha256"}
	}
	body, err := take(members, prefix+o.Digest.Encoded())
	if err != nil {
		return nil, err
	}
	if int64(len(body)) != o.Size {
		return nil, &FormatError{prefix + o.Digest.Encoded(), fmt.Sprintf("%d bytes", len(body)), fmt.Sprintf("%d as evidence.json says", o.Size)}
	}
	return body, nil
}

// checkDirectory bounds the ZIP directory before archive/zip reads it into
// memory (APPNOTE 6.3, section 4.3.16): it ends the archive, has no comment and
// no ZIP64 form, and is no longer than a package needs.
func checkDirectory(r io.ReaderAt, size int64) error {
	const endSize = 22
	var end [endSize]byte
	if size < endSize {
		return &FormatError{"archive", fmt.Sprintf("%d bytes", size), "a ZIP archive"}
	}
	if _, err := r.ReadAt(end[:], size-endSize); err != nil && !errors.Is(err, io.EOF) {
		return &FormatError{"archive", err.Error(), "a readable file"}
	}
	if string(end[:4]) != "PK\x05\x06" {
		return &FormatError{"archive", "no ZIP directory at its end", "a ZIP archive, whole and without a comment"}
	}
	count := int64(binary.LittleEndian.Uint16(end[10:]))
	length, start := int64(binary.LittleEndian.Uint32(end[12:])), int64(binary.LittleEndian.Uint32(end[16:]))
	switch {
	case count > MaxMembers:
		return &FormatError{"archive", fmt.Sprintf("%d members", count), fmt.Sprintf("at most %d", MaxMembers)}
	case length > maxDirectory:
		return &FormatError{"archive", fmt.Sprintf("a directory of %d bytes", length), fmt.Sprintf("at most %d", maxDirectory)}
	case start+length+endSize != size:
		return &FormatError{"archive", fmt.Sprintf("a directory that ends at byte %d of %d", start+length, size-endSize), "an archive with nothing before or between"}
	}
	return nil
}

// unpack reads all members within the limits.
func unpack(z *zip.Reader) (map[string][]byte, error) {
	if len(z.File) > MaxMembers {
		return nil, &FormatError{"archive", fmt.Sprintf("%d members", len(z.File)), fmt.Sprintf("at most %d", MaxMembers)}
	}
	members := map[string][]byte{}
	total := int64(0)
	for _, f := range z.File {
		if !knownName(f.Name) {
			return nil, &FormatError{f.Name, "an unknown member", "evidence.json, bundles.jsonl, checkpoint, policy.yaml, proofs/<index>, imported/<index>, objects/<sha256>, private/<sha256>"}
		}
		if _, twice := members[f.Name]; twice {
			return nil, &FormatError{f.Name, "two members of that name", "one"}
		}
		body, err := readMember(f, min(MaxMember, MaxTotal-total))
		if err != nil {
			return nil, err
		}
		total += int64(len(body))
		members[f.Name] = body
	}
	return members, nil
}

// readMember unpacks at most limit bytes, whatever size the header claims.
func readMember(f *zip.File, limit int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, &FormatError{f.Name, err.Error(), "a readable member"}
	}
	defer r.Close()
	var body bytes.Buffer
	n, err := io.Copy(&body, io.LimitReader(r, limit+1))
	if err != nil {
		return nil, &FormatError{f.Name, err.Error(), "a readable member"}
	}
	if n > limit {
		return nil, &FormatError{f.Name, fmt.Sprintf("more than %d bytes unpacked", limit), "a smaller member"}
	}
	return body.Bytes(), nil
}

func knownName(name string) bool {
	switch name {
	case indexName, bundlesName, checkpointName, policyName:
		return true
	}
	for _, prefix := range []string{proofPrefix, importedPrefix} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			n, err := strconv.ParseInt(rest, 10, 64)
			return err == nil && n >= 0 && strconv.FormatInt(n, 10) == rest
		}
	}
	for _, prefix := range []string{objectPrefix, privatePrefix} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return godigest.NewDigestFromEncoded(godigest.SHA256, rest).Validate() == nil
		}
	}
	return false
}

// take removes a member from the map, so that what is left over was not named.
func take(members map[string][]byte, name string) ([]byte, error) {
	body, ok := members[name]
	if !ok {
		return nil, &FormatError{name, "no such member", "one"}
	}
	delete(members, name)
	return body, nil
}

func readIndex(members map[string][]byte) (Index, error) {
	var index Index
	body, err := take(members, indexName)
	if err != nil {
		return index, err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&index); err != nil {
		return index, &FormatError{indexName, err.Error(), "the schema " + IndexURI}
	}
	if index.Schema != IndexURI {
		return index, &FormatError{indexName, fmt.Sprintf("schema %q", index.Schema), IndexURI}
	}
	again, err := json.Marshal(index)
	if err != nil {
		return index, &FormatError{indexName, err.Error(), "valid JSON"}
	}
	if again, err = jsoncanonicalizer.Transform(again); err != nil || !bytes.Equal(again, body) {
		return index, &FormatError{indexName, "JSON that does not read back as itself (a duplicate or wrongly cased key, or another form)", "RFC 8785 JSON"}
	}
	return index, nil
}

func (p *Package) takeEntries(members map[string][]byte) error {
	body, err := take(members, bundlesName)
	if err != nil {
		return err
	}
	if len(body) > 0 && body[len(body)-1] != '\n' {
		return &FormatError{bundlesName, "no line break at the end", "one behind each bundle"}
	}
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	if len(body) == 0 {
		lines = nil
	}
	if len(lines) != len(p.Index.Entries) {
		return &FormatError{bundlesName, fmt.Sprintf("%d lines", len(lines)), fmt.Sprintf("%d, one an entry", len(p.Index.Entries))}
	}
	p.Bundles = lines
	for i, e := range p.Index.Entries {
		if i > 0 && e.Index <= p.Index.Entries[i-1].Index {
			return &FormatError{indexName, fmt.Sprintf("entry %d after entry %d", e.Index, p.Index.Entries[i-1].Index), "entries in log order"}
		}
		proof, err := take(members, proofPrefix+strconv.FormatInt(int64(e.Index), 10))
		if err != nil {
			return err
		}
		p.Proofs = append(p.Proofs, proof)
		if e.Imported == nil {
			continue
		}
		if p.Vouched == nil {
			p.Vouched = make([][]byte, len(p.Index.Entries))
		}
		if p.Vouched[i], err = take(members, importedPrefix+strconv.FormatInt(int64(e.Index), 10)); err != nil {
			return err
		}
	}
	return nil
}
