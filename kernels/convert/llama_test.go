package convert

import (
	"bytes"
	"os"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// TestConversionEqualsTheConverter compares whole files with those of
// convert_hf_to_gguf.py, which took config.json as it stands there. The names are what it makes of its folders.
func TestConversionEqualsTheConverter(t *testing.T) {
	for _, c := range []struct{ folder, name string }{{"llama-grouped", "Hf tinyA"}, {"llama-odd", "Hf Odd"}} {
		t.Run(c.folder, func(t *testing.T) {
			m, err := Open(os.DirFS(shared.Path(t, "data", c.folder, "hf")))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			theirs, want := openGGUF(t, shared.Path(t, "data", c.folder, "BF16.gguf"))
			kvs, err := m.KVs(Options{Name: c.name, AsStated: true})
			if err != nil {
				t.Fatal(err)
			}
			for i, kv := range theirs.KVs {
				if i >= len(kvs) || kvs[i].Key != kv.Key || !kvs[i].Value.Equal(kv.Value) {
					t.Fatalf("key %d: got %v, want %s = %v", i, kvs[min(i, len(kvs)-1)], kv.Key, kv.Value)
				}
			}
			var got bytes.Buffer
			if err := m.Write(t.Context(), &got, Options{Name: c.name, AsStated: true}); err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(got.Bytes(), want) {
				return
			}
			ours, err := gguf.Open(bytes.NewReader(got.Bytes()), int64(got.Len()))
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range ours.Tensors {
				if b := theirs.Tensors[i]; a.Name != b.Name || a.Offset != b.Offset || !bytes.Equal(got.Bytes()[a.Offset:a.Offset+a.Size], want[b.Offset:b.Offset+b.Size]) {
					t.Errorf("tensor %d: got %v, want %v; or their bytes differ", i, a, b)
				}
			}
			t.Fatalf("files differ at byte %d", firstDifference(got.Bytes(), want))
		})
	}
}
