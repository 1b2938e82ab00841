package storetest

import (
	"reflect"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger"
)

// oddNames are kept byte for byte by every store: a name is not text to a store.
// What no name may be is for the [ledger.Log] to say.
var oddNames = []string{
	"", " ", "\x00", "a\x00b", "\x00a", "a\x00", "\x00\x00", "\t\r\n\v\f", "\x01\x1f\x7f",
	`\`, `\x00`, `\\x41`, "%00", "'", "''", `"`, "$1", "?1", "@", ":name", "--", "/* */", "'; DROP TABLE entries; --", "NULL", "null", "{}", "{a,b}", "(1,2)",
	"a/../b", "/etc/passwd", `C:\x`, "model.safetensors", "MODEL.safetensors", "model.safetensors ", " model.safetensors",
	"ä€😀", "\u00e9", "e\u0301", "\u212b", "\u00c5", "ß", "ss", "I", "ı", "İ", "\ufeff", "\ufeffa", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\u202eabc", "\u200b", "\u2028", "\u0000",
	"\xff", "\xfe\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\x80", // no UTF-8
	"same", "same",
}

func names(t *testing.T, s ledger.Store) {
	list := append([]string{strings.Repeat("ä", ledger.MaxNameBytes/2), strings.Repeat("\x00", ledger.MaxNameBytes)}, oddNames...)
	r, b, nodes := nth(t, s, 0, nil, nil)
	for i, name := range list {
		r.Subjects = append(r.Subjects, ledger.Ref{Name: name, Digest: Digest("same")})
		r.Dependencies = append(r.Dependencies, ledger.Ref{Name: list[len(list)-1-i], Digest: godigest.FromString(name)})
	}
	if err := s.Append(t.Context(), 0, one(r, b), nodes); err != nil {
		t.Fatal(err)
	}
	got, err := s.Record(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range r.Subjects {
		if i < len(got.Subjects) && got.Subjects[i] != want {
			t.Errorf("subject %d: %q came back as %q", i, want.Name, got.Subjects[i].Name)
		}
	}
	if !reflect.DeepEqual(got, r) {
		t.Errorf("the record came back with %d subjects and %d dependencies, want %d and %d, in order", len(got.Subjects), len(got.Dependencies), len(r.Subjects), len(r.Dependencies))
	}
	if list, err := s.ByArtifact(t.Context(), Digest("same"), ledger.Subject, 0, 10); err != nil || len(list) != 1 {
		t.Errorf("an artifact that an entry names %d times: found in %v, %v; want once", len(r.Subjects), list, err)
	}
	wantSize(t, s, 1)
}
