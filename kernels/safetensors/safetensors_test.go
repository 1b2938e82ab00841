package safetensors

import (
	"crypto/sha256"
	"io"
	"os"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
)

func TestOpenSnapshotOfRealFolders(t *testing.T) {
	for folder, want := range map[string]struct{ shards, tensors int }{
		"llama-grouped": {2, 39}, "llama-odd": {1, 30},
	} {
		s, err := OpenSnapshot(os.DirFS(shared.Path(t, "data", folder, "hf")))
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Shards) != want.shards || len(s.Tensors()) != want.tensors {
			t.Errorf("%s: got %d shards and %d tensors, want %d and %d", folder, len(s.Shards), len(s.Tensors()), want.shards, want.tensors)
		}
		for _, tensor := range s.Tensors() {
			h := sha256.New()
			n, err := io.Copy(h, s.Section(tensor))
			if err != nil || n != tensor.End-tensor.Begin {
				t.Errorf("%s: %s: got %d bytes and %v, want %d", folder, tensor.Name, n, err, tensor.End-tensor.Begin)
			}
			if found, ok := s.Lookup(tensor.Name); !ok || found.Shard != tensor.Shard {
				t.Errorf("%s: %s: lookup does not find it", folder, tensor.Name)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
