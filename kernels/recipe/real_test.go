package recipe

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

func modelOf(t testing.TB, path string) (Model, *gguf.File) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ModelOf(f)
	if err != nil {
		t.Fatal(err)
	}
	return m, f
}

func fileType(t testing.TB, f *gguf.File) *uint32 {
	t.Helper()
	v, ok := f.KV("general.file_type")
	n, isInt := v.Uint()
	if !ok || !isInt {
		t.Fatal("the file has no general.file_type")
	}
	n32 := uint32(n)
	return &n32
}

// realName takes the recipe and its options off a shared file's name.
func realName(path string) (recipe string, o Options) {
	name := strings.TrimSuffix(filepath.Base(path), ".gguf")
	name, o.Matrix = strings.CutSuffix(name, "-im")
	name, o.Pure = strings.CutSuffix(name, "-pure")
	name = strings.TrimSuffix(name, "-made-from-Q8_0")
	if o.Pure && name == "Q4_K" {
		name = "Q4_K_M"
	}
	return name, o
}

// TestRealFiles takes every file that llama-quantize made: its types are those
// of its recipe, and the recipe is recognized from them.
func TestRealFiles(t *testing.T) {
	root := shared.Path(t, "data")
	var files []string
	for _, pattern := range []string{"*/*.gguf", "*/*/*.gguf"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 50 {
		t.Fatalf("got %d files, want at least 50", len(files))
	}
	for _, path := range files {
		if filepath.Base(path) == "imatrix.gguf" {
			continue
		}
		rel, _ := filepath.Rel(root, path)
		t.Run(rel, func(t *testing.T) {
			want, o := realName(path)
			product, f := modelOf(t, path)
			source, _ := modelOf(t, filepath.Join(root, strings.Split(rel, string(filepath.Separator))[0], "BF16.gguf"))
			r, ok := Find(want)
			if !ok {
				t.Fatalf("no recipe %s", want)
			}
			types, err := r.Types(source, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range product.Tensors {
				if types[p.Name] != p.Type {
					t.Errorf("%s: got %s, want %s", p.Name, types[p.Name], p.Type)
				}
			}
			best, others := Recognize(product, nil, fileType(t, f), o.Matrix)
			if !best.Exact || best.Recipe != want || best.Options.Pure != o.Pure || best.Options.count() > 1 || best.Claim(fileType(t, f)) != "" {
				t.Errorf("recognized as %s %v (others: %v), want %s %s", best, best.Differences, others, want, o)
			}
		})
	}
}
