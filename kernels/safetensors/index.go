package safetensors

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// IndexName is the file that tells which shard holds which tensor.
const IndexName = "model.safetensors.index.json"

// Index is a parsed index.
type Index struct {
	Metadata  map[string]json.RawMessage // as it stands: total_size, total_parameters …
	WeightMap map[string]string          // tensor name → shard's file name
}

// ReadIndex parses an index: an object with a weight_map of strings and
// perhaps metadata; each key once, each shard named by a plain file name.
func ReadIndex(r io.Reader) (*Index, error) {
	buffered := bufio.NewReader(io.LimitReader(r, MaxIndex))
	if start, _ := buffered.Peek(len(lfsPrefix)); string(start) == lfsPrefix { // a short file is no pointer
		return nil, pointerError("an index")
	}
	t := newScanner(buffered, 0)
	index := &Index{}
	err := t.object("index", func(key string) error {
		switch key {
		case "metadata":
			index.Metadata = map[string]json.RawMessage{}
			return t.object("index: metadata", func(key string) error {
				raw, err := t.raw("index: metadata")
				index.Metadata[key] = raw
				return err
			})
		case "weight_map":
			index.WeightMap = map[string]string{}
			return t.object("index: weight_map", func(key string) error {
				shard, err := t.string("index: weight_map")
				if err != nil {
					return err
				}
				if !plainName(shard) {
					return t.fail(fmt.Sprintf("index: weight_map: %.200q", key), fmt.Sprintf("%.200q", shard), "a plain file name that ends in .safetensors")
				}
				index.WeightMap[key] = shard
				return nil
			})
		}
		return t.fail("index", fmt.Sprintf("unknown field %.80q", key), "metadata and weight_map")
	})
	if err != nil {
		return nil, err
	}
	if err := t.end("index"); err != nil {
		return nil, err
	}
	if len(index.WeightMap) == 0 {
		return nil, t.fail("index", "no weight_map", "an object that maps tensors to shards")
	}
	return index, nil
}

// TotalSize is the sum of tensor bytes that the index claims.
func (x *Index) TotalSize() (bytes int64, ok bool) {
	raw, ok := x.Metadata["total_size"]
	return bytes, ok && json.Unmarshal(raw, &bytes) == nil
}

// shards lists the shards' names, sorted.
func (x *Index) shards() []string {
	seen := map[string]bool{}
	var names []string
	for _, shard := range x.WeightMap {
		if !seen[shard] {
			seen[shard] = true
			names = append(names, shard)
		}
	}
	slices.Sort(names)
	return names
}

// plainName refuses whatever could leave the folder.
func plainName(name string) bool {
	return strings.HasSuffix(name, ".safetensors") && !strings.HasPrefix(name, ".") && !strings.ContainsAny(name, "/\\:\x00")
}
