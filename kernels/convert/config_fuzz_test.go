package convert

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// hostile are values that no config has, for every field.
var hostile = []string{
	"0", "-1", "2147483647", "9223372036854775807", "-9223372036854775808", "1e308", "1e-308", "0.5",
	"null", `"yarn"`, "[[[]]]", "[-1]", `{"rope_type":"llama3"}`, `{"type":"linear","factor":1e308}`, `{"full_attention":{}}`,
}

// FuzzConfig: whatever config.json says, over a real checkpoint's tensors, it is
// refused by name, or what it gives lies within bounds.
func FuzzConfig(f *testing.F) {
	for _, name := range models(f) {
		body := loadFixture(f, name)["config.json"].Data
		f.Add(body)
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			f.Fatal(err)
		}
		i := 0
		for _, field := range sortedKeys(fields) { // one hostile value for each field; the fuzzer and the test below try the rest
			stated := fields[field]
			fields[field] = json.RawMessage(hostile[i%len(hostile)])
			changed, err := json.Marshal(fields)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(changed)
			fields[field], i = stated, i+1
		}
	}
	f.Add([]byte(`{"hidden_size":9223372036854775807,"hidden_size":1}`))
	f.Add([]byte(`null`))
	f.Add([]byte(strings.Repeat("[", 1<<16)))
	checkpoint := loadFixture(f, "qwen3-moe")
	f.Fuzz(func(t *testing.T, body []byte) {
		tryConfig(t, checkpoint, body)
	})
}

func tryConfig(t *testing.T, checkpoint fstest.MapFS, body []byte) {
	t.Helper()
	c, err := ReadConfig(fstest.MapFS{"config.json": {Data: body}})
	if err != nil {
		var unknown *UnknownArchitectureError
		if !strings.HasPrefix(err.Error(), "config.json: ") && !errors.As(err, &unknown) {
			t.Fatalf("got %v, want an error that names config.json", err)
		}
		return
	}
	fsys := maps.Clone(checkpoint)
	fsys["config.json"] = &fstest.MapFile{Data: body}
	if m, err := Open(fsys); err == nil {
		m.Close()
	}
	if c.headDim() < 2 || c.headDim() > maxHeadDim || c.Heads < 1 || c.kvHeads() < 1 || c.Heads%c.kvHeads() != 0 || c.experts() < 0 || c.experts() > maxExperts {
		t.Fatalf("accepted %d heads, %d key-value heads, dimension %d, %d experts", c.Heads, c.kvHeads(), c.headDim(), c.experts())
	}
	for i := range c.architecture.Mappings {
		for _, d := range c.architecture.Mappings[i].Shape {
			if n := c.dim(d); n < 1 || n > math.MaxInt64>>12 {
				t.Fatalf("%s: dimension %d: %d", c.architecture.Mappings[i].HF, d, n)
			}
		}
	}
	if n := len(c.ropeFactors()); n != 0 && int64(n) != c.headDim()/2 {
		t.Fatalf("got %d RoPE factors for a head dimension of %d", n, c.headDim())
	}
	for _, opts := range []Options{{}, {AsStated: true}} {
		for _, kv := range append(c.list(c.architecture.Early, opts), c.hyperParameters(opts)...) {
			if kv.Value.Type == gguf.TypeFloat32 {
				if x, _ := kv.Value.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("%s: got %v", kv.Key, x)
				}
			}
		}
	}
	c.Defaults()
}

// TestHostileConfigs puts every hostile value into every field of every
// architecture's config that the conversion reads.
func TestHostileConfigs(t *testing.T) {
	read := map[string]bool{"text_config": true}
	for f := range reflect.TypeFor[Config]().Fields() {
		read[f.Tag.Get("json")] = true
	}
	tried := 0
	for _, name := range models(t) {
		checkpoint := loadFixture(t, name)
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(checkpoint["config.json"].Data, &fields); err != nil {
			t.Fatal(err)
		}
		for field, stated := range fields {
			if !read[field] {
				continue
			}
			for _, value := range hostile {
				fields[field] = json.RawMessage(value)
				body, err := json.Marshal(fields)
				if err != nil {
					t.Fatal(err)
				}
				tryConfig(t, checkpoint, body)
				tried++
			}
			fields[field] = stated
		}
	}
	if tried < 3000 {
		t.Errorf("got %d configs, want 3000 and more", tried)
	}
}
