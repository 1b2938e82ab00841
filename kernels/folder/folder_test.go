package folder

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/memfs"
)

func TestReadObjectRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a key twice": {`{"a":1,"a":2}`, "a"}, "two objects": {`{}{}`, ""}, "an array": {`[]`, "array"}, "null": {`null`, "got null"}, "nothing": {``, ""}, "half": {`{"a":`, ""},
	} {
		_, err := ReadObject(fstest.MapFS{"x": {Data: []byte(c.text)}}, "x")
		if bad := (*JSONError)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a refusal for %q", name, err, c.want)
		}
	}
	if _, err := ReadObject(fstest.MapFS{}, "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no such file", err)
	}
}

func TestSameComparesNumbersByValue(t *testing.T) {
	read := func(text string) map[string]any {
		o, err := ReadObject(fstest.MapFS{"x": {Data: []byte(text)}}, "x")
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if !Same(read(`{"a":[1e-5,{"b":1}]}`), read(`{"a":[0.00001,{"b":1.0}]}`)) {
		t.Error("equal values differ")
	}
	for _, other := range []string{`{"a":2}`, `{"a":"1"}`, `{"a":1,"b":1}`, `{"a":[1]}`, `{}`, `{"b":1}`} {
		if Same(read(`{"a":1}`), read(other)) {
			t.Errorf("%s is the same as a 1", other)
		}
	}
}

func TestViewLeavesTheFolderAlone(t *testing.T) {
	base := fstest.MapFS{"a": {Data: []byte("abc")}, "b": {Data: []byte("b")}}
	v := View{FS: base, Files: memfs.FS{"b": []byte("B"), "c": []byte("c")}, Patches: map[string][]kernels.Patch{"a": {{Offset: 1, Bytes: []byte("X")}}}}
	f, err := v.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 3)
	if _, err := f.(io.ReaderAt).ReadAt(got, 0); err != nil || string(got) != "aXc" || string(base["a"].Data) != "abc" {
		t.Errorf("got %q, %v", got, err)
	}
	entries, err := fs.ReadDir(v, ".")
	if err != nil || len(entries) != 3 {
		t.Errorf("got %v, %v, want a, b and c", entries, err)
	}
	if b, err := Read(v, "b"); err != nil || string(b) != "B" {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestFirstDifference(t *testing.T) {
	long := strings.Repeat("x", step)
	for _, c := range []struct {
		a, b string
		want int64
	}{{"", "", -1}, {"ab", "ab", -1}, {"ab", "ac", 1}, {"ab", "a", 1}, {"", "a", 0}, {long, long, -1}, {long + "a", long + "b", step}, {long, long + "b", step}} {
		got, err := FirstDifference(t.Context(), strings.NewReader(c.a), strings.NewReader(c.b))
		if err != nil || got != c.want {
			t.Errorf("%d and %d bytes: got %d, %v, want %d", len(c.a), len(c.b), got, err, c.want)
		}
	}
	if _, err := FirstDifference(t.Context(), broken{}, strings.NewReader("")); err == nil {
		t.Error("a reader that fails gave no error")
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }
