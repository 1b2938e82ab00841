package imatrix

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/kerneltest"
)

func open(t testing.TB, b []byte) *Matrix {
	t.Helper()
	m, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tensorsOf(t testing.TB, path string) []gguf.TensorInfo {
	t.Helper()
	b := readFile(t, path)
	f, err := gguf.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f.Tensors
}

func TestARealMatrixBelongsToItsModel(t *testing.T) {
	m := open(t, readFile(t, shared.Path(t, "data", "llama-grouped", "imatrix.gguf")))
	if m.Form != FormGGUF || len(m.Entries) != 28 || m.Chunks != 40 || m.ChunkSize != 256 || len(m.Datasets) != 1 || m.Datasets[0] != "corpus.txt" {
		t.Errorf("got %s, %d entries, %d chunks of %d, %q", m.Form, len(m.Entries), m.Chunks, m.ChunkSize, m.Datasets)
	}
	for _, f := range m.Validate(tensorsOf(t, shared.Path(t, "data", "llama-grouped", "BF16.gguf"))) {
		t.Errorf("got %s, want nothing", f)
	}
	w, ok, err := m.Weights("blk.0.attn_k.weight")
	if err != nil || !ok || len(w) != 256 || w[0] != float32(9370.01)/10240 {
		t.Errorf("got %v of %d weights, %v, %v; want 9370.01/10240 of 256", w[:1], len(w), ok, err)
	}
	if _, ok, err := m.Weights("token_embd.weight"); ok || err != nil {
		t.Errorf("got %v, %v; want no entry", ok, err)
	}
	found := m.Validate(tensorsOf(t, shared.Path(t, "data", "llama-odd", "BF16.gguf")))
	if len(found) == 0 || found[0].Check != CheckOtherSize {
		t.Errorf("got %v, want another model's sizes", found)
	}
}

func TestKernelFindsEveryPlantedFault(t *testing.T) {
	built, _ := sample()
	for name, b := range map[string][]byte{"built-in": built, "llama-grouped": readFile(t, shared.Path(t, "data", "llama-grouped", "imatrix.gguf"))} {
		before := bytes.Clone(b)
		r, err := Inspect(context.Background(), bytes.NewReader(b), int64(len(b)), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		kerneltest.Passes(t, name, Kernel(), r)
		if !bytes.Equal(b, before) {
			t.Errorf("%s: planting changed the input", name)
		}
	}
}

func TestTheKernelsLimitsAreAsStated(t *testing.T) {
	kerneltest.Sound(t, Kernel())
}

func TestWritingGivesTheRealBytes(t *testing.T) {
	want := readFile(t, shared.Path(t, "data", "llama-grouped", "imatrix.gguf"))
	m := open(t, want)
	c := Content{Datasets: m.Datasets, Chunks: m.Chunks, ChunkSize: m.ChunkSize}
	for _, e := range m.Entries {
		d := Data{Name: e.Name, Counts: e.Counts}
		if err := m.sums(e, func(_ int64, s []float32) error { d.Sums = append(d.Sums, s...); return nil }); err != nil {
			t.Fatal(err)
		}
		c.Entries = append(c.Entries, d)
	}
	var got bytes.Buffer
	if err := WriteGGUF(&got, c); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got %d bytes, want the %d of llama-imatrix", got.Len(), len(want))
	}
}

func TestRefusalsNameTheirReason(t *testing.T) {
	whole, _ := sample()
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"an empty file", nil, "number of entries: got 0 bytes"},
		{"a Git LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer"},
		{"a cut GGUF", whole[:len(whole)-40], "truncated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(bytes.NewReader(c.b), int64(len(c.b)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says: %s", err, c.want)
			}
		})
	}
}
