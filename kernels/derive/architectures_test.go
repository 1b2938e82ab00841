package derive

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

const architecturesDir = "../../fixtures/architectures"

// eachArchitecture runs a test over every checkpoint that llama.cpp's converter has converted.
func eachArchitecture(t *testing.T, test func(t *testing.T, name string)) {
	paths, err := filepath.Glob(filepath.Join(architecturesDir, "*", "BF16.gguf"))
	if err != nil || len(paths) < 14 {
		t.Fatalf("got %d models and %v, want 14 and more", len(paths), err)
	}
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name)
		})
	}
}

func relate(t *testing.T, name string, product File) Relation {
	t.Helper()
	source := Input{Snapshot: os.DirFS(filepath.Join(architecturesDir, name, "hf"))}
	r, err := Compare(t.Context(), source, Input{GGUF: &product}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func productOf(name string) string { return filepath.Join(architecturesDir, name, "BF16.gguf") }

// derivable leaves out what is known of these fixtures: their byte-level
// vocabularies are not published, so that no table knows their pre-tokenizers.
func derivable(findings []kernels.Finding) []kernels.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f kernels.Finding) bool { return f.Check == "tokenizer" })
}

func TestEveryArchitectureIsAnExactConversion(t *testing.T) {
	eachArchitecture(t, func(t *testing.T, name string) {
		files, err := filepath.Glob(filepath.Join(architecturesDir, name, "*.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			want := Conversion
			if strings.HasSuffix(file, "Q8_0.gguf") {
				want = Quantization
			}
			r := relate(t, name, readFile(t, file))
			if r.Kind != want || r.Class != ClassA || len(r.Findings) > 0 || len(derivable(r.Metadata)) > 0 {
				t.Errorf("%s: got %s, class %s, %v, %v", file, r.Kind, r.Class, r.Findings, r.Metadata)
			}
		}
	})
}

// TestEveryFaultIsPlantedInEveryArchitecture: no architecture lacks what a control needs.
func TestEveryFaultIsPlantedInEveryArchitecture(t *testing.T) {
	eachArchitecture(t, func(t *testing.T, name string) {
		if name != "qwen3-moe" {
			arithmetic(t)
		}
		source := Input{Snapshot: os.DirFS(filepath.Join(architecturesDir, name, "hf"))}
		report, err := Check(t.Context(), source, readFile(t, productOf(name)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		short := name == "llama2" // whose rows are shorter than a block of Q8_0
		for _, c := range report.Controls.Results {
			if !c.Red && !(short && strings.HasPrefix(c.Fault, "Q8_0 ")) {
				t.Errorf("%s: missed: %s", c.Name, c.Detail)
			}
		}
		if len(report.Controls.Results) != len(Faults()) || len(derivable(report.Findings)) > 0 {
			t.Errorf("got %d controls and %v, want %d controls and no finding", len(report.Controls.Results), report.Findings, len(Faults()))
		}
		if len(report.Findings) == 0 && !short && report.Verdict != kernels.Passed {
			t.Errorf("got %s, want passed", report.Verdict)
		}
	})
}

// TestEveryHyperParameterIsHeldAgainstTheConfig changes each key of the product
// and takes each away: RoPE theta lost, scaling dropped and all others of their kind.
func TestEveryHyperParameterIsHeldAgainstTheConfig(t *testing.T) {
	eachArchitecture(t, func(t *testing.T, name string) {
		file := readFile(t, productOf(name))
		f, err := gguf.Open(file.R, file.Size)
		if err != nil {
			t.Fatal(err)
		}
		src, err := open(Input{Snapshot: os.DirFS(filepath.Join(architecturesDir, name, "hf"))})
		if err != nil {
			t.Fatal(err)
		}
		defer src.close()
		with := func(change func(r *rewritten)) []kernels.Finding {
			r := &rewritten{kvs: slices.Clone(f.KVs)}
			change(r)
			return compareKVs(src, r.kvs, nil, true)
		}
		prefix, defaults, tried := src.model.Config.Architecture().GGUF+".", src.model.Config.Defaults(), 0
		for _, kv := range f.KVs {
			if !strings.HasPrefix(kv.Key, prefix) {
				continue
			}
			tried++
			if found := with(func(r *rewritten) { r.set(kv.Key, another(kv.Value)) }); !about(found, kv.Key) {
				t.Errorf("%s changed: got %v, want it named", kv.Key, found)
			}
			implied, optional := defaults[kv.Key]
			if found := with(func(r *rewritten) { r.drop(kv.Key) }); about(found, kv.Key) == (optional && implied.Equal(kv.Value)) {
				t.Errorf("%s taken away: got %v, but readers take %v for it", kv.Key, found, implied)
			}
		}
		if tried < 8 {
			t.Errorf("got %d hyper-parameters, want 8 and more", tried)
		}
		const factor = "rope.scaling.yarn_log_multiplier"
		if found := with(func(r *rewritten) { r.set(prefix+factor, gguf.Float32(0.5)) }); !about(found, prefix+factor) {
			t.Errorf("a scaling that the config does not give: got %v, want it named", found)
		}
		if found := with(func(r *rewritten) { r.set("general.architecture", gguf.String("mamba")) }); !about(found, "general.architecture") {
			t.Errorf("another architecture: got %v, want it named", found)
		}
		// and once as users see it
		changed := relate(t, name, rewrite(t, productOf(name), func(_ *testing.T, r *rewritten) { r.set(prefix+"block_count", gguf.Uint32(99)) }))
		if !about(changed.Metadata, prefix+"block_count") {
			t.Errorf("got %v, want the number of layers named", changed.Metadata)
		}
	})
}

func another(v gguf.Value) gguf.Value {
	if text, ok := v.Text(); ok {
		return gguf.String(text + "2")
	}
	if n, ok := v.Uint(); ok {
		return gguf.Uint32(uint32(n) + 1)
	}
	x, _ := v.Float()
	return gguf.Float32(math.Nextafter32(float32(x), math.MaxFloat32))
}

func about(findings []kernels.Finding, key string) bool {
	return slices.ContainsFunc(findings, func(f kernels.Finding) bool { return f.Where == "key "+key })
}

// TestEveryArchitecturesInventoryIsComplete takes a tensor away, adds one and turns one's shape, in every architecture.
func TestEveryArchitecturesInventoryIsComplete(t *testing.T) {
	eachArchitecture(t, func(t *testing.T, name string) {
		for _, c := range []struct {
			name   string
			change func(r *rewritten, i int)
			want   string
		}{
			{"missing", func(r *rewritten, i int) { r.tensors = slices.Delete(r.tensors, i, i+1) }, "no such tensor"},
			{"extra", func(r *rewritten, i int) {
				extra := r.tensors[i]
				extra.Name += "2"
				r.bodies[extra.Name] = r.bodies[r.tensors[i].Name]
				r.tensors = append(r.tensors, extra)
			}, "a tensor that the source does not have"},
			{"of another shape", func(r *rewritten, i int) { r.tensors[i].Dims = otherShape(r.tensors[i].Dims) }, "shape"},
		} {
			for _, tensor := range []string{"token_embd.weight", "blk.1.attn_norm.weight", "blk.1.attn_output.weight"} {
				r := relate(t, name, rewrite(t, productOf(name), func(t *testing.T, r *rewritten) {
					i := slices.IndexFunc(r.tensors, func(s gguf.TensorSource) bool { return s.Name == tensor })
					if i < 0 {
						t.Fatalf("no tensor %s", tensor)
					}
					c.change(r, i)
				}))
				if !slices.ContainsFunc(r.Findings, func(f kernels.Finding) bool {
					return strings.HasPrefix(f.Where, "tensor "+tensor) && strings.Contains(f.String(), c.want)
				}) {
					t.Errorf("%s %s: got %v, want it named", tensor, c.name, r.Findings)
				}
			}
		}
	})
}

// otherShape keeps the number of weights.
func otherShape(dims []uint64) []uint64 {
	if len(dims) == 1 {
		return []uint64{dims[0] / 2, 2}
	}
	return []uint64{dims[0] * dims[1]}
}

// TestMistakesOfConvertersAreTold makes the mistakes that conversions of each architecture are known for.
func TestMistakesOfConvertersAreTold(t *testing.T) {
	for _, c := range []struct {
		model, name, tensor string
		change              func(t *testing.T, r *rewritten, tensor string)
		want                string
	}{
		{"gemma3", "a norm without the 1 that is added", "blk.0.attn_q_norm.weight", asStored("gemma3"), "the values fit the checkpoint's numbers as they stand, want 1 added to each"},
		{"gemma2", "the last norm without the 1", "output_norm.weight", asStored("gemma2"), "the values fit the checkpoint's numbers as they stand, want 1 added to each"},
		{"llama3", "K ordered for the query heads", "blk.1.attn_k.weight", func(_ *testing.T, r *rewritten, tensor string) {
			r.rows(tensor, 32, inverse(32, convert.HeadOrder(32, 2)))
			r.rows(tensor, 32, convert.HeadOrder(32, 4))
		}, "a permutation for 4 heads, want 2"},
		{"mixtral", "K as the checkpoint has it", "blk.0.attn_k.weight", func(_ *testing.T, r *rewritten, tensor string) {
			r.rows(tensor, 24, inverse(24, convert.HeadOrder(24, 2)))
		}, "no permutation"},
		{"llama-biases", "a bias of Q in the checkpoint's order", "blk.0.attn_q.bias", func(_ *testing.T, r *rewritten, tensor string) {
			r.rows(tensor, 16, inverse(16, convert.HeadOrder(16, 2)))
		}, "no permutation"},
		{"qwen3", "Q ordered as Llama's", "blk.0.attn_q.weight", func(_ *testing.T, r *rewritten, tensor string) {
			r.rows(tensor, 96, convert.HeadOrder(96, 4))
		}, "moved from half-split to interleaved rotary order by 4 heads"},
		{"qwen3-moe", "experts in the order of their names", "blk.1.ffn_up_exps.weight", func(_ *testing.T, r *rewritten, tensor string) {
			names := []int64{0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9}
			r.rows(tensor, 12, func(expert int64) int64 { return names[expert] })
		}, "in another order"},
		{"mixtral", "a router in BF16", "blk.0.ffn_gate_inp.weight", func(_ *testing.T, r *rewritten, tensor string) {
			var short []byte
			for i := 0; i < len(r.bodies[tensor]); i += 4 {
				short = append(short, r.bodies[tensor][i+2:i+4]...)
			}
			r.bodies[tensor] = short
			i := slices.IndexFunc(r.tensors, func(s gguf.TensorSource) bool { return s.Name == tensor })
			r.tensors[i].Type = gguf.BF16
		}, "got BF16, want F32"},
		{"phi3-long", "a long factor off by one bit", "rope_factors_long.weight", bump(1), "values"},
		{"llama3", "a RoPE factor off by 5 ulp", "rope_freqs.weight", bump(5), "RoPE scaling does not follow config.json"},
		{"llama3", "no RoPE factors", "rope_freqs.weight", func(_ *testing.T, r *rewritten, tensor string) {
			r.tensors = slices.DeleteFunc(r.tensors, func(s gguf.TensorSource) bool { return s.Name == tensor })
		}, "the factors of llama3 RoPE scaling"},
	} {
		t.Run(c.model+" "+c.name, func(t *testing.T) {
			r := relate(t, c.model, rewrite(t, productOf(c.model), func(t *testing.T, r *rewritten) { c.change(t, r, c.tensor) }))
			if r.Kind == Conversion || !slices.ContainsFunc(r.Findings, func(f kernels.Finding) bool {
				return strings.HasPrefix(f.Where, "tensor "+c.tensor) && strings.Contains(f.String(), c.want)
			}) {
				t.Errorf("got %s, %v, want %s named: %s", r.Kind, r.Findings, c.tensor, c.want)
			}
		})
	}
}

// asStored puts a model's own numbers of a norm into the product.
func asStored(model string) func(*testing.T, *rewritten, string) {
	return func(t *testing.T, r *rewritten, tensor string) {
		m, err := convert.Open(os.DirFS(filepath.Join(architecturesDir, model, "hf")))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		i := slices.IndexFunc(m.Tensors, func(x convert.Tensor) bool { return x.Name == tensor })
		stored := m.Tensors[i].Wrong[0].Rows
		raw, numbers := make([]byte, stored.Codec.Size(stored.Weights())), make([]float32, stored.Weights())
		if err := stored.Raw(raw, 0); err != nil {
			t.Fatal(err)
		}
		stored.Codec.Dequantize(numbers, raw)
		r.bodies[tensor] = nil
		for _, x := range numbers {
			r.bodies[tensor] = binary.LittleEndian.AppendUint32(r.bodies[tensor], math.Float32bits(x))
		}
	}
}

func bump(ulps uint32) func(*testing.T, *rewritten, string) {
	return func(_ *testing.T, r *rewritten, tensor string) {
		body := r.bodies[tensor]
		binary.LittleEndian.PutUint32(body[4:], binary.LittleEndian.Uint32(body[4:])+ulps)
	}
}

// TestRopeFactorsMayDifferInTheLastBits: they are computed through a library's pow.
func TestRopeFactorsMayDifferInTheLastBits(t *testing.T) {
	r := relate(t, "llama3", rewrite(t, productOf("llama3"), func(t *testing.T, r *rewritten) { bump(4)(t, r, "rope_freqs.weight") }))
	if r.Kind != Conversion || len(r.Findings) > 0 {
		t.Errorf("got %s, %v, want an exact conversion", r.Kind, r.Findings)
	}
}
