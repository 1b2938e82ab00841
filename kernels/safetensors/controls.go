package safetensors

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/memfs"
)

// control plants one fault and gives what the checks then say.
type control struct {
	name, fault, want string
	plant             func(s *Snapshot) []kernels.Finding
}

// reopen opens the first shard with another header and n bytes more or fewer.
func reopen(s *Snapshot, change func(list []field) []field, more int64) []kernels.Finding {
	f := s.Shards[0].File
	head := encodeHeader(change(f.fields()))
	return judge(spliced{head, f.r, f.HeaderSize}, int64(len(head))+f.Size-f.HeaderSize+more)
}

func judge(r io.ReaderAt, size int64) []kernels.Finding {
	if _, err := Open(r, size); err != nil {
		return []kernels.Finding{asFinding("copy", err)}
	}
	return nil
}

// first rewrites the first tensor that has bytes.
func first(s *Snapshot, change func(t TensorInfo) field) []kernels.Finding {
	f := s.Shards[0].File
	i := slices.IndexFunc(f.Tensors, func(t TensorInfo) bool { return t.End > t.Begin })
	t := f.Tensors[i]
	t.Begin -= f.HeaderSize
	t.End -= f.HeaderSize
	return reopen(s, func(list []field) []field {
		at := slices.IndexFunc(list, func(e field) bool { return e.name == t.Name })
		list[at] = change(t)
		return list
	}, 0)
}

// indexed gives a copy of the index that names every tensor where it is, and
// of the list of shard files.
func indexed(s *Snapshot) (*Index, []string) {
	index := &Index{WeightMap: map[string]string{}}
	var present []string
	for _, shard := range s.Shards {
		present = append(present, shard.Name)
	}
	for _, t := range s.tensors {
		index.WeightMap[t.Name] = s.Shards[t.Shard].Name
	}
	return index, present
}

var controls = []control{
	{"the first tensor given twice", "duplicate key", "duplicate key", func(s *Snapshot) []kernels.Finding {
		return reopen(s, func(list []field) []field { return append(list, list[len(list)-1]) }, 0)
	}},
	{"a tensor called __metadata__", "tensor under a reserved name", "a tensor called __metadata__", func(s *Snapshot) []kernels.Finding {
		return reopen(s, func(list []field) []field {
			list = slices.DeleteFunc(list, func(f field) bool { return f.name == metadataKey })
			list[0] = field{metadataKey, `{"shape":[0],"dtype":"U8","data_offsets":[0,0]}`}
			return list
		}, 0)
	}},
	{"a tensor over the bytes of the first", "overlapping ranges", "an overlap", func(s *Snapshot) []kernels.Finding {
		return reopen(s, func(list []field) []field {
			return append(list, tensorField("weighmaster.control", "U8", []uint64{1}, 0, 1))
		}, 0)
	}},
	{"the first tensor taken out of the header", "gap between ranges", "a gap", func(s *Snapshot) []kernels.Finding {
		f := s.Shards[0].File
		i := slices.IndexFunc(f.Tensors, func(t TensorInfo) bool { return t.End > t.Begin })
		return reopen(s, func(list []field) []field {
			list = slices.DeleteFunc(list, func(e field) bool { return e.name == f.Tensors[i].Name })
			end := f.Size - f.HeaderSize // so that something follows the gap
			return append(list, tensorField("weighmaster.control", "U8", []uint64{1}, end, end+1))
		}, 1)
	}},
	{"one byte appended", "trailing bytes", "trailing bytes", func(s *Snapshot) []kernels.Finding {
		return reopen(s, func(list []field) []field { return list }, 1)
	}},
	{"the last byte cut off", "truncated file", "the file is truncated", func(s *Snapshot) []kernels.Finding {
		return reopen(s, func(list []field) []field { return list }, -1)
	}},
	{"one row more in the shape", "size that is not the shape's", "which is", func(s *Snapshot) []kernels.Finding {
		return first(s, func(t TensorInfo) field {
			shape := append([]uint64{}, t.Shape...)
			if len(shape) == 0 {
				shape = []uint64{1}
			}
			shape[0]++
			return tensorField(t.Name, string(t.DType), shape, t.Begin, t.End)
		})
	}},
	{"a shape whose product wraps to zero", "overflowing size", "overflows", func(s *Snapshot) []kernels.Finding {
		return first(s, func(t TensorInfo) field {
			return tensorField(t.Name, string(t.DType), []uint64{1 << 32, 1 << 32}, t.Begin, t.End)
		})
	}},
	{"dtype F5", "unknown dtype", "unknown dtype", func(s *Snapshot) []kernels.Finding {
		return first(s, func(t TensorInfo) field { return tensorField(t.Name, "F5", t.Shape, t.Begin, t.End) })
	}},
	{"header length 2^63", "header beyond the limits", "header length", func(s *Snapshot) []kernels.Finding {
		r := kernels.Overlay{R: s.Shards[0].R, Patches: []kernels.Patch{{Offset: 0, Bytes: []byte{0, 0, 0, 0, 0, 0, 0, 0x80}}}}
		return judge(r, s.Shards[0].File.Size)
	}},
	{"a Git LFS pointer for a shard", "pointer in place of a file", "this is a Git LFS pointer, not the file", func(*Snapshot) []kernels.Finding {
		pointer := lfsPrefix + "v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 1\n"
		return judge(strings.NewReader(pointer), int64(len(pointer)))
	}},
	{"the index names a tensor more", "indexed tensor missing", CheckMissingTensor, func(s *Snapshot) []kernels.Finding {
		index, present := indexed(s)
		index.WeightMap["weighmaster.control"] = s.Shards[0].Name
		return crossCheck(index, present, s.Shards)
	}},
	{"the index lacks a tensor", "tensor missing in the index", CheckUnindexed, func(s *Snapshot) []kernels.Finding {
		index, present := indexed(s)
		delete(index.WeightMap, s.tensors[0].Name)
		return crossCheck(index, present, s.Shards)
	}},
	{"the index names another shard", "tensor in another shard", CheckWrongShard, func(s *Snapshot) []kernels.Finding {
		index, present := indexed(s)
		index.WeightMap[s.tensors[0].Name] = "model-weighmaster-control.safetensors"
		return crossCheck(index, present, s.Shards)
	}},
	{"the first shard under a second name", "tensor in two shards", CheckTwoShards, func(s *Snapshot) []kernels.Finding {
		index, present := indexed(s)
		second := s.Shards[0]
		second.Name = "model-weighmaster-control.safetensors"
		return crossCheck(index, present, append(slices.Clone(s.Shards), second))
	}},
	{"a shard beside the indexed ones", "unindexed shard", CheckStrayShard, func(s *Snapshot) []kernels.Finding {
		index, present := indexed(s)
		return crossCheck(index, append(present, "model-weighmaster-control.safetensors"), s.Shards)
	}},
	{"one row more than the config says", "shape that is not the config's", CheckShape, func(*Snapshot) []kernels.Finding {
		shapes := sampleShapes()
		shapes["model.layers.0.self_attn.k_proj.weight"] = []uint64{3, 4}
		return checkConfig(sampleConfig(), shapes)
	}},
	{"a layer's norm taken away", "tensor that the config calls for missing", CheckModelTensor, func(*Snapshot) []kernels.Finding {
		shapes := sampleShapes()
		delete(shapes, "model.layers.0.input_layernorm.weight")
		return checkConfig(sampleConfig(), shapes)
	}},
}

