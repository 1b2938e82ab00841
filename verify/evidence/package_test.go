package evidence_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// example is a small package; what is in it need only have the right form here.
func example() *evidence.Package {
	object := []byte(`{"verdict":"passed"}`)
	d := godigest.FromBytes(object)
	leaf := ledger.Leaf{Type: ledger.LeafType, PAE: d, Bundle: d, PredicateType: "https://example.com/p/v1", Appended: "2026-03-01T12:00:00Z"}
	return &evidence.Package{
		Index: evidence.Index{
			Schema: evidence.IndexURI, Origin: "example.com/log", File: evidence.File{Name: "model.gguf", Size: 3, Digest: d},
			Entries:  []evidence.Entry{{Index: 2, Leaf: leaf}, {Index: 10, Leaf: leaf}},
			Objects:  []evidence.Object{{Digest: d, Size: int64(len(object)), MediaType: "application/json"}},
			Withheld: []evidence.Object{},
		},
		Bundles: [][]byte{[]byte(`{"a":1}`), []byte(`{"b":2}`)}, Proofs: [][]byte{[]byte("proof 2\n"), []byte("proof 10\n")},
		Checkpoint: []byte("checkpoint\n"), Objects: map[godigest.Digest][]byte{d: object}, Policy: []byte("name: x\n"),
	}
}

// importedExample is one whose second entry came from another log.
func importedExample() *evidence.Package {
	p := example()
	p.Index.Entries[1].Imported = &evidence.Imported{Origin: "other.example/log", Leaf: p.Index.Entries[1].Leaf}
	p.Vouched = [][]byte{nil, []byte("proof 10 there\n")}
	return p
}

func written(t testing.TB, p *evidence.Package) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(body []byte) (*evidence.Package, error) {
	return evidence.Read(bytes.NewReader(body), int64(len(body)))
}

func TestWriteReadWriteGivesTheSameBytes(t *testing.T) {
	empty := example()
	empty.Index.Entries, empty.Bundles, empty.Proofs = []evidence.Entry{}, nil, nil
	for name, p := range map[string]*evidence.Package{"with entries": example(), "without": empty, "with an imported one": importedExample()} {
		first := written(t, p)
		again, err := read(first)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(written(t, again), first) {
			t.Errorf("%s: writing what was read gives other bytes", name)
		}
		if len(again.Bundles) != len(p.Bundles) || !bytes.Equal(again.Policy, p.Policy) || len(again.Objects) != 1 {
			t.Errorf("%s: read %+v", name, again)
		}
	}
}

func TestWriterRefusesWhatItCouldNotReadBack(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(*evidence.Package)
		words string
	}{
		"a bundle with a line break":      {func(p *evidence.Package) { p.Bundles[1] = []byte("{\n}") }, "bundle of entry 10 holds a line break"},
		"a bundle with a carriage return": {func(p *evidence.Package) { p.Bundles[0] = []byte("{\r}") }, "bundle of entry 2 holds a line break"},
		"fewer bundles than entries":      {func(p *evidence.Package) { p.Bundles = p.Bundles[:1] }, "2 entries, 1 bundles, 2 proofs"},
		"more proofs than entries":        {func(p *evidence.Package) { p.Proofs = append(p.Proofs, nil) }, "2 entries, 2 bundles, 3 proofs"},
		"another log without its proof": {func(p *evidence.Package) {
			p.Index.Entries[0].Imported = &evidence.Imported{Origin: "other.example/log"}
		}, "another log and its proof go together"},
		"another log's proof without the log":       {func(p *evidence.Package) { p.Vouched = [][]byte{[]byte("proof")} }, "another log and its proof go together"},
		"an object that is not in its index":        {func(p *evidence.Package) { p.Index.Objects = []evidence.Object{} }, "which evidence.json does not name"},
		"an index with an object that is not there": {func(p *evidence.Package) { p.Objects = nil }, "is named and not there"},
	} {
		p := example()
		c.do(p)
		if err := p.Write(io.Discard); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: got %v, want a refusal with %q", name, err, c.words)
		}
	}
}

// member is one file of an archive.
type member struct{ name, body string }

// members unpacks an archive, in order.
func members(t testing.TB, body []byte) []member {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	var list []member
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, member{f.Name, string(content)})
	}
	return list
}

