package compressed

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/lowfloat"
	"github.com/weighmaster/weighmaster/kernels/memfs"
	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// refused compares and gives the refusal or the findings as one text.
func refused(source, product memfs.FS) string {
	_, found, err := compareFolders(context.Background(), source, product, nil)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, f := range found {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

func TestHostileConfigurationsAreNamed(t *testing.T) {
	group := func(weights string) string {
		return `{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":` + weights + `}}}`
	}
	for name, c := range map[string]struct{ settings, want string }{
		"7 bits":         {group(`{"type":"float","num_bits":7,"strategy":"tensor"}`), "7 bits"},
		"group 0":        {group(`{"type":"float","num_bits":4,"strategy":"tensor_group","group_size":0}`), "group size 0"},
		"group of 32":    {group(`{"type":"float","num_bits":4,"strategy":"tensor_group","group_size":32}`), "group size 32"},
		"huge group":     {group(`{"type":"float","num_bits":4,"strategy":"tensor_group","group_size":99999999999999999999}`), "group size -1"},
		"integers":       {group(`{"type":"int","num_bits":8,"strategy":"channel"}`), `type "int"`},
		"block of zero":  {group(`{"type":"float","num_bits":8,"strategy":"block","block_structure":[0,128]}`), "want two positive numbers"},
		"block of text":  {group(`{"type":"float","num_bits":8,"strategy":"block","block_structure":"128x128"}`), "want two positive numbers"},
		"no groups":      {`{"quant_method":"compressed-tensors","config_groups":{}}`, "want at least one"},
		"other method":   {`{"quant_method":"gptq","bits":4}`, `got "gptq"`},
		"no method":      {`{}`, `got ""`},
		"other algo":     {`{"quant_method":"modelopt","quant_algo":"INT4_AWQ"}`, `"INT4_AWQ"`},
		"other group":    {`{"quant_method":"modelopt","quant_algo":"NVFP4","group_size":32}`, "group size 32"},
		"no such format": {`{"quant_method":"modelopt","quant_algo":"FP8"}`, "got nvfp4, want a format that the configuration names"},
		"fp8, block 0":   {`{"quant_method":"fp8","weight_block_size":[0,0]}`, "want two positive numbers"},
		"a key twice":    {`{"quant_method":"modelopt","quant_method":"fp8"}`, "quant_method"},
		"no object":      {`7`, "got absent, want an object"},
	} {
		source, product := example()
		product[configName] = []byte(`{"quantization_config": ` + c.settings + `}`)
		if got := refused(source, product); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	source, product := example()
	product[configName] = []byte(`{}`)
	product[modelOptName] = []byte(`{"quantization": {"quant_algo": "NVFP4"}}`)
	if got := refused(source, product); got != "" {
		t.Errorf("ModelOpt's own file: got %q, want it read", got)
	}
}

func TestPartsThatDoNotFitAreNamed(t *testing.T) {
	const w = exampleMatrix
	zeros := func(d safetensors.DType, shape ...uint64) folder.Tensor {
		n := uint64(d.Bits()) / 8
		for _, x := range shape {
			n *= x
		}
		return folder.Tensor{DType: d, Shape: shape, Data: make([]byte, n)}
	}
	u8, f8, f32, bf16 := safetensors.U8, safetensors.F8E4M3, safetensors.F32, safetensors.BF16
	for name, c := range map[string]struct {
		tensors map[string]folder.Tensor
		want    string
	}{
		"no codes":              {map[string]folder.Tensor{w + ".weight_scale": zeros(f32)}, "weight: false, weight_packed: false"},
		"codes twice":           {map[string]folder.Tensor{w + ".weight_scale": zeros(f32), w + ".weight": zeros(u8, 1, 8), w + ".weight_packed": zeros(u8, 1, 8)}, "weight: true, weight_packed: true"},
		"codes without a scale": {map[string]folder.Tensor{w + ".weight": zeros(f8, 1, 8)}, "without a weight_scale"},
		"three dimensions":      {map[string]folder.Tensor{w + ".weight_scale": zeros(f32), w + ".weight": zeros(f8, 1, 1, 8)}, "want rows and columns"},
		"codes of BF16":         {map[string]folder.Tensor{w + ".weight_scale": zeros(f32), w + ".weight": zeros(bf16, 1, 8)}, "want F8_E4M3, or U8 for nvfp4"},
		"scales of FP8":         {map[string]folder.Tensor{w + ".weight_scale": zeros(f8), w + ".weight": zeros(f8, 1, 8)}, "want F32, F16 or BF16"},
		"scales of three rows":  {map[string]folder.Tensor{w + ".weight_scale": zeros(f32, 3), w + ".weight": zeros(f8, 4, 8)}, "one a block of 128 by 128"},
		"no global scale":       {map[string]folder.Tensor{w + ".weight_scale": zeros(f8, 2, 1), w + ".weight": zeros(u8, 2, 8)}, "weight_scale_2: false, weight_global_scale: false"},
		"two global scales": {map[string]folder.Tensor{w + ".weight_scale": zeros(f8, 2, 1), w + ".weight": zeros(u8, 2, 8), w + ".weight_scale_2": zeros(f32), w + ".weight_global_scale": zeros(f32, 1)},
			"weight_scale_2: true, weight_global_scale: true"},
		"two global numbers":  {map[string]folder.Tensor{w + ".weight_scale": zeros(f8, 2, 1), w + ".weight": zeros(u8, 2, 8), w + ".weight_scale_2": zeros(f32, 2)}, "want one F32"},
		"half a block":        {map[string]folder.Tensor{w + ".weight_scale": zeros(f8, 2, 1), w + ".weight": zeros(u8, 2, 12), w + ".weight_scale_2": zeros(f32)}, "one for each 16 columns"},
		"a cache scale twice": {map[string]folder.Tensor{"a.self_attn.k_scale": zeros(f32), "a.self_attn.k_proj.k_scale": zeros(f32)}, "the same scale as"},
		"a cache scale of U8": {map[string]folder.Tensor{"a.self_attn.k_scale": zeros(u8)}, "want F32, F16 or BF16"},
	} {
		config := `{"quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}}`
		_, err := Open(store(c.tensors, config))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestForgeriesAreRefused: the folder is honest, the source is not the one that
// it was made from, or the other way round.
func TestForgeriesAreRefused(t *testing.T) {
	weights := tensors(t, "source")
	const name = "model.layers.0.mlp.up_proj.weight"
	edit := func(change func(i int, x float32) float32) memfs.FS {
		all := map[string]folder.Tensor{}
		for k, v := range weights {
			all[k] = v
		}
		one := all[name]
		values := make([]float32, len(one.Data)/2)
		number.BF16.Decode(values, one.Data)
		data := []byte(nil)
		for i, x := range values {
			data = number.BF16.Append(data, change(i, x))
		}
		one.Data = data
		all[name] = one
		return store(all, `{}`).(memfs.FS)
	}
	// a product of two vectors, 1 percent of the matrix's own root mean square
	u, sum := func(i int) float64 { return math.Sin(float64(i) * 12.9898) }, 0.0
	edit(func(_ int, x float32) float32 { sum += float64(x) * float64(x); return x })
	low := 0.01 * math.Sqrt(sum/(160*128)) * 2
	for what, c := range map[string]struct {
		change func(i int, x float32) float32
		want   Outcome
	}{
		"nothing":                      {func(_ int, x float32) float32 { return x }, Bounded},
		"low-rank change of 1 percent": {func(i int, x float32) float32 { return x + float32(low*u(i/128)*u(i%128+1000)) }, Differs},
		"one weight's sign": {func(i int, x float32) float32 {
			if i == 777 {
				return -x
			}
			return x
		}, Differs},
		"through FP8 first": {func(_ int, x float32) float32 { return lowfloat.E4M3(lowfloat.FromE4M3(x*1000)) / 1000 }, Differs},
	} {
		for _, product := range []string{"modelopt-nvfp4", "ct-fp8-channel", "ct-fp8-block"} {
			r, err := Compare(context.Background(), edit(c.change), open(t, dir(product)))
			if err != nil {
				t.Fatal(err)
			}
			one, _ := r.Tensor(name)
			if one.Outcome != c.want || (r.Verdict == kernels.Passed) != (c.want == Bounded) {
				t.Errorf("%s: %s: got %s and %s, %+v, want %s", product, what, one.Outcome, r.Verdict, one, c.want)
			}
		}
	}
}

// TestZeroedScaleIsRefused: a block cannot be silenced by a scale of zero.
func TestZeroedScaleIsRefused(t *testing.T) {
	source, product := example()
	m := open(t, product)
	v := folder.View{FS: product, Patches: map[string][]kernels.Patch{safetensors.SingleName: {{Offset: m.Matrices[0].Scale.Begin + 3, Bytes: []byte{0}}}}}
	r, found, err := compareFolders(context.Background(), source, v, nil)
	if err != nil || r.Verdict != kernels.Failed || !strings.Contains(found[0].String(), "beyond the bound") {
		t.Errorf("got %s, %v, %v, want weights beyond the bound", r.Verdict, found, err)
	}
	for name, b := range map[string]byte{"negative": 0xC0, "no number": 0x7F} {
		v.Patches[safetensors.SingleName][0].Bytes[0] = b
		if _, found, _ := compareFolders(context.Background(), source, v, nil); len(found) != 1 || found[0].Check != CheckScale {
			t.Errorf("%s: got %v, want the scale refused", name, found)
		}
	}
}

// TestDoubledScalesAreCounted: a coarser quantization stays within its own
// bound, and the counts say that its scales are too large.
func TestDoubledScalesAreCounted(t *testing.T) {
	source, product := example()
	data := product[safetensors.SingleName]
	m := open(t, product)
	s, err := safetensors.OpenSnapshot(source)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, _ := s.Lookup(exampleMatrix + ".weight")
	values := make([]float32, w.Elements())
	number.BF16.Decode(values, source[safetensors.SingleName][w.Begin:w.End])
	r, err := newReader(m, m.Matrices[0])
	if err != nil {
		t.Fatal(err)
	}
	coarse := 0
	for i := 0; i < len(values); i += 16 {
		at := m.Matrices[0].Scale.Begin + int64(i/16)
		if data[at] > 0x68 {
			continue // its double is no E4M3 number
		}
		coarse++
		data[at] += 0x10 // four times the scale
		for k := i; k < i+16; k += 2 {
			scale := lowfloat.E4M3(data[at]) * float32(r.global)
			data[m.Matrices[0].Codes.Begin+int64(k/2)] = lowfloat.FromE2M1(values[k]/scale) | lowfloat.FromE2M1(values[k+1]/scale)<<4
		}
	}
	result, found, err := compareFolders(context.Background(), source, product, nil)
	one, _ := result.Tensor(exampleMatrix + ".weight")
	if err != nil || len(found) > 0 || one.Outcome != Bounded || one.Loose != int64(coarse) || coarse == 0 {
		t.Errorf("got %+v, %v, %v, want %d loose blocks", one, found, err, coarse)
	}
}
