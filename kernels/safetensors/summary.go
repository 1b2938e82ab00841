package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Summary is what headers and config.json say of a folder. Only counts and
// types are facts; the rest is what whoever wrote the files says.
type Summary struct {
	Architecture string      `json:"architecture"` // the first of config.json, empty without
	ModelType    string      `json:"modelType"`
	Container    string      `json:"container"`  // how quantized weights are stored, as config.json says; empty where it says nothing
	Parameters   uint64      `json:"parameters"` // stored elements; packed weights are fewer than the model's
	Bytes        int64       `json:"bytes"`      // of all tensors
	Types        []TypeCount `json:"types"`      // most bytes first
	Warnings     []string    `json:"warnings"`
}

// TypeCount counts the tensors of one type. Bytes are as stored.
type TypeCount struct {
	Type     string `json:"type"`
	Tensors  int    `json:"tensors"`
	Elements uint64 `json:"elements"`
	Bytes    int64  `json:"bytes"`
}

// Count counts tensors by type, those of most bytes first.
func Count(tensors []TensorInfo) (types []TypeCount, elements uint64, bytes int64) {
	types = []TypeCount{}
	by := map[DType]int{}
	for _, t := range tensors {
		i, ok := by[t.DType]
		if !ok {
			i = len(types)
			by[t.DType] = i
			types = append(types, TypeCount{Type: string(t.DType)})
		}
		c := &types[i]
		c.Tensors++
		c.Elements += t.Elements()
		c.Bytes += t.End - t.Begin
		elements += t.Elements()
		bytes += t.End - t.Begin
	}
	slices.SortFunc(types, func(a, b TypeCount) int {
		if a.Bytes != b.Bytes {
			return int(max(-1, min(1, b.Bytes-a.Bytes)))
		}
		return strings.Compare(a.Type, b.Type)
	})
	return types, elements, bytes
}

// Summarize sums up an opened folder. A config.json that is missing or cannot
// be read is a warning.
func (s *Snapshot) Summarize(fsys fs.FS) Summary {
	out := Summary{Warnings: []string{}}
	tensors := make([]TensorInfo, len(s.tensors))
	for i, t := range s.tensors {
		tensors[i] = t.TensorInfo
	}
	out.Types, out.Parameters, out.Bytes = Count(tensors)
	raw, err := readConfig(fsys)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("config.json is missing")
		}
		out.Warnings = append(out.Warnings, err.Error())
		return out
	}
	var c struct {
		Architectures []string        `json:"architectures"`
		ModelType     string          `json:"model_type"`
		Tied          *bool           `json:"tie_word_embeddings"`
		MLX           json.RawMessage `json:"quantization"`
		Quantization  json.RawMessage `json:"quantization_config"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		out.Warnings = append(out.Warnings, fmt.Sprintf("config.json: %v", err))
		return out
	}
	if out.ModelType = c.ModelType; len(c.Architectures) > 0 {
		out.Architecture = c.Architectures[0]
	} else {
		out.Warnings = append(out.Warnings, "config.json names no architecture")
	}
	out.Container = container(c.MLX, c.Quantization)
	if _, output := s.Lookup("lm_head.weight"); c.Tied != nil && *c.Tied == output {
		out.Warnings = append(out.Warnings, fmt.Sprintf("config.json says tie_word_embeddings = %t and lm_head.weight is %s; what is there counts", *c.Tied, map[bool]string{true: "here", false: "missing"}[output]))
	}
	if s.Index != nil {
		if total, ok := s.Index.TotalSize(); ok && total != out.Bytes {
			out.Warnings = append(out.Warnings, fmt.Sprintf("the index says total_size = %d and the shards hold %d bytes", total, out.Bytes))
		}
	}
	return out
}

// container names the way in which weights are packed: MLX by its key
// "quantization", others by quantization_config.
func container(mlx, quantization json.RawMessage) string {
	var m struct {
		Bits  json.Number `json:"bits"`
		Group json.Number `json:"group_size"`
		Mode  string      `json:"mode"`
	}
	if mlx != nil && json.Unmarshal(mlx, &m) == nil && m.Bits != "" {
		if m.Mode == "" {
			m.Mode = "affine"
		}
		return fmt.Sprintf("MLX, %s bits in groups of %s, %.40s", m.Bits, m.Group, m.Mode)
	}
	var q struct {
		Method    string      `json:"quant_method"`
		Format    string      `json:"format"`
		Algorithm string      `json:"quant_algo"`
		Bits      json.Number `json:"bits"`
	}
	if quantization == nil || json.Unmarshal(quantization, &q) != nil || q.Method == "" {
		return ""
	}
	name := fmt.Sprintf("%.40s", q.Method)
	for _, detail := range []string{q.Format, q.Algorithm} {
		if detail != "" {
			name += fmt.Sprintf(", %.60s", detail)
		}
	}
	if q.Bits != "" {
		name += fmt.Sprintf(", %s bits", q.Bits)
	}
	return name
}
