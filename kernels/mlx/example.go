package mlx

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// stored is one tensor of a file that is made in memory.
type stored struct {
	dtype safetensors.DType
	shape []uint64
	data  []byte
}

// file is a safetensors file, tensors by name.
func file(tensors map[string]stored, format string) []byte {
	type entry struct {
		DType   safetensors.DType `json:"dtype"`
		Shape   []uint64          `json:"shape"`
		Offsets [2]int            `json:"data_offsets"`
	}
	header := map[string]any{"__metadata__": map[string]string{"format": format}}
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		header[name] = entry{t.dtype, t.shape, [2]int{len(data), len(data) + len(t.data)}}
		data = append(data, t.data...)
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(marshal(header)))), marshal(header), data)
}

// marshal is the JSON of maps, strings and numbers, which always have one.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

const exampleMatrix = "model.layers.0.mlp.up_proj.weight"

// exampleWeights are fixed BF16 weights between -1 and 1, of no quality.
func exampleWeights(n int) []float32 {
	w := make([]float32, n)
	state := uint32(1)
	for i := range w {
		state = state*1664525 + 1013904223
		w[i] = numbers[safetensors.BF16].round(float32(int32(state)) / (1 << 31) * float32(1+i/64%3))
	}
	return w
}

// example is a source of one matrix of 8 rows and one norm, and the folder that
// MLX's CPU backend makes of it, 4 bits in groups of 64.
func example() (source, folder fstest.MapFS) {
	bf16 := numbers[safetensors.BF16]
	const rows, width = 8, 128
	w := exampleWeights(rows * width)
	var raw, norm []byte
	for _, x := range w {
		raw = bf16.encode(raw, x)
	}
	for _, x := range w[:width] {
		norm = bf16.encode(norm, x+2)
	}
	config := map[string]any{"model_type": "llama", "rope_theta": 10000, "tie_word_embeddings": true}
	plain := stored{safetensors.BF16, []uint64{width}, norm}
	source = fstest.MapFS{
		ConfigName:             {Data: marshal(config)},
		"tokenizer.json":       {Data: []byte(`{"model": {"merges": [["a", "b"]]}}`)},
		templateName:           {Data: []byte("{{ messages }}")},
		safetensors.SingleName: {Data: file(map[string]stored{exampleMatrix: {safetensors.BF16, []uint64{rows, width}, raw}, "model.norm.weight": plain}, "pt")},
	}
	s := Scheme{Affine, 4, 64}
	var codes, scales, biases []byte
	g := group{codes: make([]byte, s.Group)}
	for i := 0; i < len(w); i += s.Group {
		cpu.affine(&g, w[i:i+s.Group], s.Bits, bf16)
		codes = pack(codes, g.codes, s.Bits)
		scales, biases = bf16.encode(scales, g.scale), bf16.encode(biases, g.bias)
	}
	base := exampleMatrix[:len(exampleMatrix)-len(".weight")]
	config["quantization"] = map[string]any{"group_size": 64, "bits": 4, "mode": "affine"}
	config["quantization_config"] = config["quantization"]
	groups := []uint64{rows, width / 64}
	tensors := map[string]stored{
		exampleMatrix: {safetensors.U32, []uint64{rows, width / 8}, codes}, base + ".scales": {safetensors.BF16, groups, scales},
		base + ".biases": {safetensors.BF16, groups, biases}, "model.norm.weight": plain,
	}
	files, size := map[string]string{}, 0
	for name, t := range tensors {
		files[name] = safetensors.SingleName
		size += len(t.data)
	}
	folder = maps.Clone(source)
	folder[ConfigName] = &fstest.MapFile{Data: marshal(config)}
	folder[safetensors.SingleName] = &fstest.MapFile{Data: file(tensors, "mlx")}
	folder[safetensors.IndexName] = &fstest.MapFile{Data: marshal(map[string]any{
		"metadata": map[string]any{"total_size": size, "total_parameters": rows*width + width}, "weight_map": files})}
	return source, folder
}

// altered is the example's folder with every scale changed.
func altered(change func(x float32) float32) (source, folder fstest.MapFS, err error) {
	source, folder = example()
	m, err := Open(folder)
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	data := slices.Clone(folder[safetensors.SingleName].Data)
	for _, t := range m.Tensors {
		if t.Scheme == nil {
			continue
		}
		for at := t.Scales.Begin; at < t.Scales.End; at += 2 {
			x := math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[at:])) << 16)
			numbers[safetensors.BF16].encode(data[at:at], change(x))
		}
	}
	folder[safetensors.SingleName] = &fstest.MapFile{Data: data}
	return source, folder, nil
}

func probe(ctx context.Context, source, folder fstest.MapFS, want kernels.Verdict, outcome Outcome) error {
	r, found, err := compareFolders(ctx, source, folder, nil)
	if err != nil {
		return err
	}
	if one, _ := r.Tensor(exampleMatrix); r.Verdict != want || one.Outcome != outcome {
		return fmt.Errorf("got %s and %s, want %s and %s: %v", r.Verdict, one.Outcome, want, outcome, found)
	}
	return nil
}

// probeLearned trains the scales by 30 percent, as DWQ may.
func probeLearned(ctx context.Context) error {
	source, folder, err := altered(func(x float32) float32 { return x * 1.3 })
	if err != nil {
		return err
	}
	return probe(ctx, source, folder, kernels.Failed, Differs)
}

// probeBounded takes the other neighbour for one weight of every group where
// that is still within the bound.
func probeBounded(ctx context.Context) error {
	source, folder := example()
	m, err := Open(folder)
	if err != nil {
		return err
	}
	defer m.Close()
	i := slices.IndexFunc(m.Tensors, func(t Tensor) bool { return t.Scheme != nil })
	t, bf16 := m.Tensors[i], numbers[safetensors.BF16]
	r, w := newMatrixReader(m, t, bf16), exampleWeights(int(t.Elements()))
	if err := r.read(int(r.groups)); err != nil {
		return err
	}
	for i := range int(r.groups) {
		nudge(r.group(i), w[i*t.Scheme.Group:(i+1)*t.Scheme.Group], t.Scheme.Bits, bf16)
	}
	data := slices.Clone(folder[safetensors.SingleName].Data)
	copy(data[t.Packed.Begin:t.Packed.End], pack(nil, r.codes, t.Scheme.Bits))
	folder[safetensors.SingleName] = &fstest.MapFile{Data: data}
	return probe(ctx, source, folder, kernels.Undecided, Bounded)
}

// nudge moves the first code of a group that can be moved within the bound.
func nudge(g *group, w []float32, bits int, t number) {
	for k, q := range g.codes {
		for _, other := range []byte{q - 1, q + 1} {
			if other >= 1<<bits {
				continue
			}
			g.codes[k] = other
			if ofBound, _ := boundAffine(g, w, bits, t); ofBound <= 1 {
				return
			}
			g.codes[k] = q
		}
	}
}

// probeUnknownType calls the model by a type that nobody knows.
func probeUnknownType(ctx context.Context) error {
	source, folder := example()
	for _, f := range []fstest.MapFS{source, folder} {
		config := map[string]any{}
		if err := json.Unmarshal(f[ConfigName].Data, &config); err != nil {
			return err
		}
		config["model_type"] = "unheard-of"
		f[ConfigName] = &fstest.MapFile{Data: marshal(config)}
	}
	r, found, err := compareFolders(ctx, source, folder, nil)
	if err != nil {
		return err
	}
	if len(found) > 0 || len(r.Notes) == 0 {
		return fmt.Errorf("got findings %v and notes %v, want a note alone", found, r.Notes)
	}
	return nil
}
