package convert

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// openGGUF reads a whole test file and its header.
func openGGUF(t testing.TB, path string) (*gguf.File, []byte) {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f, body
}

// firstDifference says where two files differ, for messages.
func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func TestQ8_0FileEqualsLlamaQuantize(t *testing.T) {
	src, _ := openGGUF(t, shared.Path(t, "data", "llama-grouped", "BF16.gguf"))
	_, want := openGGUF(t, shared.Path(t, "data", "llama-grouped", "Q8_0.gguf"))
	var got bytes.Buffer
	if err := Quantize(t.Context(), src, gguf.Q8_0, &got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Fatalf("got %d bytes, want %d; first difference at byte %d", got.Len(), len(want), firstDifference(got.Bytes(), want))
	}
}

func TestQuantizeRefuses(t *testing.T) {
	data := shared.Path(t, "data", "llama-grouped")
	bf16, _ := openGGUF(t, filepath.Join(data, "BF16.gguf"))
	q8, _ := openGGUF(t, filepath.Join(data, "Q8_0.gguf"))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		src  *gguf.File
		typ  gguf.Type
		want string
	}{
		{"a type that is not made here", t.Context(), bf16, gguf.Q4_K, "got Q4_K, want Q8_0"},
		{"a source that is quantized itself", t.Context(), q8, gguf.Q8_0, "quantizing a quantized file again adds its errors"},
		{"a cancelled run", cancelled, bf16, gguf.Q8_0, "context canceled"},
		{"rows that the block does not divide", t.Context(), oneTensor(t, []uint64{48, 2}), gguf.Q8_0, "rows of 48 weights, want a multiple of 32"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Quantize(c.ctx, c.src, c.typ, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says: %s", err, c.want)
			}
		})
	}
}

// oneTensor is a BF16 file with one matrix of zeros.
func oneTensor(t *testing.T, dims []uint64) *gguf.File {
	t.Helper()
	body := gguf.TensorSource{Name: "output.weight", Dims: dims, Type: gguf.BF16}
	size, err := gguf.BF16.Size(dims)
	if err != nil {
		t.Fatal(err)
	}
	body.Data = zeros(size)
	var buf bytes.Buffer
	if err := gguf.Write(&buf, []gguf.KV{{Key: "general.architecture", Value: gguf.String("llama")}}, []gguf.TensorSource{body}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAFailingWriterEndsTheQuantization(t *testing.T) {
	src, _ := openGGUF(t, shared.Path(t, "data", "llama-grouped", "BF16.gguf"))
	full := errors.New("no space left on device")
	if err := Quantize(t.Context(), src, gguf.Q8_0, failing{full}); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func BenchmarkQuantizeQ8_0(b *testing.B) {
	src, _ := openGGUF(b, shared.Path(b, "data", "llama-grouped", "BF16.gguf"))
	b.SetBytes(src.Size)
	for b.Loop() {
		if err := Quantize(b.Context(), src, gguf.Q8_0, &bytes.Buffer{}); err != nil {
			b.Fatal(err)
		}
	}
}
