package ledger_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// FuzzCosignatures puts any bytes behind a checkpoint. Whatever they are, no
// witness is counted but by a signature line that this test made with its key.
func FuzzCosignatures(f *testing.F) {
	signer, verifier := storetest.Keys(f, storetest.Origin, 1)
	checkpoint, err := note.Sign(&note.Note{Text: storetest.Origin + "\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"}, signer)
	if err != nil {
		f.Fatal(err)
	}
	text := string(checkpoint[:bytes.LastIndex(checkpoint, []byte("\n\n"))+1])
	made := w1.Line(text, 1000)
	for _, s := range []string{"", made, w2.Line(text, 1000), made + made, strings.ToLower(made), "\n" + text + "\n" + made, made[:len(made)-1], strings.Repeat("— a.example AAAAAAAA\n", 120)} {
		f.Add([]byte(s))
	}
	keys, err := ledger.ParseWitnessKeys(w1.String(), w2.String())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, tail []byte) {
		list, err := ledger.Cosignatures(append(bytes.Clone(checkpoint), tail...), verifier, keys)
		if err != nil && list != nil {
			t.Errorf("%v beside an error", list)
		}
		for _, c := range list {
			if !bytes.Contains(tail, []byte(made)) && !bytes.Contains(tail, []byte(w2.Line(text, uint64(c.Time.Unix())))) {
				t.Errorf("%v is counted for %q", c, tail)
			}
		}
	})
}

// FuzzWitnessKey: what parses has the name and the hash that it says.
func FuzzWitnessKey(f *testing.F) {
	for _, s := range []string{w1.String(), w2.String(), "a+00000000+", "+", "++", "log.example/x+dd5a5cdb+ATHyrFpRHJzAcxOQkqnBsTGL0gKgOzvSDbOVwqzRrIZh", strings.ToUpper(w1.String())} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, vkey string) {
		k, err := ledger.ParseWitnessKey(vkey)
		if err == nil && !strings.HasPrefix(strings.ToLower(vkey), strings.ToLower(fmt.Sprintf("%s+%08x+", k.Name(), k.KeyHash()))) {
			t.Errorf("%q is read as %s+%08x", vkey, k.Name(), k.KeyHash())
		}
	})
}
