package evidence_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

func TestReadBundles(t *testing.T) {
	for name, c := range map[string]struct {
		body  string
		count int
		want  string // in the error
	}{
		"lines":               {"{\"a\":1}\n{\"b\":2}\n", 2, ""},
		"no last line break":  {"{\"a\":1}\n{\"b\":2}", 2, ""},
		"one over many lines": {"{\n  \"a\": [1,\n 2]\n}\n", 1, ""},
		"empty":               {"", 0, "x: got nothing, want at least one bundle"},
		"white space":         {" \n\n", 0, "got nothing"},
		"cut":                 {"{\"a\":1}\n{\"b\":", 0, "x, bundle 2: got unexpected EOF"},
		"an array":            {"[{}]", 0, "x, bundle 1: got JSON that is no object"},
		"text":                {"{}\nhello", 0, "x, bundle 2: got invalid character"},
		"a large one":         {`{"a":"` + strings.Repeat("a", attest.MaxBundleBytes) + `"}`, 0, "want at most"},
	} {
		got, err := evidence.ReadBundles("x", strings.NewReader(c.body))
		var format *evidence.FormatError
		if c.want == "" && (err != nil || len(got) != c.count) {
			t.Errorf("%s: got %d bundles and %v, want %d", name, len(got), err, c.count)
		}
		if c.want != "" && (!errors.As(err, &format) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// endless gives one byte for ever.
type endless byte

func (e endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(e)
	}
	return len(b), nil
}

func TestReadBundlesEnds(t *testing.T) {
	for name, r := range map[string]io.Reader{
		"white space": endless(' '),
		"one string":  io.MultiReader(strings.NewReader(`{"`), endless('a')),
	} {
		if _, err := evidence.ReadBundles("x", r); err == nil || !strings.Contains(err.Error(), "want a smaller file") {
			t.Errorf("%s: got %v, want it to stop", name, err)
		}
	}
}

func TestLooseBundlesAreNotWritten(t *testing.T) {
	p := evidence.Loose([][]byte{[]byte("{}")}, [][]byte{[]byte("a"), []byte("a")})
	if len(p.Objects) != 1 || len(p.Index.Objects) != 1 {
		t.Errorf("got %d objects, want the two equal ones once", len(p.Objects))
	}
	if err := p.Write(io.Discard); err == nil || !strings.Contains(err.Error(), "loose bundles") {
		t.Errorf("got %v, want it refused", err)
	}
}

// FuzzReadBundles: whatever is read comes back as many objects as it says.
func FuzzReadBundles(f *testing.F) {
	for _, s := range []string{"{}", "{\"a\":1}\n{}", "[", "{\n}", "\x00", "{}{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		bundles, err := evidence.ReadBundles("x", strings.NewReader(string(body)))
		if err != nil {
			return
		}
		again, err := evidence.ReadBundles("x", strings.NewReader(string(joined(bundles))))
		if err != nil || len(again) != len(bundles) || len(bundles) == 0 {
			t.Fatalf("%q: %d bundles, read again %d, %v", body, len(bundles), len(again), err)
		}
	})
}

func joined(bundles [][]byte) (b []byte) {
	for _, x := range bundles {
		b = append(append(b, x...), '\n')
	}
	return b
}
