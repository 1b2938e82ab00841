package npy

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Files that NumPy 2.4 wrote.
func realFiles(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("../../fixtures/model/reference/*.npy")
	if err != nil || len(names) == 0 {
		t.Fatalf("no .npy files in the reference of the example model: %v", err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = data
	}
	return files
}

func TestWritesWhatNumPyWrote(t *testing.T) {
	for name, file := range realFiles(t) {
		shape, data, err := Read[float32](bytes.NewReader(file), 1<<30)
		if err != nil {
			t.Fatal(name, err)
		}
		if len(shape) != 2 || shape[1] != 640 {
			t.Errorf("%s: got shape %v, want [tokens 640]", name, shape)
		}
		var out bytes.Buffer
		if err := Write(&out, shape, data); err != nil {
			t.Fatal(name, err)
		}
		if !bytes.Equal(out.Bytes(), file) {
			t.Errorf("%s: what was read and written again differs from the file", name)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	round(t, []int{2, 1}, []float64{math.Pi, math.Inf(-1)})
	round(t, []int{}, []int64{math.MinInt64})
	round(t, []int{3}, []int32{1, -2, 3})
	round(t, []int{4, 0, 7}, []float32{})
	round(t, []int{1 << 19}, make([]float32, 1<<19)) // more than one chunk
}

func round[T Element](t *testing.T, shape []int, data []T) {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, shape, data); err != nil {
		t.Fatal(err)
	}
	if at := bytes.IndexByte(out.Bytes(), '\n'); (at+1)%64 != 0 {
		t.Errorf("data starts at byte %d, want a multiple of 64", at+1)
	}
	gotShape, got, err := Read[T](bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || !slices.Equal(gotShape, shape) || !slices.Equal(got, data) {
		t.Errorf("shape %v: got shape %v, %d values, %v", shape, gotShape, len(got), err)
	}
}

func file(header, data string) []byte {
	return []byte("\x93NUMPY\x01\x00" + string([]byte{byte(len(header)), byte(len(header) >> 8)}) + header + data)
}

func TestRefuses(t *testing.T) {
	const good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n"
	if _, _, err := Read[float32](bytes.NewReader(file(good, "12345678")), 8); err != nil {
		t.Fatal("the good file is refused:", err)
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"big-endian", "<f4", ">f4", "descr"},
		{"another type", "<f4", "<f8", "descr"},
		{"objects", "'<f4'", "'|O'", "descr"},
		{"Fortran order", "False", "True", "fortran_order"},
		{"negative size", "(1, 2)", "(-1, -2)", "negative"},
		{"product wraps", "(1, 2)", "(4294967296, 4294967296)", "too large"},
		{"huge but representable", "(1, 2)", "(1, 1125899906842624)", "at most 8 bytes"},
		{"expression", "(1, 2)", "(1+1)", "tuple"},
		{"long integer of Python 2", "(1, 2)", "(1, 2L)", "tuple"},
		{"underscore", "(1, 2)", "(1, 2_0)", "tuple"},
		{"leading zero", "(1, 2)", "(1, 02)", "tuple"},
		{"one dimension without comma", "(1, 2)", "(2)", "tuple"},
		{"unclosed tuple", "(1, 2)", "(1, 2", "tuple"},
		{"unknown key", "'shape'", "'shapes'", "key"},
		{"key twice", "'shape': (1, 2)", "'shape': (1, 2), 'shape': (1, 2)", "twice"},
		{"missing key", ", 'shape': (1, 2)", "", "2 keys"},
		{"code", "(1, 2)", "__import__('os')", "tuple"},
		{"no line feed", "\n", "", "line feed"},
		{"no braces", "{", "", "braces"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Read[float32](bytes.NewReader(file(strings.Replace(good, c.from, c.to, 1), "12345678")), 8)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error about %q", err, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":          {nil, "magic"},
		"wrong magic":    {[]byte("\x93NUMPI\x01\x00\x01\x00\n"), "not a .npy file"},
		"version 3":      {[]byte("\x93NUMPY\x03\x00\x01\x00\n"), "version"},
		"4 GB of header": {[]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff\n"), "header length"},
		"short header":   {[]byte("\x93NUMPY\x01\x00\xff\x00{"), "header"},
		"short data":     {file(good, "1234567"), "fewer"},
		"bytes after":    {file(good, "123456789"), "after the data"},
	} {
		if _, _, err := Read[float32](bytes.NewReader(c.file), 8); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error about %q", name, err, c.want)
		}
	}
	if err := Write(&bytes.Buffer{}, []int{2, 2}, []float32{1}); err == nil {
		t.Error("one value in a 2×2 shape was written")
	}
}

// A shape costs no memory that the file does not back.
func TestShapeAloneAllocatesLittle(t *testing.T) {
	f := file("{'descr': '<f4', 'fortran_order': False, 'shape': (1073741824,), }\n", "1234")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := Read[float32](bytes.NewReader(f), 1<<40)
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Fatal("a 4 GB shape over 4 bytes was read")
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 4*chunk {
		t.Errorf("got %d bytes allocated for a 4-byte file, want at most %d", n, 4*chunk)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(file("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n", "12345678"))
	f.Add(file("{'shape': (), 'descr': '<f4', 'fortran_order': False}\n", "1234"))
	f.Add(file("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }\n", ""))
	f.Add(realFiles(f)["code.float32.npy"][:1000])
	f.Fuzz(func(t *testing.T, data []byte) {
		shape, values, err := Read[float32](bytes.NewReader(data), 1<<20)
		if err != nil {
			if shape != nil || values != nil {
				t.Fatal("values beside an error")
			}
			return
		}
		var out bytes.Buffer
		if err := Write(&out, shape, values); err != nil {
			t.Fatal(err)
		}
		again, back, err := Read[float32](&out, 1<<20)
		if err != nil || !slices.Equal(again, shape) || len(back) != len(values) {
			t.Fatalf("written again: got shape %v, %d values, %v, want %v, %d", again, len(back), err, shape, len(values))
		}
	})
}