// plantable tells whether there is a tensor with bytes to plant a fault in.
func (s *Snapshot) plantable() bool {
	return len(s.Shards) > 0 && slices.ContainsFunc(s.Shards[0].File.Tensors, func(t TensorInfo) bool { return t.End > t.Begin })
}

// plant runs every control over a snapshot that was accepted.
func plant(ctx context.Context, c *kernels.Controls, s *Snapshot) error {
	for _, control := range controls {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.Judge(control.name, control.fault, control.plant(s), func(f kernels.Finding) bool { return strings.Contains(f.String(), control.want) })
	}
	return nil
}

// sampleConfig is the smallest Llama with grouped heads.
func sampleConfig() *Config {
	return &Config{Architectures: []string{"LlamaForCausalLM"}, HiddenSize: 4, IntermediateSize: 3, NumHiddenLayers: 1,
		NumAttentionHeads: 2, NumKeyValueHeads: 1, VocabSize: 5}
}

func sampleShapes() map[string][]uint64 {
	shapes := map[string][]uint64{"lm_head.weight": {5, 4}}
	sampleConfig().llama(func(e expected) bool {
		shapes[e.name] = e.shape
		return true
	})
	return shapes
}

// sample is a valid snapshot of two shards.
func sample() memfs.FS {
	shapes := sampleShapes()
	names := slices.Sorted(maps.Keys(shapes))
	fsys := memfs.FS{"config.json": []byte(marshal(sampleConfig()))}
	index := map[string]string{}
	for i, part := range [][]string{names[:len(names)/2], names[len(names)/2:]} {
		shard := fmt.Sprintf("model-%05d-of-00002.safetensors", i+1)
		list, end := []field{{metadataKey, `{"format":"pt"}`}}, int64(0)
		for _, name := range part {
			size := int64(2)
			for _, d := range shapes[name] {
				size *= int64(d)
			}
			list = append(list, tensorField(name, "BF16", shapes[name], end, end+size))
			end += size
			index[name] = shard
		}
		fsys[shard] = append(encodeHeader(list), bytes.Repeat([]byte{0}, int(end))...)
	}
	fsys[IndexName] = []byte(marshal(map[string]any{"metadata": map[string]any{}, "weight_map": index}))
	return fsys
}
