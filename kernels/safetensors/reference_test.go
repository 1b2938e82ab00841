package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weighmaster/weighmaster/fixtures/hostile"
)

// tokens is the slow reader that scanner has to agree with: encoding/json token by token.
type tokens struct {
	d    *json.Decoder
	base int64 // where the JSON starts in the file, bytes
}

func newTokens(r io.Reader, base int64) *tokens {
	d := json.NewDecoder(&utf8Reader{r: r, off: base})
	d.UseNumber()
	return &tokens{d: d, base: base}
}

func (t *tokens) offset() int64 { return t.base + t.d.InputOffset() }

func (t *tokens) fail(what, got, want string) error {
	return &FormatError{Offset: t.offset(), What: what, Got: got, Want: want}
}

// next gives one token and turns syntax errors into refusals.
func (t *tokens) next(what string) (json.Token, error) {
	tok, err := t.d.Token()
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, t.fail(what, "the end of the JSON text", "a complete object")
	case errors.As(err, &syntax):
		return nil, t.fail(what, syntax.Error(), "JSON")
	}
	return tok, err
}

// show names a token in an error.
func show(tok json.Token) string {
	switch v := tok.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the string %.80q", v)
	case json.Number:
		return fmt.Sprintf("the number %.80s", v)
	}
	return fmt.Sprintf("%v", tok)
}

// open takes one delimiter.
func (t *tokens) open(what string, delim json.Delim, want string) error {
	tok, err := t.next(what)
	if err != nil {
		return err
	}
	if tok != delim {
		return t.fail(what, show(tok), want)
	}
	return nil
}

// object reads an object and calls each with every key, once.
func (t *tokens) object(what string, each func(key string) error) error {
	if err := t.open(what, '{', "an object"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for t.d.More() {
		tok, err := t.next(what)
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return t.fail(what, show(tok), "a key")
		}
		if seen[key] {
			return t.fail(what, fmt.Sprintf("duplicate key %.200q", key), "each key once")
		}
		seen[key] = true
		if strings.ContainsRune(key, utf8.RuneError) {
			return t.fail(what, fmt.Sprintf("key %.200q", key), "Unicode text (half a surrogate pair, or the replacement character, stands for anything)")
		}
		if err := each(key); err != nil {
			return err
		}
	}
	return t.open(what, '}', "the end of the object")
}

func (t *tokens) string(what string) (string, error) {
	tok, err := t.next(what)
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", t.fail(what, show(tok), "a string")
	}
	return s, nil
}

// numbers reads an array of whole numbers from 0 to 2^64-1.
func (t *tokens) numbers(what string) ([]uint64, error) {
	if err := t.open(what, '[', "an array of whole numbers"); err != nil {
		return nil, err
	}
	list := []uint64{}
	for t.d.More() {
		tok, err := t.next(what)
		if err != nil {
			return nil, err
		}
		number, _ := tok.(json.Number)
		n, err := strconv.ParseUint(string(number), 10, 64)
		if err != nil {
			return nil, t.fail(what, show(tok), "a whole number from 0 to 2^64-1")
		}
		list = append(list, n)
	}
	return list, t.open(what, ']', "the end of the array")
}

// end checks that only white space follows.
func (t *tokens) end(what string) error {
	tok, err := t.d.Token()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		return t.fail(what, show(tok)+" after the object", "white space only")
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return t.fail(what, syntax.Error()+" after the object", "white space only")
	}
	return err
}

// utf8Reader refuses bytes that are not UTF-8: the decoder would replace them.
type utf8Reader struct {
	r    io.Reader
	off  int64             // of the first byte in tail
	tail [utf8.UTFMax]byte // an incomplete rune at the end of the last read
	n    int
}

func (u *utf8Reader) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	if u.n == 0 && utf8.Valid(p[:n]) {
		u.off += int64(n)
		return n, err
	}
	b := append(u.tail[:u.n:u.n], p[:n]...)
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			if !utf8.FullRune(b) && err == nil {
				break
			}
			return 0, &FormatError{Offset: u.off, What: "JSON text", Got: fmt.Sprintf("byte 0x%02x", b[0]), Want: "UTF-8"}
		}
		b = b[size:]
		u.off += int64(size)
	}
	u.n = copy(u.tail[:], b)
	return n, err
}

