package gguf

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/hostile"
)

// seeds are sound, hostile and disputed files, and those that llama.cpp made.
func seeds(f *testing.F) [][]byte {
	f.Helper()
	var all [][]byte
	for _, b := range legal {
		all = append(all, b)
	}
	for _, c := range append(hostile.All(), hostile.Disputed()...) {
		if len(c.Data) < 1<<16 {
			all = append(all, c.Data)
		}
	}
	for _, pattern := range []string{"../../fixtures/split/*.gguf", "../../fixtures/byteorder/*.gguf"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) < 2 {
			f.Fatalf("%s: got %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, b)
		}
	}
	return all
}

func FuzzOpen(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Open(bytes.NewReader(b), int64(len(b)))
		if _, refused := Refused(bytes.NewReader(b), int64(len(b))); err == nil && refused != nil {
			t.Fatalf("it is read strictly and not leniently: %v", refused)
		}
		if err != nil {
			if file != nil {
				t.Fatal("a refused file is given out")
			}
			return
		}
		file.Summarize()
		var sources []TensorSource
		defined := true
		for _, info := range file.Tensors {
			if info.Offset < file.DataOffset || info.Offset+info.Size > int64(len(b)) {
				t.Fatalf("%s: got [%d, %d) in a file of %d bytes", info.Name, info.Offset, info.Offset+info.Size, len(b))
			}
			data, err := file.Data(info)
			if defined = defined && err == nil; err == nil && data.Size() != info.Size {
				t.Fatalf("%s: got %d bytes, want %d", info.Name, data.Size(), info.Size)
			}
			sources = append(sources, file.Source(info))
		}
		if !defined {
			return
		}
		var again bytes.Buffer
		if err := Write(&again, file.KVs, sources); err != nil {
			t.Fatalf("written again it is refused: %v", err)
		}
		same := file.Version == 3 && file.Order == binary.LittleEndian && again.Len() == len(b)
		if same && !bytes.Equal(again.Bytes(), b) {
			t.Fatal("written again it is another file")
		}
	})
}

// FuzzOpenSplit opens two texts as the parts of one model.
func FuzzOpenSplit(f *testing.F) {
	pair := samplePair()
	var texts [2][]byte
	for i, p := range pair {
		b, err := io.ReadAll(io.NewSectionReader(p.R, 0, p.Size))
		if err != nil {
			f.Fatal(err)
		}
		texts[i] = b
	}
	f.Add(texts[0], texts[1], "m-00001-of-00002.gguf")
	f.Add(texts[1], texts[0], "m-00002-of-00002.gguf")
	f.Add(texts[0], texts[0], "")
	for _, b := range seeds(f) {
		f.Add(b, texts[1], "m-99999-of-99999.gguf")
	}
	f.Fuzz(func(t *testing.T, a, b []byte, name string) {
		file, err := OpenSplit([]Part{{Name: name, R: bytes.NewReader(a), Size: int64(len(a))}, {R: bytes.NewReader(b), Size: int64(len(b))}})
		if err != nil {
			if file != nil {
				t.Fatal("refused parts are given out")
			}
			return
		}
		seen := map[string]bool{}
		for _, info := range file.Tensors {
			if seen[info.Name] || info.Offset+info.Size > file.Parts[info.Part].Size {
				t.Fatalf("%s: got it twice, or [%d, %d) in a part of %d bytes", info.Name, info.Offset, info.Offset+info.Size, file.Parts[info.Part].Size)
			}
			seen[info.Name] = true
			if _, err := io.Copy(io.Discard, file.Section(info)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzPartNames: what is taken for a part's name gives itself among its siblings.
func FuzzPartNames(f *testing.F) {
	f.Add("dir/m-00001-of-00003.gguf")
	f.Add("m-00001-of-00003-00002-of-00003.gguf")
	f.Add("-00001-of-99999.gguf")
	f.Fuzz(func(t *testing.T, name string) {
		if _, no, count, ok := parsePart(name); ok {
			if names := PartNames(name); len(names) != count || names[no-1] != name {
				t.Fatalf("got %d names for %q", len(names), name)
			}
		}
	})
}
