package safetensors

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/kerneltest"
)

func TestKernelFindsEveryPlantedFault(t *testing.T) {
	for name, fsys := range map[string]fs.FS{
		"built-in":      sample(),
		"llama-grouped": os.DirFS(shared.Path(t, "data", "llama-grouped", "hf")),
		"llama-odd":     os.DirFS(shared.Path(t, "data", "llama-odd", "hf")),
	} {
		r, err := InspectSnapshot(context.Background(), fsys, nil)
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Passes(t, name, Kernel(), r)
		if got, want := metric(r, "parameters"), metric(r, "parameters by config"); got != want || got == 0 {
			t.Errorf("%s: got %v parameters, want %v", name, got, want)
		}
		if metric(r, "compared with config") != 1 || metric(r, "output matrix present") != 1 || metric(r, "embeddings tied by config") != 0 {
			t.Errorf("%s: got %+v, want a compared config and an untied output", name, r.Metrics)
		}
	}
}

func metric(r kernels.Report, name string) float64 {
	for _, m := range r.Metrics {
		if m.Name == name && m.Identity == nil {
			return m.Value
		}
	}
	return -1
}

// TestUnchangedCopyIsAccepted shows that controls are red because of their
// fault and not because of how the copy is made.
func TestUnchangedCopyIsAccepted(t *testing.T) {
	s, err := OpenSnapshot(sample())
	if err != nil {
		t.Fatal(err)
	}
	if found := reopen(s, func(list []field) []field { return list }, 0); len(found) > 0 {
		t.Error(found)
	}
	index, present := indexed(s)
	if found := crossCheck(index, present, s.Shards); len(found) > 0 {
		t.Error(found)
	}
	if found := checkConfig(sampleConfig(), sampleShapes()); len(found) > 0 {
		t.Error(found)
	}
}

func TestInspectSnapshotFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(fsys map[string][]byte)
		want   string
	}{
		"config of another width": {func(m map[string][]byte) { replace(m, "config.json", `"hidden_size":4`, `"hidden_size":8`) }, CheckShape},
		"config with more layers": {func(m map[string][]byte) {
			replace(m, "config.json", `"num_hidden_layers":1`, `"num_hidden_layers":2147483647`)
		}, CheckModelTensor},
		"config without sizes":     {func(m map[string][]byte) { m["config.json"] = []byte(`{"architectures":["LlamaForCausalLM"]}`) }, CheckConfig},
		"config that is not JSON":  {func(m map[string][]byte) { m["config.json"] = []byte(`{`) }, CheckConfig},
		"a shard is gone":          {func(m map[string][]byte) { delete(m, "model-00002-of-00002.safetensors") }, CheckMissingShard},
		"a stray shard":            {func(m map[string][]byte) { m["model.safetensors"] = m["model-00001-of-00002.safetensors"] }, CheckStrayShard},
		"a shard is a LFS pointer": {func(m map[string][]byte) { m["model-00001-of-00002.safetensors"] = []byte(lfsPrefix + "v1\noid") }, "this is a Git LFS pointer, not the file"},
	} {
		r, err := InspectSnapshot(context.Background(), changed(c.change), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != kernels.Failed || !strings.Contains(r.Findings[0].String(), c.want) || r.Controls.Missed != 0 || r.Controls.Planted == 0 {
			t.Errorf("%s: got %s, %v, want failed for %s", name, r.Verdict, r.Findings, c.want)
		}
	}
}

// TestTiedFlagAndPresenceAreBothReported: derivation follows presence, so a
// missing output is a finding only where the config does not call it tied.
func TestTiedFlagAndPresenceAreBothReported(t *testing.T) {
	for name, c := range map[string]struct {
		tied, present bool
		verdict       kernels.Verdict
	}{
		"tied and absent": {true, false, kernels.Passed}, "tied and present": {true, true, kernels.Passed},
		"untied and present": {false, true, kernels.Passed}, "untied and absent": {false, false, kernels.Failed},
	} {
		fsys := changed(func(m map[string][]byte) {
			if !c.present {
				for file := range m {
					replace(m, file, `lm_head.weight`, `my_head.weight`)
				}
			}
		})
		config := sampleConfig()
		config.TieWordEmbeddings = &c.tied
		r, err := InspectSnapshot(context.Background(), fsys, config)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != c.verdict || metric(r, "embeddings tied by config") != oneIf(c.tied) || metric(r, "output matrix present") != oneIf(c.present) {
			t.Errorf("%s: got %s, %v, %v", name, r.Verdict, r.Metrics, r.Findings)
		}
	}
}

func TestUnknownArchitectureIsCountedOnly(t *testing.T) {
	config := &Config{Architectures: []string{"MambaForCausalLM"}}
	r, err := InspectSnapshot(context.Background(), sample(), config)
	if err != nil || r.Verdict != kernels.Passed || metric(r, "compared with config") != 0 || metric(r, "parameters") <= 0 {
		t.Errorf("got %s, %v, %v, want counts and no comparison", r.Verdict, r.Metrics, err)
	}
}

func BenchmarkInspectSnapshot(b *testing.B) {
	fsys := sample()
	for b.Loop() {
		if _, err := InspectSnapshot(context.Background(), fsys, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// manyTensors is a file of 10,000 tensors of one byte.
func manyTensors() []byte {
	var list []field
	for i := range int64(10_000) {
		list = append(list, tensorField("model.layers.0.mlp.experts."+strings.Repeat("x", int(i%7))+marshal(i)+".weight", "U8", []uint64{1}, i, i+1))
	}
	return append(encodeHeader(list), make([]byte, 10_000)...)
}

// BenchmarkOpen measures header bytes of a model of 10,000 tensors.
func BenchmarkOpen(b *testing.B) {
	text := manyTensors()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Open(bytes.NewReader(text), int64(len(text))); err != nil {
			b.Fatal(err)
		}
	}
}
