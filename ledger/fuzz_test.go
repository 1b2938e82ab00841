package ledger_test

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// leaves that ParseLeaf must refuse, from a good one.
func badLeaves(good string) map[string]string {
	return map[string]string{
		"nothing":          "",
		"white space":      " " + good,
		"trailing bytes":   good + good,
		"another order":    strings.Replace(good, `{"appended":"2026-01-02T03:04:05Z",`, `{`, 1)[:len(good)-38] + `,"appended":"2026-01-02T03:04:05Z"}`,
		"unknown key":      strings.Replace(good, `{`, `{"a":1,`, 1),
		"repeated key":     strings.Replace(good, `{`, `{"appended":"2026-01-02T03:04:05Z",`, 1),
		"other case":       strings.Replace(good, `"pae"`, `"PAE"`, 1),
		"escape":           strings.Replace(good, `"type"`, `"t\u0079pe"`, 1),
		"another type":     strings.Replace(good, "leaf/v1", "leaf/v2", 1),
		"weak digest":      strings.Replace(good, "sha256:", "sha1:", 1),
		"upper-case hex":   strings.Replace(good, "sha256:", "sha256:A", 1),
		"fractional time":  strings.Replace(good, "05Z", "05.5Z", 1),
		"local time":       strings.Replace(good, "05Z", "05+00:00", 1),
		"impossible time":  strings.Replace(good, "01-02", "02-30", 1),
		"spaces in a type": strings.Replace(good, "predicate/v1", "predicate v1", 1),
		"too long":         strings.Replace(good, "predicate/v1", strings.Repeat("x", ledger.MaxLeafBytes), 1),
		"null":             "null",
		"a list":           "[" + good + "]",
	}
}

func goodLeaf(t testing.TB) (ledger.Leaf, []byte) {
	t.Helper()
	e := appendOne(t, inMemory().create(t), 0)
	text, err := e.Leaf.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return e.Leaf, text
}

func TestParseLeaf(t *testing.T) {
	leaf, text := goodLeaf(t)
	if got, err := ledger.ParseLeaf(text); err != nil || got != leaf {
		t.Fatalf("%+v, %v; want %+v", got, err, leaf)
	}
	for name, bad := range badLeaves(string(text)) {
		if bad == string(text) {
			t.Fatalf("%s: the case changes nothing", name)
		}
		if got, err := ledger.ParseLeaf([]byte(bad)); err == nil || got != (ledger.Leaf{}) {
			t.Errorf("%s: accepted %q", name, bad)
		}
	}
}

func FuzzParseLeaf(f *testing.F) {
	_, text := goodLeaf(f)
	f.Add(text)
	for _, bad := range badLeaves(string(text)) {
		f.Add([]byte(bad))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ledger.ParseLeaf(data)
		if err != nil {
			return
		}
		if again, err := l.Canonical(); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%q is written as %q, %v", data, again, err)
		}
	})
}

// proofs that VerifyProof must refuse, from a good one, and why.
func badProofs(good string) map[string][2]string {
	lines := strings.SplitAfter(good, "\n")
	without := func(i int) string { return strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), "") }
	return map[string][2]string{
		"nothing":              {"", "want the line"},
		"another version":      {strings.Replace(good, "@v1", "@v2", 1), "want the line"},
		"an extra line":        {strings.Replace(good, "index", "extra aGk=\nindex", 1), "extra line"},
		"no index":             {without(1), "index line"},
		"another index":        {strings.Replace(good, "index 3", "index 4", 1), "does not lead"},
		"an index too far":     {strings.Replace(good, "index 3", "index 300", 1), "does not lead"},
		"a padded index":       {strings.Replace(good, "index 3", "index 03", 1), "index line"},
		"a negative index":     {strings.Replace(good, "index 3", "index -3", 1), "index line"},
		"a hash missing":       {without(2), "does not lead"},
		"a hash too many":      {strings.Replace(good, "\n\n", "\n"+lines[2]+"\n", 1), "does not lead"},
		"hashes swapped":       {strings.Replace(good, lines[2]+lines[3], lines[3]+lines[2], 1), "does not lead"},
		"a short hash":         {strings.Replace(good, lines[2], "AAAA\n", 1), "want the base64"},
		"hashes without end":   {strings.Replace(good, lines[2], strings.Repeat(lines[2], 100), 1), "more than"},
		"no checkpoint":        {good[:strings.Index(good, "\n\n")+2], "no checkpoint"},
		"an unsigned one":      {good[:strings.LastIndex(good, "—")], "malformed"},
		"another size":         {strings.Replace(good, "\n7\n", "\n8\n", 1), "invalid signature"},
		"bytes after it":       {good + "x", "malformed"},
		"too long":             {good + strings.Repeat("x", ledger.MaxProofBytes), "want at most"},
		"a checkpoint's CR LF": {strings.ReplaceAll(good, "\n", "\r\n"), "want the line"},
	}
}

