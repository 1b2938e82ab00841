package convert

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

const architecturesDir = "../../fixtures/architectures"

// models lists the checkpoints of the fixtures, each of which the converter has converted.
func models(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(architecturesDir, "*", "BF16.gguf"))
	if err != nil || len(paths) < 14 {
		t.Fatalf("got %d models and %v, want 14 and more", len(paths), err)
	}
	var names []string
	for _, p := range paths {
		names = append(names, filepath.Base(filepath.Dir(p)))
	}
	return names
}

// TestEveryArchitectureEqualsTheConverter holds whole files against the converter's.
func TestEveryArchitectureEqualsTheConverter(t *testing.T) {
	seen := map[*Architecture]bool{}
	for _, name := range models(t) {
		for out, file := range []string{OutBF16: "BF16.gguf", OutF16: "F16.gguf", OutF32: "F32.gguf"} {
			path := filepath.Join(architecturesDir, name, file)
			if _, err := os.Stat(path); err != nil && file != "BF16.gguf" {
				continue
			}
			t.Run(name+"/"+file, func(t *testing.T) {
				m := openFixture(t, name)
				seen[m.Config.architecture] = true
				equalsTheConverter(t, m, path, Outtype(out))
			})
		}
	}
	for _, a := range Architectures() {
		if !seen[a] {
			t.Errorf("%s has no file of the converter to be held against", a.HF)
		}
	}
}

// TestNewerConfigsGiveTheSameKeys: transformers 5 spells RoPE's fields otherwise. The
// converter makes the same keys of both.
func TestNewerConfigsGiveTheSameKeys(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(architecturesDir, "*", "config-transformers-5.json"))
	if err != nil || len(paths) < 5 {
		t.Fatalf("got %d configs and %v, want 5 and more", len(paths), err)
	}
	for _, path := range paths {
		newer, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(path))
		old := openFixture(t, name).Config
		c, err := ReadConfig(fstest.MapFS{"config.json": {Data: newer}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, keys := range [][]string{c.architecture.Early, c.architecture.Keys} {
			got, want := c.list(keys, Options{}), old.list(keys, Options{})
			checkKeys(t, name, got, want)
		}
	}
}

func openFixture(t testing.TB, name string) *Model {
	t.Helper()
	m, err := Open(os.DirFS(filepath.Join(architecturesDir, name, "hf")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func equalsTheConverter(t *testing.T, m *Model, path string, as Outtype) {
	theirs, want := openGGUF(t, path)
	opts := Options{Name: "Hf", As: as}
	for _, kv := range theirs.KVs {
		if kv.Key == "tokenizer.ggml.pre" { // no published vocabulary: its hash is not in the converter's table
			opts.PreTokenizer, _ = kv.Value.Text()
		}
	}
	kvs, err := m.KVs(opts)
	if err != nil {
		t.Fatal(err)
	}
	for i, kv := range theirs.KVs {
		if i >= len(kvs) || kvs[i].Key != kv.Key || !kvs[i].Value.Equal(kv.Value) {
			t.Fatalf("key %d: got %v, want %s = %v", i, kvs[min(i, len(kvs)-1)], kv.Key, kv.Value)
		}
	}
	sources, err := m.sources(t.Context(), as)
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) != len(theirs.Tensors) {
		t.Errorf("got %d tensors, want %d", len(sources), len(theirs.Tensors))
	}
	for i, b := range theirs.Tensors[:min(len(sources), len(theirs.Tensors))] {
		var data bytes.Buffer
		if err := sources[i].Data(&data); err != nil {
			t.Fatal(err)
		}
		a := sources[i]
		if a.Name != b.Name || a.Type != b.Type || !equalDims(a.Dims, b.Dims) {
			t.Fatalf("tensor %d: got %s %s %v, want %s %s %v", i, a.Name, a.Type, a.Dims, b.Name, b.Type, b.Dims)
		}
		if stored := want[b.Offset : b.Offset+b.Size]; !bytes.Equal(data.Bytes(), stored) {
			t.Errorf("tensor %s: bytes differ from %d on", b.Name, firstDifference(data.Bytes(), stored))
		}
	}
	if t.Failed() {
		return
	}
	var got bytes.Buffer
	if err := m.Write(t.Context(), &got, opts); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Fatalf("files differ at byte %d", firstDifference(got.Bytes(), want))
	}
}

func equalDims(a, b []uint64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