func archive(t testing.TB, list []member) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, m := range list {
		f, err := z.Create(m.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, m.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// longDirectory says in an archive's last record that its directory is very long.
func longDirectory(body []byte) []byte {
	copy(body[len(body)-10:], "\xff\xff\xff\xff")
	return body
}

// malformed are packages that are refused, and why.
func malformed(t testing.TB) map[string]struct {
	body    []byte
	at, got string
} {
	t.Helper()
	good := members(t, written(t, example()))
	object := "objects/" + godigest.FromString(`{"verdict":"passed"}`).Encoded()
	other := "objects/" + godigest.FromString("other").Encoded()
	add := func(m member) []byte { return archive(t, append(append([]member{}, good...), m)) }
	without := func(name string) []byte {
		var list []member
		for _, m := range good {
			if m.name != name {
				list = append(list, m)
			}
		}
		if len(list) == len(good) {
			t.Fatalf("there is no member %s", name)
		}
		return archive(t, list)
	}
	replace := func(name, old, new string) []byte {
		list := append([]member{}, good...)
		for i, m := range list {
			if m.name == name {
				if !strings.Contains(m.body, old) {
					t.Fatalf("%s does not hold %q", name, old)
				}
				list[i].body = strings.Replace(m.body, old, new, 1)
			}
		}
		return archive(t, list)
	}
	type c = struct {
		body    []byte
		at, got string
	}
	return map[string]struct {
		body    []byte
		at, got string
	}{
		"no archive":                      c{[]byte("not a ZIP"), "archive", "9 bytes"},
		"nothing":                         c{nil, "archive", "0 bytes"},
		"a truncated archive":             c{archive(t, good)[:200], "archive", "no ZIP directory at its end"},
		"something before the archive":    c{append([]byte("#!/bin/sh\n"), archive(t, good)...), "archive", "a directory that ends at byte"},
		"something behind the archive":    c{append(archive(t, good), 0), "archive", "no ZIP directory at its end"},
		"a directory over the limit":      c{longDirectory(archive(t, good)), "archive", "a directory of 4294967295 bytes"},
		"an unknown member":               c{add(member{"README.md", "hello"}), "README.md", "an unknown member"},
		"a name that leads out":           c{add(member{"objects/../../etc/passwd", ""}), "objects/../../etc/passwd", "an unknown member"},
		"a folder":                        c{add(member{"objects/", ""}), "objects/", "an unknown member"},
		"another log's proof of no entry": c{add(member{"imported/10", "x"}), "imported/10", "a member that evidence.json does not name"},
		"another log's proof that is not there": c{func() []byte {
			var list []member
			for _, m := range members(t, written(t, importedExample())) {
				if m.name != "imported/10" {
					list = append(list, m)
				}
			}
			return archive(t, list)
		}(), "imported/10", "no such member"},
		"a proof with leading zeros":         c{add(member{"proofs/02", "x"}), "proofs/02", "an unknown member"},
		"a proof of a negative entry":        c{add(member{"proofs/-1", "x"}), "proofs/-1", "an unknown member"},
		"an object in capitals":              c{add(member{strings.ToUpper(other)[:8] + strings.ToUpper(other)[8:], "x"}), "OBJECTS/", "an unknown member"},
		"a second member of a name":          c{add(member{"policy.yaml", "name: y\n"}), "policy.yaml", "two members of that name"},
		"a proof that no entry names":        c{add(member{"proofs/11", "x"}), "proofs/11", "a member that evidence.json does not name"},
		"an object that the index lacks":     c{add(member{other, "other"}), other, "a member that evidence.json does not name"},
		"no index":                           c{without("evidence.json"), "evidence.json", "no such member"},
		"no bundles":                         c{without("bundles.jsonl"), "bundles.jsonl", "no such member"},
		"no checkpoint":                      c{without("checkpoint"), "checkpoint", "no such member"},
		"no policy":                          c{without("policy.yaml"), "policy.yaml", "no such member"},
		"no proof of an entry":               c{without("proofs/10"), "proofs/10", "no such member"},
		"no object":                          c{without(object), object, "no such member"},
		"an object of another size":          c{replace(object, "passed", "failing"), object, "21 bytes"},
		"a bundle too few":                   c{replace("bundles.jsonl", "{\"b\":2}\n", ""), "bundles.jsonl", "1 lines"},
		"a bundle too many":                  c{replace("bundles.jsonl", "{\"b\":2}\n", "{\"b\":2}\n{}\n"), "bundles.jsonl", "3 lines"},
		"no line break at the end":           c{replace("bundles.jsonl", "{\"b\":2}\n", "{\"b\":2}"), "bundles.jsonl", "no line break at the end"},
		"an index with a duplicate key":      c{replace("evidence.json", `{"entries"`, `{"origin":"x","entries"`), "evidence.json", "does not read back as itself"},
		"an index with a wrongly cased key":  c{replace("evidence.json", `"origin"`, `"Origin"`), "evidence.json", "does not read back as itself"},
		"an index with an unknown key":       c{replace("evidence.json", `"origin"`, `"also":1,"origin"`), "evidence.json", "unknown field"},
		"an index with white space":          c{replace("evidence.json", `"origin":`, `"origin": `), "evidence.json", "does not read back as itself"},
		"an index with something behind it":  c{replace("evidence.json", `"withheld":[]}`, `"withheld":[]}{}`), "evidence.json", "does not read back as itself"},
		"an index of another schema":         c{replace("evidence.json", evidence.IndexURI, evidence.IndexURI+"x"), "evidence.json", "schema "},
		"an index that is no object":         c{replace("evidence.json", `{"entries"`, `[{"entries"`), "evidence.json", ""},
		"entries out of order":               c{replace("evidence.json", `"index":10`, `"index":1`), "evidence.json", "entry 1 after entry 2"},
		"one entry twice":                    c{replace("evidence.json", `"index":10`, `"index":2`), "evidence.json", "entry 2 after entry 2"},
		"a weak object digest":               c{replace("evidence.json", `"digest":"sha256:`+object[8:]+`","mediaType"`, `"digest":"md5:00","mediaType"`), "evidence.json", `object digest "md5:00"`},
		"a member that unpacks to very much": c{add(member{other, strings.Repeat("\x00", evidence.MaxMember+1)}), other, fmt.Sprintf("more than %d bytes unpacked", evidence.MaxMember)},
	}
}

func TestMalformedPackagesAreRefused(t *testing.T) {
	for name, c := range malformed(t) {
		t.Run(name, func(t *testing.T) {
			p, err := read(c.body)
			var format *evidence.FormatError
			if !errors.As(err, &format) || p != nil {
				t.Fatalf("got %v, %v; want nothing and a *FormatError", p, err)
			}
			if !strings.HasPrefix(format.Member, c.at) || !strings.Contains(format.Got, c.got) {
				t.Errorf("got %q at %q, want %q at %q", format.Got, format.Member, c.got, c.at)
			}
		})
	}
}

// claimedSize is an archive of which only the size is known.
type claimedSize struct{}

func (claimedSize) ReadAt([]byte, int64) (int, error) { panic("read before the size was looked at") }

func TestAPackageOverTheLimitIsNotRead(t *testing.T) {
	if _, err := evidence.Read(claimedSize{}, evidence.MaxPackage+1); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("got %v, want a refusal by size", err)
	}
}

func TestTooManyMembersAreRefused(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range evidence.MaxMembers + 1 {
		if _, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("proofs/%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := read(b.Bytes()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("want at most %d", evidence.MaxMembers)) {
		t.Errorf("got %v, want a refusal by count", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(written(f, example()))
	f.Add(written(f, importedExample()))
	f.Add(written(f, privateExample()))
	seeds := 1
	for _, c := range malformed(f) {
		if len(c.body) < 8<<10 { // not the one that unpacks to very much
			f.Add(c.body)
			seeds++
		}
	}
	if seeds < 30 {
		f.Fatalf("only %d seeds", seeds)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := read(body)
		if err != nil {
			if p != nil {
				t.Fatal("a package beside an error")
			}
			return
		}
		// What was read can be written, and reads back as the same.
		first := written(t, p)
		again, err := read(first)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(written(t, again), first) {
			t.Fatal("writing what was read gives other bytes")
		}
	})
}
