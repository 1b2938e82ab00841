package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/fixtures/hostile"

	"github.com/weighmaster/weighmaster/kernels/memfs"
)

// raw makes a file of a header text and n bytes of data.
func raw(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func tensor(name, dtype, shape, offsets string) string {
	return `"` + name + `":{"dtype":"` + dtype + `","shape":` + shape + `,"data_offsets":` + offsets + `}`
}

var legal = map[string][]byte{
	"no tensors":                raw(`{}`, 0),
	"metadata only":             raw(`{"__metadata__":{"format":"pt"}}`, 0),
	"scalar":                    raw(`{`+tensor("a", "F32", "[]", "[0,4]")+`}`, 4),
	"zero-size tensor":          raw(`{`+tensor("a", "F32", "[0,3]", "[0,0]")+`,`+tensor("b", "U8", "[1]", "[0,1]")+`}`, 1),
	"F4 of two elements":        raw(`{`+tensor("a", "F4", "[2]", "[0,1]")+`}`, 1),
	"F6 of four elements":       raw(`{`+tensor("a", "F6_E2M3", "[4]", "[0,3]")+`,`+tensor("b", "F6_E3M2", "[2,2]", "[3,6]")+`}`, 6),
	"white space around":        raw(" \n{"+tensor("a", "BOOL", "[1]", "[0,1]")+"}\t  ", 1),
	"keys in another order":     raw(`{`+tensor("b", "U8", "[1]", "[1,2]")+`,`+tensor("a", "U8", "[1]", "[0,1]")+`}`, 2),
	"names of other languages":  raw(`{`+tensor("gewicht.ä.重", "U8", "[1]", "[0,1]")+`}`, 1),
	"zero before an enormous":   raw(`{`+tensor("a", "U8", "[0,18446744073709551615]", "[0,0]")+`}`, 0),
	"sub-byte types of nothing": raw(`{`+tensor("a", "F4", "[0]", "[0,0]")+`}`, 0),
}

func TestLegalFiles(t *testing.T) {
	for name, b := range legal {
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, info := range f.Tensors {
			if found, ok := f.Tensor(info.Name); !ok || found.Begin != info.Begin || f.Section(info).Size() != info.End-info.Begin {
				t.Errorf("%s: %s is not found by its name", name, info.Name)
			}
		}
		// Encoding what was parsed gives a file with the same tensors.
		again := append(encodeHeader(f.fields()), b[f.HeaderSize:]...)
		g, err := Open(bytes.NewReader(again), int64(len(again)))
		if err != nil || !slices.EqualFunc(f.Tensors, g.Tensors, func(a, b TensorInfo) bool {
			return a.Name == b.Name && a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && a.Begin-f.HeaderSize == b.Begin-g.HeaderSize
		}) {
			t.Errorf("%s: encoded again: got %v, %v, want %v", name, g, err, f.Tensors)
		}
	}
}

func TestHostileFiles(t *testing.T) {
	for _, c := range hostile.Safetensors() {
		t.Run(c.Name, func(t *testing.T) {
			f, err := Open(bytes.NewReader(c.Data), int64(len(c.Data)))
			var bad *FormatError
			if f != nil || !errors.As(err, &bad) || !strings.Contains(err.Error(), c.Want) {
				t.Errorf("got %v, want a refusal that says %q", err, c.Want)
			}
		})
	}
}

func TestHostileIndexes(t *testing.T) {
	for _, c := range hostile.Indexes() {
		t.Run(c.Name, func(t *testing.T) {
			x, err := ReadIndex(bytes.NewReader(c.Data))
			var bad *FormatError
			if x != nil || !errors.As(err, &bad) || !strings.Contains(err.Error(), c.Want) {
				t.Errorf("got %v, want a refusal that says %q", err, c.Want)
			}
		})
	}
}

// TestPromisesAllocateNothing opens small files that promise much.
func TestPromisesAllocateNothing(t *testing.T) {
	for _, n := range []uint64{MaxHeader, 1 << 40, 1 << 63} {
		b := append(binary.LittleEndian.AppendUint64(nil, n), make([]byte, 1024)...)
		if used := allocated(func() { _, _ = Open(bytes.NewReader(b), int64(len(b))) }); used > 1<<20 {
			t.Errorf("header length %d: got %d bytes allocated, want at most 1 MiB", n, used)
		}
	}
	// A caller whose size is wrong gets an error, not memory.
	b := append(binary.LittleEndian.AppendUint64(nil, MaxHeader), '{')
	if used := allocated(func() { _, _ = Open(bytes.NewReader(b), 1<<40) }); used > 1<<20 {
		t.Errorf("wrong size: got %d bytes allocated, want at most 1 MiB", used)
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// changed is the built-in snapshot with a change.
func changed(change func(m map[string][]byte)) fs.FS {
	m := sample()
	change(m)
	fsys := fstest.MapFS{}
	for name, b := range m {
		fsys[name] = &fstest.MapFile{Data: b}
	}
	return fsys
}

// replace swaps texts of one length, so that no offset moves, or any text of a whole JSON file.
func replace(m map[string][]byte, file, from, to string) {
	m[file] = bytes.ReplaceAll(m[file], []byte(from), []byte(to))
}

func TestHostileSnapshots(t *testing.T) {
	const one, two = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
	for name, c := range map[string]struct {
		change func(m map[string][]byte)
		want   string
	}{
		"index names a tensor that no shard has": {func(m map[string][]byte) {
			replace(m, IndexName, `"weight_map":{`, `"weight_map":{"extra":"`+one+`",`)
		}, "tensor missing in the shards: extra"},
		"shard has a tensor that the index lacks": {func(m map[string][]byte) {
			replace(m, IndexName, `"lm_head.weight":"`+one+`",`, ``)
		}, "tensor missing in the index: lm_head.weight"},
		"same tensor in two shards": {func(m map[string][]byte) {
			m["model-00003.safetensors"] = raw(`{`+tensor("lm_head.weight", "U8", "[1]", "[0,1]")+`}`, 1)
			replace(m, IndexName, `"weight_map":{`, `"weight_map":{"other":"model-00003.safetensors",`)
		}, "tensor in two shards: lm_head.weight"},
		"tensor in another shard": {func(m map[string][]byte) {
			replace(m, IndexName, `"lm_head.weight":"`+one, `"lm_head.weight":"`+two)
		}, "tensor in another shard: lm_head.weight"},
		"stale shard":          {func(m map[string][]byte) { m["model-old.safetensors"] = m[one] }, "unindexed shard: model-old.safetensors"},
		"shard by a path":      {func(m map[string][]byte) { replace(m, IndexName, two, "../"+two) }, "a plain file name"},
		"shard by a backslash": {func(m map[string][]byte) { replace(m, IndexName, two, `..\\`+two) }, "a plain file name"},
		"shard missing":        {func(m map[string][]byte) { delete(m, two) }, "shard is missing: " + two},
		"duplicate in index": {func(m map[string][]byte) {
			replace(m, IndexName, `"weight_map":{`, `"weight_map":{"lm_head.weight":"`+two+`",`)
		}, `duplicate key "lm_head.weight"`},
		"two weight maps":         {func(m map[string][]byte) { replace(m, IndexName, `"weight_map":`, `"weight_map":{},"weight_map":`) }, `duplicate key "weight_map"`},
		"index without tensors":   {func(m map[string][]byte) { m[IndexName] = []byte(`{"weight_map":{}}`) }, "no weight_map"},
		"index is an LFS pointer": {func(m map[string][]byte) { m[IndexName] = []byte(lfsPrefix + "v1\n") }, "this is a Git LFS pointer, not the file"},
		"index gone":              {func(m map[string][]byte) { delete(m, IndexName) }, "shard is missing: model.safetensors"},
		"shard damaged":           {func(m map[string][]byte) { m[two] = m[two][:100] }, two + ": byte 0: header length"},
		"shard is a folder":       {func(m map[string][]byte) { delete(m, two); m[two+"/x"] = nil }, "want a regular file"},
	} {
		s, err := OpenSnapshot(changed(c.change))
		if s != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a refusal that says %q", name, err, c.want)
		}
	}
	if _, err := OpenSnapshot(memfs.FS{}); err == nil || !strings.Contains(err.Error(), "shard is missing") {
		t.Errorf("empty folder: got %v, want a refusal", err)
	}
}

func FuzzOpen(f *testing.F) {
	for _, b := range legal {
		f.Add(b)
	}
	for _, c := range hostile.All() {
		f.Add(c.Data)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		next := file.HeaderSize
		for _, info := range file.Tensors {
			if info.Begin != next || info.End < info.Begin {
				t.Fatalf("%s: got [%d, %d), want a start at %d", info.Name, info.Begin, info.End, next)
			}
			next = info.End
		}
		if next != int64(len(b)) {
			t.Fatalf("got %d bytes accounted for, want %d", next, len(b))
		}
		again := append(encodeHeader(file.fields()), b[file.HeaderSize:]...)
		if _, err := Open(bytes.NewReader(again), int64(len(again))); err != nil {
			t.Fatalf("encoded again it is refused: %v", err)
		}
	})
}

func FuzzReadIndex(f *testing.F) {
	f.Add(sample()[IndexName])
	for _, c := range hostile.Indexes() {
		f.Add(c.Data)
	}
	f.Add([]byte(`{"metadata":{"total_size":1e99},"weight_map":{"a":"../x.safetensors"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		index, err := ReadIndex(bytes.NewReader(b))
		if err != nil {
			return
		}
		index.TotalSize()
		for _, name := range index.shards() {
			if !fs.ValidPath(name) || strings.Contains(name, "/") {
				t.Fatalf("got the shard name %q, want a plain one", name)
			}
		}
	})
}

// FuzzReadConfig reads config.json of a folder in every way in which it is read.
func FuzzReadConfig(f *testing.F) {
	for _, text := range []string{
		`{"architectures":["LlamaForCausalLM"],"hidden_size":4,"num_attention_heads":2,"num_hidden_layers":1,"intermediate_size":8,"vocab_size":3}`,
		`{"quantization":{"bits":4,"group_size":64,"mode":"affine"},"tie_word_embeddings":true}`, `{"quantization_config":{"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized"}}`,
		`{"hidden_size":1e99}`, `{"num_attention_heads":0,"hidden_size":2147483648}`, `{"quantization":[],"quantization_config":7,"architectures":null}`, `[`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys := changed(func(m map[string][]byte) { m["config.json"] = b })
		s, err := OpenSnapshot(fsys)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if sum := s.Summarize(fsys); sum.Parameters == 0 || len(sum.Types) == 0 {
			t.Fatalf("got %+v, want the tensors counted whatever the config says", sum)
		}
		if c, err := ReadConfig(fsys); err == nil && c.known() {
			checkConfig(c, s.shapes())
		}
	})
}