// referenceOpen is Open over encoding/json.
func referenceOpen(r io.ReaderAt, size int64) (*File, error) {
	f := &File{Size: size, r: r}
	n, err := headerLength(r, size)
	if err != nil {
		return nil, err
	}
	f.HeaderSize = lengthSize + n
	t := newTokens(io.NewSectionReader(r, lengthSize, n), lengthSize)
	err = t.object("header", func(key string) error {
		if key == metadataKey {
			f.Metadata = map[string]string{}
			return t.object(metadataKey, func(key string) (err error) {
				f.Metadata[key], err = t.string(metadataKey)
				return err
			})
		}
		info, err := f.referenceTensor(t, key)
		f.Tensors = append(f.Tensors, info)
		return err
	})
	if err == nil {
		err = t.end("header")
	}
	if err == nil {
		err = f.layOut()
	}
	return f, err
}

func (f *File) referenceTensor(t *tokens, name string) (TensorInfo, error) {
	info := TensorInfo{Name: name}
	var offsets []uint64
	err := t.object(name, func(key string) (err error) {
		switch key {
		case "dtype":
			var s string
			s, err = t.string(key)
			info.DType = DType(s)
		case "shape":
			info.Shape, err = t.numbers(key)
		case "data_offsets":
			offsets, err = t.numbers(key)
		default:
			err = errors.New("unknown field")
		}
		return err
	})
	if err != nil {
		return info, err
	}
	if info.DType.Bits() == 0 || info.Shape == nil || len(offsets) != 2 || offsets[0] > offsets[1] || offsets[1] > uint64(f.Size-f.HeaderSize) {
		return info, errors.New("fields")
	}
	if want, err := info.bytes(); err != nil || offsets[1]-offsets[0] != want {
		return info, errors.New("size")
	}
	info.Begin, info.End = int64(offsets[0]), int64(offsets[1])
	return info, nil
}

// agree compares both readers on one file.
func agree(t *testing.T, b []byte) {
	t.Helper()
	got, err := Open(bytes.NewReader(b), int64(len(b)))
	want, refused := referenceOpen(bytes.NewReader(b), int64(len(b)))
	if (err == nil) != (refused == nil) {
		t.Fatalf("got %v, encoding/json says %v", err, refused)
	}
	if err == nil && (!maps.Equal(got.Metadata, want.Metadata) || !reflect.DeepEqual(got.Tensors, want.Tensors)) {
		t.Fatalf("got %v and %v, encoding/json says %v and %v", got.Metadata, got.Tensors, want.Metadata, want.Tensors)
	}
}

// TestScannerAgreesWithEncodingJSON over sound and hostile files, each cut and with each byte changed.
func TestScannerAgreesWithEncodingJSON(t *testing.T) {
	var files [][]byte
	for _, b := range legal {
		files = append(files, b)
	}
	for _, c := range hostile.Safetensors() {
		files = append(files, c.Data)
	}
	for _, text := range []string{
		`{"__metadata__":{"a":"\ud834\udd1e","b":"\ud834","c":"\udd1e\ud834","d":"\ud834\ud834\udd1e","e":"\ud834\n","f":"\ud834\\","g":"\"\\\/\b\f\n\r\t\u00e4ä"}}`,
		`{"__metadata__":{"a":"\ud834x","b":"\u12","c":""}}`, `{"__metadata__":{"a":"\uD834\uDd1E\u0000"}}`, " {\t} \r\n", `{"a":{"shape":[ 1 , 2 ],"dtype":"U8","data_offsets":[ 0,2]}}`,
		`{"__metadata__":{"a":"` + strings.Repeat("ä", 20_000) + `"}}`, `{"__metadata__":{"a":"` + strings.Repeat(`\u00e4`, 20_000) + `"}}`,
	} {
		files = append(files, raw(text, 2), raw(text, 0))
	}
	for _, b := range files {
		agree(t, b)
		if len(b) > 400 {
			continue
		}
		for i := lengthSize; i < len(b); i++ {
			cut := bytes.Clone(b[:i])
			cut[0], cut[1] = byte(i-lengthSize), byte((i-lengthSize)>>8)
			agree(t, cut)
			for _, x := range []byte{0, ' ', '"', '\\', ',', ':', '{', '}', '[', ']', '0', '-', 'u', 0xff, 0xc3} {
				changed := bytes.Clone(b)
				changed[i] = x
				agree(t, changed)
			}
		}
	}
}

func FuzzScanner(f *testing.F) {
	for _, b := range legal {
		f.Add(b[lengthSize:])
	}
	for _, c := range hostile.Safetensors() {
		if len(c.Data) > lengthSize {
			f.Add(c.Data[lengthSize:])
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		agree(t, raw(string(text), 0))
		agree(t, raw(string(text), 2))
	})
}

// BenchmarkReference measures encoding/json beside BenchmarkOpen.
func BenchmarkReference(b *testing.B) {
	text := manyTensors()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := referenceOpen(bytes.NewReader(text), int64(len(text))); err != nil {
			b.Fatal(err)
		}
	}
}
