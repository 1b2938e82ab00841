package safetensors

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strings"
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

// TestSummaryDoubtsTheIndex: a total that is not the tensors' is named with both numbers, a right one is not.
func TestSummaryDoubtsTheIndex(t *testing.T) {
	for claim, doubted := range map[string]bool{"": false, "RIGHT": false, "1": true, `"text"`: false} {
		fsys := changed(func(m map[string][]byte) {
			s, err := OpenSnapshot(sample())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			right := fmt.Sprint(s.Summarize(sample()).Bytes)
			index := marshal(map[string]any{"metadata": map[string]any{}, "weight_map": s.Index.WeightMap})
			if claim != "" {
				index = strings.Replace(index, `"metadata":{}`, `"metadata":{"total_size":`+strings.Replace(claim, "RIGHT", right, 1)+`}`, 1)
			}
			m[IndexName] = []byte(index)
		})
		s, err := OpenSnapshot(fsys)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(s.Summarize(fsys).Warnings, "; ")
		if want := "the index says total_size = 1 and the shards hold "; strings.Contains(said, want) != doubted {
			t.Errorf("total_size %s: got %q, want it doubted: %v", claim, said, doubted)
		}
		s.Close()
	}
}