func goodProof(t testing.TB) (ledger.Leaf, []byte) {
	t.Helper()
	log := inMemory().create(t)
	entries := chain(t, log, 7)
	proof, err := log.Prove(t.Context(), 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	return entries[3].Leaf, proof
}

func TestVerifyProofRefuses(t *testing.T) {
	leaf, proof := goodProof(t)
	_, verifier := storetest.Keys(t, storetest.Origin, 1)
	if _, err := ledger.VerifyProof(proof, leaf, verifier); err != nil {
		t.Fatal(err)
	}
	for name, bad := range badProofs(string(proof)) {
		if bad[0] == string(proof) {
			t.Fatalf("%s: the case changes nothing", name)
		}
		if _, err := ledger.VerifyProof([]byte(bad[0]), leaf, verifier); err == nil || !strings.Contains(err.Error(), bad[1]) {
			t.Errorf("%s: %v, want %q", name, err, bad[1])
		}
	}
	_, stranger := storetest.Keys(t, storetest.Origin, 2)
	if _, err := ledger.VerifyProof(proof, leaf, stranger); err == nil || !strings.Contains(err.Error(), "not signed by") {
		t.Errorf("another key: %v, want: not signed by", err)
	}
	_, namesake := storetest.Keys(t, "log.example/other", 1)
	if _, err := ledger.VerifyProof(proof, leaf, namesake); err == nil || !strings.Contains(err.Error(), "not signed by") {
		t.Errorf("another log: %v, want: not signed by", err)
	}
	if _, err := ledger.VerifyProof(proof, leaf, nil); err == nil {
		t.Error("accepted without a key")
	}
}

// FuzzVerifyProof covers ParseProof, ParseCheckpoint and the check: whatever
// is accepted is the one proof that was made, up to unknown signatures.
func FuzzVerifyProof(f *testing.F) {
	leaf, proof := goodProof(f)
	_, verifier := storetest.Keys(f, storetest.Origin, 1)
	f.Add(proof)
	for _, bad := range badProofs(string(proof)) {
		f.Add([]byte(bad[0]))
	}
	end := bytes.LastIndex(proof, []byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ledger.VerifyProof(data, leaf, verifier)
		if err == nil && (c.Size != 7 || !bytes.HasPrefix(data, proof[:end])) {
			t.Fatalf("accepted %q", data)
		}
	})
}

func FuzzParseCheckpoint(f *testing.F) {
	signer, verifier := storetest.Keys(f, storetest.Origin, 1)
	for _, text := range []string{
		storetest.Origin + "\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n",
		storetest.Origin + "\n9223372036854775807\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n",
		storetest.Origin + "\n1\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\nextension\n",
		"log.example/other\n1\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n",
		"\n\n\n", storetest.Origin + "\n01\nAAAA\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// Sign whatever it is: the parser must cope with a key gone bad.
		msg, err := sign(text, signer)
		if err != nil {
			return
		}
		c, err := ledger.ParseCheckpoint(msg, verifier)
		if err == nil && (c.Origin != storetest.Origin || c.Size < 0 || c.Size > ledger.MaxEntries) {
			t.Fatalf("accepted %+v", c)
		}
	})
}

func sign(text string, s note.Signer) ([]byte, error) { return note.Sign(&note.Note{Text: text}, s) }
