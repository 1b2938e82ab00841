package compressed

import (
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/memfs"
	"github.com/weighmaster/weighmaster/kernels/number"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// tensors reads the tensors of a fixture, so that a test can store them in another way.
func tensors(t *testing.T, name string) map[string]folder.Tensor {
	t.Helper()
	s, err := safetensors.OpenSnapshot(os.DirFS(filepath.Join(fixtures, name)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := map[string]folder.Tensor{}
	for _, one := range s.Tensors() {
		data, err := io.ReadAll(s.Section(one))
		if err != nil {
			t.Fatal(err)
		}
		all[one.Name] = folder.Tensor{DType: one.DType, Shape: one.Shape, Data: data}
	}
	return all
}

func store(all map[string]folder.Tensor, config string) fs.FS {
	return memfs.FS{configName: []byte(config), safetensors.SingleName: folder.Safetensors(all, map[string]string{"format": "pt"})}
}

const modelOptNVFP4 = `{"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}}`

// converted stores an nvfp4 folder of compressed-tensors as a ModelOpt one: other
// names, reciprocal global scales in float32, scalars for single numbers.
func converted(t *testing.T) map[string]folder.Tensor {
	all := map[string]folder.Tensor{}
	for name, one := range tensors(t, "ct-nvfp4") {
		base, suffix, _ := cutLast(name)
		switch suffix {
		case "weight_packed":
			name = base + ".weight"
		case "weight_global_scale":
			name = base + ".weight_scale_2"
			g := math.Float32frombits(binary.LittleEndian.Uint32(one.Data))
			one = folder.Tensor{DType: safetensors.F32, Data: number.F32.Append(nil, 1/g)}
		}
		all[name] = one
	}
	return all
}

func cutLast(name string) (string, string, bool) {
	i := strings.LastIndexByte(name, '.')
	return name[:i], name[i+1:], i >= 0
}

func same(t *testing.T, a, b fs.FS) Sameness {
	t.Helper()
	s, err := SameWeights(context.Background(), open(t, a), open(t, b))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAnotherNamingIsSerialization(t *testing.T) {
	s := same(t, dir("ct-nvfp4"), store(converted(t), modelOptNVFP4))
	if s.Relation != Serialization || s.Verdict != kernels.Passed || len(s.Reciprocal) != 7 || len(s.Renamed) != 14 || len(s.Findings) > 0 {
		t.Errorf("got %+v, want seven reciprocal scales and fourteen other names", s)
	}
	back := same(t, store(converted(t), modelOptNVFP4), dir("ct-nvfp4"))
	if back.Relation != Serialization {
		t.Errorf("got %+v in the other direction", back)
	}
}

func TestOneChangeIsAnotherModel(t *testing.T) {
	const base = "model.layers.0.mlp.up_proj"
	for name, c := range map[string]struct {
		tensor string
		change func(b []byte)
		check  string
	}{
		"a code":                        {base + ".weight", func(b []byte) { b[100] ^= 1 }, CheckRebuilt},
		"a block's scale":               {base + ".weight_scale", func(b []byte) { b[10] ^= 1 }, CheckScale},
		"a global scale by one unit":    {base + ".weight_scale_2", func(b []byte) { b[0] += 2 }, CheckScale},
		"a tensor that is stored as is": {"lm_head.weight", func(b []byte) { b[7] ^= 1 }, CheckUntouched},
	} {
		all := converted(t)
		one := all[c.tensor]
		one.Data = slices.Clone(one.Data)
		c.change(one.Data)
		all[c.tensor] = one
		s := same(t, dir("ct-nvfp4"), store(all, modelOptNVFP4))
		if s.Relation != Different || s.Verdict != kernels.Failed || len(s.Findings) != 1 || s.Findings[0].Check != c.check {
			t.Errorf("%s: got %s, %v, want one finding of %q", name, s.Relation, s.Findings, c.check)
		}
	}
	all := converted(t)
	delete(all, "model.norm.weight")
	if s := same(t, dir("ct-nvfp4"), store(all, modelOptNVFP4)); len(s.Findings) != 1 || s.Findings[0].Check != CheckMissing {
		t.Errorf("got %v, want a missing tensor", s.Findings)
	}
}

// TestCopyWithoutCacheScales: the clean copy equals the original everywhere else.
func TestCopyWithoutCacheScales(t *testing.T) {
	all := tensors(t, "modelopt-nvfp4-kv")
	removed := 0
	for name := range all {
		if strings.HasSuffix(name, ".k_scale") || strings.HasSuffix(name, ".v_scale") {
			delete(all, name)
			removed++
		}
	}
	s := same(t, dir("modelopt-nvfp4-kv"), store(all, modelOptNVFP4))
	if s.Relation != Fewer || s.Verdict != kernels.Passed || removed != 2 || len(s.Missing) != removed || !strings.HasSuffix(s.Missing[0], "k_scale") {
		t.Errorf("got %+v, want the %d scales of the cache named as missing", s, removed)
	}
	if back := same(t, store(all, modelOptNVFP4), dir("modelopt-nvfp4-kv")); len(back.Added) != removed {
		t.Errorf("got %+v, want them named as added", back)
	}
	if s := same(t, dir("modelopt-nvfp4-kv"), dir("modelopt-nvfp4-kv")); s.Relation != Identical || s.Tensors == 0 {
		t.Errorf("got %+v, want identical", s)
	}
	if s := same(t, dir("modelopt-nvfp4"), dir("ct-nvfp4")); s.Relation != Different {
		t.Errorf("got %s, want the two tools' own roundings to differ", s.Relation)
	}
	if s := same(t, dir("modelopt-fp8"), dir("modelopt-nvfp4")); s.Relation != Different || s.Findings[0].Check != CheckTensor {
		t.Errorf("got %s, %v, want other formats", s.Relation, s.Findings)
	}
}

// TestReshapedScalesAreTheSame: FP8 scales of F32 [rows, 1] for BF16 [rows].
func TestReshapedScalesAreTheSame(t *testing.T) {
	all := tensors(t, "ct-fp8-channel")
	for name, one := range all {
		if strings.HasSuffix(name, ".weight_scale") {
			values := make([]float32, one.Shape[0])
			number.BF16.Decode(values, one.Data)
			wide := folder.Tensor{DType: safetensors.F32, Shape: one.Shape[:1]}
			for _, x := range values {
				wide.Data = number.F32.Append(wide.Data, x)
			}
			all[name] = wide
		}
	}
	config := `{"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}}`
	if s := same(t, dir("ct-fp8-channel"), store(all, config)); s.Relation != Serialization || len(s.Reshaped) != 7 {
		t.Errorf("got %+v, want seven reshaped scales", s)
	}
	name := "model.layers.0.mlp.up_proj.weight_scale"
	all[name].Data[0] ^= 1
	if s := same(t, dir("ct-fp8-channel"), store(all, config)); s.Relation != Different || s.Findings[0].Check != CheckScale {
		t.Errorf("got %+v, want another scale", s)
	}
}

// TestTheThirdNamingIsSerialization: weight_scale_inv multiplies, whatever its name says.
func TestTheThirdNamingIsSerialization(t *testing.T) {
	all := map[string]folder.Tensor{}
	for name, one := range tensors(t, "ct-fp8-block") {
		all[strings.Replace(name, ".weight_scale", ".weight_scale_inv", 1)] = one
	}
	other := store(all, `{"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}`)
	if s := same(t, dir("ct-fp8-block"), other); s.Relation != Serialization || len(s.Renamed) != 7 {
		t.Errorf("got %+v, want seven other names", s)
	}
	if r, err := Compare(t.Context(), dir("source"), open(t, other)); err != nil || r.Verdict != kernels.Passed {
		t.Errorf("got %s, %v, %v, want it within the bound", r.Verdict, r.Findings, err)
	}
}
