package folder

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// Tensor is one tensor of a file that is made in memory.
type Tensor struct {
	DType safetensors.DType
	Shape []uint64 // nil is a scalar
	Data  []byte
}

// Safetensors is a file of tensors, by name, as self-checks build it.
func Safetensors(tensors map[string]Tensor, metadata map[string]string) []byte {
	type entry struct {
		DType   safetensors.DType `json:"dtype"`
		Shape   []uint64          `json:"shape"`
		Offsets [2]int            `json:"data_offsets"`
	}
	header := map[string]any{"__metadata__": metadata}
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		header[name] = entry{t.DType, append([]uint64{}, t.Shape...), [2]int{len(data), len(data) + len(t.Data)}}
		data = append(data, t.Data...)
	}
	text := JSON(header)
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, data)
}

// JSON is the text of maps, lists, strings and numbers, which always have one.
func JSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
