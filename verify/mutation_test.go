package verify_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// mutants counts the mutations of a valid package and what became of them.
type mutants struct {
	t       *testing.T
	d       *delivery
	whole   []byte // the valid package
	total   int
	asked   int            // of them
	neutral map[string]int // accepted with the very same content, by the reason why that is no fault
}

// newMutants makes a package whose policy its reader pins, and remembers what
// each bundle of it is worth: thousands of mutants share most of theirs.
func newMutants(t *testing.T) *mutants {
	d := deliver(t, policytest.New(t, fixtures.Policy))
	m := &mutants{t: t, d: d, neutral: map[string]int{}}
	d.Policies = []godigest.Digest{godigest.FromBytes(d.Package.Policy)}
	d.Claims = remember(d.Claims)
	var b bytes.Buffer
	if err := d.Package.Write(&b); err != nil {
		t.Fatal(err)
	}
	m.whole = b.Bytes()
	if verdict, _ := m.ask(m.whole); verdict != schemas.Passed {
		t.Fatalf("the valid package: %s", verdict)
	}
	return m
}

// ask reads and verifies a package; a package that cannot be read is failed.
func (m *mutants) ask(archive []byte) (schemas.Verdict, *evidence.Package) {
	pkg, err := evidence.Read(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return schemas.Failed, nil
	}
	d := *m.d
	d.Package = pkg
	return d.verify(m.t).Verdict, pkg
}

// try wants a mutant not to be accepted. One that is must hold exactly the same
// content as the valid package, and only a caller that says why may have such.
func (m *mutants) try(what, neutralBecause string, archive []byte) {
	m.t.Helper()
	m.total++
	if underRace && m.total%10 != 0 { // a part is enough to see races; without the detector all are tried
		return
	}
	m.asked++
	verdict, pkg := m.ask(archive)
	if verdict != schemas.Passed {
		return
	}
	if neutralBecause != "" && sameContent(pkg, m.d.Package) {
		m.neutral[neutralBecause]++
		return
	}
	m.t.Errorf("ACCEPTED: %s", what)
}

func (m *mutants) report(name string) {
	neutral := 0
	for _, n := range m.neutral {
		neutral += n
	}
	fmt.Printf("%s: %d mutations: 0 accepted (%d neutral)\n", name, m.asked, neutral)
	for _, why := range sortedNames(m.neutral) {
		fmt.Printf("  %d neutral: %s\n", m.neutral[why], why)
	}
	if m.total < 200 {
		m.t.Errorf("%d mutations: some were lost", m.total)
	}
}

func sortedNames(m map[string]int) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// sameContent tells whether two packages say the same: every signed byte, proof,
// object and the policy. What evidence.json says of an object besides its digest
// and size (its media type, the order, what is withheld) is for people: nothing
// decides by it.
func sameContent(a, b *evidence.Package) bool {
	text := func(p *evidence.Package) string {
		c := *p
		c.Index.Withheld = nil
		c.Index.Objects = slices.Clone(c.Index.Objects)
		for i := range c.Index.Objects {
			c.Index.Objects[i].MediaType = ""
		}
		slices.SortFunc(c.Index.Objects, func(a, b evidence.Object) int { return strings.Compare(string(a.Digest), string(b.Digest)) })
		body, err := json.Marshal(c)
		if err != nil {
			return err.Error()
		}
		return string(body)
	}
	return text(a) == text(b)
}

// remembered answers for a bundle at a moment as it did the first time.
type remembered struct {
	attest.Verifier
	said map[string]remember1
}

type remember1 struct {
	claim attest.Claim
	err   error
}

func remember(v attest.Verifier) attest.Verifier { return &remembered{v, map[string]remember1{}} }

func (r *remembered) Verify(ctx context.Context, bundle []byte, at time.Time) (attest.Claim, error) {
	key := at.String() + string(bundle)
	s, ok := r.said[key]
	if !ok {
		s.claim, s.err = r.Verifier.Verify(ctx, bundle, at)
		r.said[key] = s
	}
	return s.claim, s.err
}

// member is one member of an archive, to be packed anew.
type member struct {
	name string
	body []byte
}

func (m *mutants) members() []member {
	z, err := zip.NewReader(bytes.NewReader(m.whole), int64(len(m.whole)))
	if err != nil {
		m.t.Fatal(err)
	}
	var list []member
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			m.t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			m.t.Fatal(err)
		}
		list = append(list, member{f.Name, body})
	}
	return list
}

// packed packs members as Package.Write does, but fast.
func (m *mutants) packed(list []member) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, x := range list {
		w, err := z.CreateHeader(&zip.FileHeader{Name: x.name, Method: zip.Deflate})
		if err == nil {
			_, err = w.Write(x.body)
		}
		if err != nil {
			m.t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		m.t.Fatal(err)
	}
	return b.Bytes()
}

const forPeopleWords = "what evidence.json says of objects for people: media types, order, what is withheld"

