package attest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/attest"
)

// encoding/json matches keys by Unicode's simple case folding, and so do we
// when we look for two keys that a reader could take for one.
func TestKeysThatReadersTakeForOne(t *testing.T) {
	for _, pair := range [][2]string{
		{"status", "Status"}, {"status", `\u017ftatus`}, {"key", `\u212aey`}, {"a", `\u0041`}, {"straße", "STRAßE"}, {"σ", "ς"},
	} {
		doc := fmt.Sprintf(`{"%s":1,"%s":2}`, pair[0], pair[1])
		if err := attest.CheckJSON([]byte(doc)); err == nil || !strings.Contains(err.Error(), "more than case") {
			t.Errorf("%s: got %v, want it refused", doc, err)
		}
	}
	for _, doc := range []string{`{"a":1,"b":2}`, `{"ss":1,"ß":2}`, `{"i":1,"ı":2}`} {
		if err := attest.CheckJSON([]byte(doc)); err != nil {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

// Caps are met exactly: the last that is allowed, and the first that is not.
func TestCaps(t *testing.T) {
	digests := func(n int) string {
		var b strings.Builder
		fmt.Fprintf(&b, `{"sha256":"%s"`, shaA)
		for i := range n - 1 {
			fmt.Fprintf(&b, `,"x%d":"y"`, i)
		}
		return withDigests(b.String() + "}")
	}
	named := func(n int) string {
		return withSubjects(`[{"name":"` + strings.Repeat("n", n) + `","digest":{"sha256":"` + shaA + `"}}]`)
	}
	deep := func(n int) string { // the Statement and the predicate are two levels
		return withPredicate("https://example.org/x", `{"a":`+strings.Repeat("[", n-2)+strings.Repeat("]", n-2)+`}`)
	}
	for name, c := range map[string]struct {
		make  func(int) string
		most  int
		check attest.Check
		words string
	}{
		"digests":           {digests, attest.MaxDigests, attest.CheckSize, "33 digests"},
		"bytes of a name":   {named, attest.MaxNameBytes, attest.CheckSize, "4097 bytes"},
		"levels of nesting": {deep, attest.MaxDepth, attest.CheckStatement, "64 levels"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := attest.DecodeStatement([]byte(c.make(c.most))); err != nil {
				t.Errorf("%d of them: %v", c.most, err)
			}
			_, _, err := attest.DecodeStatement([]byte(c.make(c.most + 1)))
			wantRefused(t, err, c.check, c.words)
		})
	}
}

// The Statement before version 1, which cosign writes from a predicate, is
// refused with what to do.
func TestOldStatement(t *testing.T) {
	_, _, err := attest.DecodeStatement([]byte(strings.Replace(withDigests(`{"sha256":"`+shaA+`"}`), "Statement/v1", "Statement/v0.1", 1)))
	wantRefused(t, err, attest.CheckType, "cosign attest-blob does so with --statement")
}

// Predicates of our own are read with their keys spelled exactly, at every level.
func TestWronglyCasedKeysOfOurPredicates(t *testing.T) {
	for name, payload := range map[string]string{
		"a withdrawal": withPredicate(attest.WithdrawalType, `{"claim":"sha256:`+shaA+`","Reason":"x"}`),
		"a completion": withPredicate(attest.CompletionType, `{"delivered":[{"name":"a","Digest":"sha256:`+shaA+`","size":1}]}`),
	} {
		_, _, err := attest.DecodeStatement([]byte(payload))
		wantRefused(t, err, attest.CheckPredicate, "unknown key")
		if t.Failed() {
			t.Log(name)
		}
	}
}
