package objects

import (
	"bytes"
	"testing"

	godigest "github.com/opencontainers/go-digest"
)

// FuzzSidecar reads descriptions: one that is taken is what is written of it.
func FuzzSidecar(f *testing.F) {
	text, err := Object{Digest: godigest.FromString("x"), Size: 1, MediaType: "text/plain", Public: true}.text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, c := range [][2]string{
		{"text/plain", ""}, {"text/plain", "text/plain; x"}, {`"size":1`, `"size":-1`}, {`"size":1`, `"size":1e30`}, {`"size":1`, `"size":2,"size":1`},
		{`"size"`, `"SIZE"`}, {"sha256", "sha512"}, {"\n", ""}, {"}", "} "}, {"true", "null"},
	} {
		f.Add(bytes.Replace(text, []byte(c[0]), []byte(c[1]), 1))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := parseSidecar(text)
		if err != nil {
			if o != (Object{}) {
				t.Fatalf("got %+v with %v", o, err)
			}
			return
		}
		again, err := o.text()
		if err != nil || !bytes.Equal(again, text) {
			t.Fatalf("took %q, which would be written as %q, %v", text, again, err)
		}
	})
}