// deflated are the ranges of the archive that hold the members' data, from and up to.
func (m *mutants) deflated() (list [][2]int64) {
	m.t.Helper()
	z, err := zip.NewReader(bytes.NewReader(m.whole), int64(len(m.whole)))
	if err != nil {
		m.t.Fatal(err)
	}
	for _, f := range z.File {
		from, err := f.DataOffset()
		if err != nil {
			m.t.Fatal(err)
		}
		list = append(list, [2]int64{from, from + int64(f.CompressedSize64)})
	}
	return list
}

// A bit of every third byte of the archive, headers and directory included.
func TestNoFlippedByteOfAPackageIsAccepted(t *testing.T) {
	m := newMutants(t)
	deflated := m.deflated()
	for i := 0; i < len(m.whole); i += 3 {
		b := bytes.Clone(m.whole)
		b[i] ^= 1 << (i % 8)
		neutral := ""
		if slices.ContainsFunc(deflated, func(d [2]int64) bool { return d[0] <= int64(i) && int64(i) < d[1] }) {
			neutral = "bits behind the last deflated block of a member, which say nothing: every member unpacks to the same bytes"
		}
		m.try(fmt.Sprintf("byte %d of the archive", i), neutral, b)
	}
	m.report("bytes of the archive")
}

// Bytes of each member, packed anew: a sample that touches every part of it.
func TestNoFlippedByteOfAMemberIsAccepted(t *testing.T) {
	m := newMutants(t)
	for k, x := range m.members() {
		step := max(1, len(x.body)/8)
		for i := 0; i < len(x.body); i += step {
			list := m.members()
			list[k].body[i] ^= 1 << (i % 7)
			neutral := ""
			if x.name == "evidence.json" {
				neutral = forPeopleWords
			}
			m.try(fmt.Sprintf("%s, byte %d", x.name, i), neutral, m.packed(list))
		}
	}
	m.report("bytes of members")
}

// Each member, bundle and object left out, doubled, emptied.
func TestNoPackageWithSomethingLeftOutIsAccepted(t *testing.T) {
	m := newMutants(t)
	for k, x := range m.members() {
		list := m.members()
		m.try("without "+x.name, "", m.packed(slices.Delete(list, k, k+1)))
		list = m.members()
		m.try(x.name+" twice", "", m.packed(slices.Insert(list, k, list[k])))
		list = m.members()
		list[k].body = nil
		m.try(x.name+" emptied", "", m.packed(list))
	}
	entries := len(m.d.Package.Index.Entries)
	for i := range entries {
		for j := i; j < entries; j++ {
			p := m.copy()
			for _, k := range slices.Compact([]int{j, i}) {
				p.Index.Entries = slices.Delete(p.Index.Entries, k, k+1)
				p.Bundles, p.Proofs = slices.Delete(p.Bundles, k, k+1), slices.Delete(p.Proofs, k, k+1)
			}
			if needless := m.needless(); i == needless && j == needless {
				m.total++
				m.neutral["the run of the stage complete left out: no rule of this policy reads it; one with standing.wholeLog refuses"]++
				continue
			}
			m.try(fmt.Sprintf("without entries %d and %d", i, j), "", m.write(p))
		}
	}
	objects := len(m.d.Package.Index.Objects)
	for i := range objects {
		for j := i; j < objects; j++ {
			p := m.copy()
			for _, k := range slices.Compact([]int{j, i}) {
				delete(p.Objects, p.Index.Objects[k].Digest)
				p.Index.Objects = slices.Delete(p.Index.Objects, k, k+1)
			}
			m.try(fmt.Sprintf("without objects %d and %d", i, j), "", m.write(p))
		}
	}
	m.report("things left out")
}

// needless is the place of the one claim that no rule of the example policy reads.
func (m *mutants) needless() int {
	return slices.IndexFunc(m.d.Package.Bundles, func(b []byte) bool {
		u, err := attest.Inspect(b)
		return err == nil && strings.Contains(u.Statement.String(), "stage/complete/v1")
	})
}

func (m *mutants) copy() *evidence.Package {
	pkg, err := evidence.Read(bytes.NewReader(m.whole), int64(len(m.whole)))
	if err != nil {
		m.t.Fatal(err)
	}
	return pkg
}

func (m *mutants) write(p *evidence.Package) []byte {
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		m.t.Fatal(err)
	}
	return b.Bytes()
}

// Every value of every JSON document of the package: evidence.json, each
// bundle, each signed Statement (not signed again), each object.
func TestNoReplacedValueIsAccepted(t *testing.T) {
	m := newMutants(t)
	for k, x := range m.members() {
		switch {
		case x.name == "evidence.json", strings.HasPrefix(x.name, "objects/"):
			for _, v := range variants(t, x.body) {
				list := m.members()
				list[k].body = v.body
				neutral := ""
				if x.name == "evidence.json" && forPeople(v.where) {
					neutral = forPeopleWords
				}
				m.try(x.name+": "+v.what, neutral, m.packed(list))
			}
		case x.name == "bundles.jsonl":
			m.bundles(k, x.body)
		}
	}
	m.report("values replaced")
}

