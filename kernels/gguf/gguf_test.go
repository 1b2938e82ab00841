package gguf

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
)

// TestReencode reads every file that llama.cpp made and writes it again.
func TestReencode(t *testing.T) {
	files := 0
	err := filepath.WalkDir(shared.Path(t, "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".gguf" {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		if len(f.Warnings) > 0 {
			t.Errorf("%s: got warnings %q, want none", path, f.Warnings)
		}
		var sources []TensorSource
		for _, info := range f.Tensors {
			sources = append(sources, f.Source(info))
		}
		var out bytes.Buffer
		if err := Write(&out, f.KVs, sources); err != nil {
			t.Errorf("%s: %v", path, err)
		} else if !bytes.Equal(out.Bytes(), b) {
			t.Errorf("%s: written again it is another file", path)
		}
		var head bytes.Buffer
		if size, err := WriteHeader(&head, f.KVs, sources); err != nil || size != int64(len(b)) || !bytes.Equal(head.Bytes(), b[:f.DataOffset]) {
			t.Errorf("%s: got a header of %d bytes for a file of %d bytes, %v; want its first %d for %d", path, head.Len(), size, err, f.DataOffset, len(b))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("got no files, want some")
	}
}
