package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
	"github.com/weighmaster/weighmaster/kernels/quant"
	"github.com/weighmaster/weighmaster/kernels/recipe"
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

// made quantizes in memory.
func made(t testing.TB, src *gguf.File, o QuantizeOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Quantize(t.Context(), src, o, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func find(t testing.TB, name string) recipe.Recipe {
	t.Helper()
	r, ok := recipe.Find(name)
	if !ok {
		t.Fatalf("no recipe %s", name)
	}
	return r
}

func openMatrix(t testing.TB, path string) *imatrix.Matrix {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := imatrix.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// typedMatrix is the path of the matrix that the shared products state.
func typedMatrix(t testing.TB, product *gguf.File) string {
	t.Helper()
	c := MatrixClaimOf(product)
	if c == nil {
		t.Fatal("the product names no matrix")
	}
	return c.File
}

// TestWholeFilesEqualLlamaQuantizes makes shared products again: header, order,
// padding and blocks. (Package quant compares the blocks of all the others, and
// TestMixturesEqualLlamaQuantizes whole files of every recipe.)
func TestWholeFilesEqualLlamaQuantizes(t *testing.T) {
	equal := 0
	files := []string{
		"llama-grouped/Q8_0", "llama-grouped/Q6_K", "llama-grouped/Q4_K_M-im", "llama-grouped/IQ4_XS", "llama-grouped/Q3_K_M", "llama-odd/Q4_K_M",
		"llama-grouped/more/Q5_0-im", "llama-grouped/more/Q2_K", "llama-grouped/more/TQ1_0", "llama-grouped/forged/Q4_K_M-made-from-Q8_0",
		// These are named as not recomputed, before a byte is written.
		"llama-grouped/more/IQ1_M-im", "llama-grouped/more/IQ2_S-im", "llama-grouped/more/IQ3_M", "llama-grouped/more/IQ3_XXS-im",
	}
	for _, rel := range files {
		path := shared.Path(t, "data", filepath.FromSlash(rel)+".gguf")
		name := filepath.Base(rel)
		folder := path
		for !strings.HasPrefix(filepath.Base(folder), "llama-") {
			folder = filepath.Dir(folder)
		}
		t.Run(rel, func(t *testing.T) {
			product, want := openGGUF(t, path)
			src, _ := openGGUF(t, filepath.Join(folder, "BF16.gguf"))
			var o QuantizeOptions
			name, forged := strings.CutSuffix(name, "-made-from-Q8_0")
			if forged {
				src, _ = openGGUF(t, filepath.Join(folder, "Q8_0.gguf"))
				o.Requantize = true
			}
			name, o.Types.Pure = strings.CutSuffix(name, "-pure")
			name, matrix := strings.CutSuffix(name, "-im")
			if matrix {
				o.Matrix, o.MatrixFile = openMatrix(t, filepath.Join(folder, "imatrix.gguf")), typedMatrix(t, product)
			}
			o.Recipe = find(t, name)
			var got bytes.Buffer
			err := Quantize(t.Context(), src, o, &got)
			var not *NotRecomputedError
			if errors.As(err, &not) {
				if got.Len() > 0 || quant.Recomputed(not.Type) {
					t.Errorf("got %d bytes and %v, want nothing written", got.Len(), err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("got %d bytes, want %d; first difference at byte %d", got.Len(), len(want), firstDifference(got.Bytes(), want))
			}
			equal++
		})
	}
	if equal < 10 {
		t.Errorf("%d files were made again, want at least 10", equal)
	}
}

// TestAFusedBuildsFile makes the file of another build of ggml, which differs in some scales.
func TestAFusedBuildsFile(t *testing.T) {
	src, _ := openGGUF(t, shared.Path(t, "data", "llama-grouped", "BF16.gguf"))
	_, want := openGGUF(t, shared.Path(t, "data", "llama-grouped", "fma-build", "Q6_K.gguf"))
	if got := made(t, src, QuantizeOptions{Recipe: find(t, "Q6_K"), Variant: quant.GCCFMA}); !bytes.Equal(got, want) {
		t.Errorf("first difference at byte %d", firstDifference(got, want))
	}
}

// TestASplitSourceGivesTheSameFile: parts are read as one model and leave no key.
func TestASplitSourceGivesTheSameFile(t *testing.T) {
	whole, body := openGGUF(t, shared.Path(t, "data", "llama-odd", "BF16.gguf"))
	o := QuantizeOptions{Recipe: find(t, "Q8_0")}
	var parts []gguf.Part
	for no, tensors := range [][]gguf.TensorInfo{whole.Tensors[:20], whole.Tensors[20:]} {
		kvs := []gguf.KV{{Key: "split.no", Value: gguf.Uint16(uint16(no))}, {Key: "split.count", Value: gguf.Uint16(2)}, {Key: "split.tensors.count", Value: gguf.Int32(int32(len(whole.Tensors)))}}
		if no == 0 {
			kvs = append(slices.Clone(whole.KVs), kvs...)
		}
		var sources []gguf.TensorSource
		for _, tensor := range tensors {
			sources = append(sources, whole.Source(tensor))
		}
		var b bytes.Buffer
		if err := gguf.Write(&b, kvs, sources); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, gguf.Part{Name: fmt.Sprintf("m-%05d-of-00002.gguf", no+1), R: bytes.NewReader(b.Bytes()), Size: int64(b.Len())})
	}
	split, err := gguf.OpenSplit(parts)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := made(t, split, o), made(t, whole, o); !bytes.Equal(got, want) {
		t.Errorf("first difference at byte %d (of a source of %d bytes)", firstDifference(got, want), len(body))
	}
}

// TestAnF32SourceGivesTheSameFile: the intermediate does not change a byte.
func TestAnF32SourceGivesTheSameFile(t *testing.T) {
	data := shared.Path(t, "data", "llama-odd")
	src, _ := openGGUF(t, filepath.Join(data, "BF16.gguf"))
	f32 := made(t, src, QuantizeOptions{Recipe: find(t, "F32")})
	f, err := gguf.Open(bytes.NewReader(f32), int64(len(f32)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tensor := range f.Tensors {
		if tensor.Type != gguf.F32 {
			t.Fatalf("%s: got %s, want F32", tensor.Name, tensor.Type)
		}
	}
	_, want := openGGUF(t, filepath.Join(data, "Q4_K_M.gguf"))
	if got := made(t, f, QuantizeOptions{Recipe: find(t, "Q4_K_M")}); !bytes.Equal(got, want) {
		t.Errorf("first difference at byte %d", firstDifference(got, want))
	}
	if back := made(t, f, QuantizeOptions{Recipe: find(t, "BF16")}); len(back) != int(src.Size) {
		t.Errorf("got a BF16 of %d bytes, want %d", len(back), src.Size)
	}
	again := made(t, f, QuantizeOptions{Recipe: find(t, "COPY")})
	if !bytes.Equal(again, f32) {
		t.Errorf("COPY changed byte %d of a file in llama-quantize's order", firstDifference(again, f32))
	}
}

func TestQuantizeRefuses(t *testing.T) {
	data := shared.Path(t, "data", "llama-grouped")
	bf16, _ := openGGUF(t, filepath.Join(data, "BF16.gguf"))
	odd, _ := openGGUF(t, shared.Path(t, "data", "llama-odd", "BF16.gguf"))
	q8, _ := openGGUF(t, filepath.Join(data, "Q8_0.gguf"))
	matrix := openMatrix(t, filepath.Join(data, "imatrix.gguf"))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		src  *gguf.File
		o    QuantizeOptions
		want string
	}{
		{"a recipe whose types are not recomputed", t.Context(), bf16, QuantizeOptions{Recipe: find(t, "IQ3_S")}, "recipe IQ3_S: tensor token_embd.weight: it calls for IQ3_S, whose search is not recomputed"},
		{"a recipe that needs a matrix", t.Context(), bf16, QuantizeOptions{Recipe: find(t, "Q2_K_S")}, "useless without an importance matrix"},
		{"another model's matrix", t.Context(), odd, QuantizeOptions{Recipe: find(t, "Q4_K_M"), Matrix: matrix}, "the importance matrix has 256 numbers, want 320"},
		{"a matrix with a NaN", t.Context(), bf16, QuantizeOptions{Recipe: find(t, "Q4_K_M"), Matrix: badMatrix(t)}, "1 of 256 sums are NaN or infinite"},
		{"a source that is quantized itself", t.Context(), q8, QuantizeOptions{Recipe: find(t, "Q4_K_M")}, "quantizing a quantized file again adds its errors"},
		{"a cancelled run", cancelled, bf16, QuantizeOptions{Recipe: find(t, "Q8_0")}, "context canceled"},
		{"a weight that is no number", t.Context(), oneTensor(t, []uint64{64, 2}, 0x7fc0), QuantizeOptions{Recipe: find(t, "Q8_0")}, "row 1 column 1: weight: got NaN"},
		{"a weight whose scale overflows", t.Context(), oneTensor(t, []uint64{64, 2}, 0x7f00), QuantizeOptions{Recipe: find(t, "Q8_0")}, "weight as Q8_0: got NaN"},
		{"no architecture", t.Context(), &gguf.File{}, QuantizeOptions{Recipe: find(t, "Q8_0")}, "general.architecture: got none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Quantize(c.ctx, c.src, c.o, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says: %s", err, c.want)
			}
		})
	}
}

func badMatrix(t testing.TB) *imatrix.Matrix {
	t.Helper()
	sums := make([]float32, 256)
	sums[7] = float32(math.NaN())
	var b bytes.Buffer
	entry := imatrix.Data{Name: "blk.0.attn_q.weight", Counts: []float32{1}, Sums: sums}
	if err := imatrix.WriteGGUF(&b, imatrix.Content{Chunks: 1, ChunkSize: 1, Datasets: []string{"text"}, Entries: []imatrix.Data{entry}}); err != nil {
		t.Fatal(err)
	}
	m, err := imatrix.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRowsThatNoBlockDividesBecomeF16(t *testing.T) {
	src := oneTensor(t, []uint64{48, 2}, 0x3f80)
	b := made(t, src, QuantizeOptions{Recipe: find(t, "Q8_0")})
	f, err := gguf.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if f.Tensors[0].Type != gguf.F16 {
		t.Errorf("got %s, want F16", f.Tensors[0].Type)
	}
}

// TestHeaderOfAProduct: claims are cut and moved as llama-quantize does it.
func TestHeaderOfAProduct(t *testing.T) {
	long := strings.Repeat("é", 100) // 200 bytes; 127 end within a letter
	dataset := "a\x00b"
	kvs, infos := QuantizedHeader([]gguf.KV{
		{Key: "general.file_type", Value: gguf.Uint32(32)}, {Key: "split.count", Value: gguf.Uint16(2)},
		{Key: "quantize.imatrix.file", Value: gguf.String("old")}, {Key: "general.name", Value: gguf.String("cut\x00off")},
	}, []gguf.TensorInfo{{Name: "blk.10.b"}, {Name: "blk.2.a"}, {Name: "token_embd.weight"}}, map[string]gguf.Type{"blk.2.a": gguf.Q4_K},
		HeaderOptions{FileType: 15, Matrix: &MatrixClaim{File: long, Dataset: &dataset, Entries: 3}})
	var got []string
	for _, kv := range kvs {
		text, ok := kv.Value.Text()
		if !ok {
			text = kv.Value.String()
		}
		got = append(got, kv.Key+"="+text)
	}
	want := []string{"general.name=cut", "general.quantization_version=2", "general.file_type=15", "quantize.imatrix.file=" + long[:127],
		"quantize.imatrix.dataset=a", "quantize.imatrix.entries_count=3"}
	if !slices.Equal(got, want) {
		t.Errorf("got keys %q, want %q", got, want)
	}
	if infos[0].Name != "token_embd.weight" || infos[1].Name != "blk.2.a" || infos[1].Type != gguf.Q4_K || infos[2].Name != "blk.10.b" {
		t.Errorf("got %v", infos)
	}
}

// oneTensor is a BF16 file with one matrix of zeros, but for bits in its second row and column.
func oneTensor(t *testing.T, dims []uint64, bits uint16) *gguf.File {
	t.Helper()
	body := gguf.TensorSource{Name: "output.weight", Dims: dims, Type: gguf.BF16}
	size, err := gguf.BF16.Size(dims)
	if err != nil {
		t.Fatal(err)
	}
	body.Data = func(w io.Writer) error {
		b := make([]byte, size)
		binary.LittleEndian.PutUint16(b[2*(dims[0]+1):], bits)
		_, err := w.Write(b)
		return err
	}
	var buf bytes.Buffer
	if err := gguf.Write(&buf, []gguf.KV{{Key: "general.architecture", Value: gguf.String("llama")}, {Key: "llama.block_count", Value: gguf.Uint32(1)}}, []gguf.TensorSource{body}); err != nil {
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
	if err := Quantize(t.Context(), src, QuantizeOptions{Recipe: find(t, "Q8_0")}, failing{full}); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func BenchmarkQuantize(b *testing.B) {
	src, _ := openGGUF(b, shared.Path(b, "data", "llama-grouped", "BF16.gguf"))
	matrix := openMatrix(b, shared.Path(b, "data", "llama-grouped", "imatrix.gguf"))
	for _, name := range []string{"Q8_0", "Q6_K", "Q4_K_M"} {
		for _, m := range []*imatrix.Matrix{nil, matrix} {
			title := name
			if m != nil {
				title += " with matrix"
			}
			b.Run(title, func(b *testing.B) {
				b.SetBytes(src.Size)
				for b.Loop() {
					if err := Quantize(b.Context(), src, QuantizeOptions{Recipe: find(b, name), Matrix: m}, io.Discard); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