func (m *mutants) bundles(k int, body []byte) {
	lines := bytes.SplitAfter(body, []byte("\n"))
	for i, line := range lines[:len(lines)-1] {
		bundle := bytes.TrimSuffix(line, []byte("\n"))
		put := func(what string, b []byte) {
			list := m.members()
			all := slices.Clone(lines)
			all[i] = append(bytes.Clone(b), '\n')
			list[k].body = bytes.Join(all, nil)
			m.try(fmt.Sprintf("bundle %d: %s", i, what), "", m.packed(list))
		}
		for _, v := range variants(m.t, bundle) {
			put(v.what, v.body)
		}
		var b map[string]any
		if err := json.Unmarshal(bundle, &b); err != nil {
			m.t.Fatal(err)
		}
		env := b["dsseEnvelope"].(map[string]any)
		payload, err := base64.StdEncoding.DecodeString(env["payload"].(string))
		if err != nil {
			m.t.Fatal(err)
		}
		all := variants(m.t, payload)
		for j := range all {
			env["payload"] = base64.StdEncoding.EncodeToString(all[j].body)
			put("signed "+all[j].what, canonicalJSON(m.t, b))
		}
	}
}

func canonicalJSON(t *testing.T, v any) []byte {
	t.Helper()
	body, err := json.Marshal(v)
	if err == nil {
		body, err = jsoncanonicalizer.Transform(body)
	}
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// forPeople tells whether nothing decides by a value of evidence.json.
func forPeople(where string) bool {
	return strings.HasPrefix(where, "/withheld") || (strings.HasPrefix(where, "/objects/") && (strings.HasSuffix(where, "/mediaType") || strings.Count(where, "/") == 2))
}

// variant is a JSON document with one thing changed.
type variant struct {
	what, where string
	body        []byte
}

// variants changes one value of a document at a time: replaced by each kind of
// value and by its sibling, removed, its key doubled, its key in another case.
// Of a large document they are a sample that touches every part.
func variants(t *testing.T, doc []byte) []variant {
	t.Helper()
	var list []variant
	var tree any
	if err := json.Unmarshal(doc, &tree); err != nil {
		t.Fatal(err)
	}
	old := canonicalJSON(t, tree)
	add := func(what, where string, body []byte) {
		if !bytes.Equal(body, old) {
			list = append(list, variant{where + " " + what, where, body})
		}
	}
	replace := func(where string, put func(any), was any) {
		for _, v := range []any{nil, true, 0, -1, "", []any{}, map[string]any{}} {
			put(v)
			add(fmt.Sprintf("replaced by %#v", v), where, canonicalJSON(t, tree))
		}
		put(was)
	}
	var walk func(v any, where string)
	walk = func(v any, where string) {
		switch v := v.(type) {
		case map[string]any:
			keys := make([]string, 0, len(v))
			for k := range v {
				keys = append(keys, k)
			}
			sort.Strings(keys)
			for i, k := range keys {
				at, was := where+"/"+k, v[k]
				replace(at, func(x any) { v[k] = x }, was)
				if i > 0 {
					before := keys[i-1]
					v[k], v[before] = v[before], v[k]
					add("swapped with "+before, at, canonicalJSON(t, tree))
					v[k], v[before] = v[before], v[k]
				}
				delete(v, k)
				add("removed", at, canonicalJSON(t, tree))
				v[flipCase(k)] = was
				add("its key in another case", at, canonicalJSON(t, tree))
				v[k] = was
				add("beside a key in another case", at, canonicalJSON(t, tree))
				delete(v, flipCase(k))
				const mark = "a key that no document has"
				v[mark] = nil
				add("its key twice", at, bytes.Replace(canonicalJSON(t, tree), []byte(`"`+mark+`"`), quoted(t, k), 1))
				delete(v, mark)
				walk(was, at)
			}
		case []any:
			for i, was := range v {
				at := fmt.Sprintf("%s/%d", where, i)
				replace(at, func(x any) { v[i] = x }, was)
				if i > 0 {
					v[i], v[i-1] = v[i-1], v[i]
					add("swapped with the one before", at, canonicalJSON(t, tree))
					v[i], v[i-1] = v[i-1], v[i]
				}
				walk(was, at)
			}
		}
	}
	walk(tree, "")
	const most = 12
	step := 1 + len(list)/most
	var sample []variant
	for i := 0; i < len(list); i += step {
		sample = append(sample, list[i])
	}
	return sample
}

func quoted(t *testing.T, key string) []byte {
	t.Helper()
	body, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func flipCase(key string) string {
	if up := strings.ToUpper(key[:1]) + key[1:]; up != key {
		return up
	}
	return strings.ToLower(key[:1]) + key[1:]
}
