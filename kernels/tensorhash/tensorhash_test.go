package tensorhash

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// TestPrintEqualsGGUFHash compares with what llama-gguf-hash --all printed, byte by byte.
func TestPrintEqualsGGUFHash(t *testing.T) {
	want, err := os.ReadFile(shared.Path(t, "data", "llama-grouped", "gguf-hash-Q4_K_M.txt"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := os.Open(shared.Path(t, "data", "llama-grouped", "Q4_K_M.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(r, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	var spans []Span
	var names []string
	for _, tensor := range f.Tensors {
		spans = append(spans, Span{tensor.Offset, tensor.Size})
		names = append(names, tensor.Name)
	}
	for _, o := range []Options{{GGUFHash: true}, {GGUFHash: true, File: true, Tensors: true}} {
		h := New(o)
		file, of, err := h.File(context.Background(), r, info.Size(), spans)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := Print(&got, "Q4_K_M.gguf", names, of, h.Model()); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%+v: got other lines than llama-gguf-hash, %v:\n%s", o, err, got.String())
		}
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		whole := sha256.New()
		if _, err := io.Copy(whole, r); err != nil {
			t.Fatal(err)
		}
		if sum := "sha256:" + hex.EncodeToString(whole.Sum(nil)); o.File && (string(file.SHA256) != sum || file.GitBlob == "") {
			t.Errorf("got %+v for the file, want %s", file, sum)
		}
	}
}

// TestSpansAreHashedInOnePass compares small files, whose blocks are not
// whole, with the digests of each part by itself.
func TestSpansAreHashedInOnePass(t *testing.T) {
	b := make([]byte, 3*blockSize+17)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	for _, spans := range [][]Span{nil, {{0, 0}}, {{5, 3}, {8, 0}, {100, blockSize + 1}, {2 * blockSize, blockSize + 17}}} {
		r := &counter{r: bytes.NewReader(b)}
		h := New(Options{File: true, Tensors: true})
		file, of, err := h.File(context.Background(), r, int64(len(b)), spans)
		if err != nil {
			t.Fatal(err)
		}
		blob := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(b), b))
		if sum := sha256.Sum256(b); string(file.SHA256) != "sha256:"+hex.EncodeToString(sum[:]) || file.GitBlob != hex.EncodeToString(blob[:]) {
			t.Errorf("%v: got %+v, want %x and %x", spans, file, sum, blob)
		}
		for i, s := range spans {
			if sum := sha256.Sum256(b[s.Offset : s.Offset+s.Size]); of[i] != (Digests{SHA256: hex.EncodeToString(sum[:])}) {
				t.Errorf("%v: got %+v, want %x", s, of[i], sum)
			}
		}
		if r.n != int64(len(b)) {
			t.Errorf("%v: %d bytes were read, want each of %d once", spans, r.n, len(b))
		}
	}
}

// counter counts the bytes that were read.
type counter struct {
	r io.ReaderAt
	n int64
}

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.r.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}

func TestHostileSpans(t *testing.T) {
	b := make([]byte, 10)
	for name, c := range map[string]struct {
		spans []Span
		size  int64
		want  string
	}{
		"overlap":         {[]Span{{0, 5}, {4, 2}}, 10, "got 2 bytes at 4, want a range from 5 to 10"},
		"beyond the file": {[]Span{{5, 6}}, 10, "want a range from 0 to 10"},
		"negative size":   {[]Span{{5, -1}}, 10, "got -1 bytes"},
		"2^63":            {[]Span{{5, 1<<63 - 1}}, 10, "want a range"},
		"file is shorter": {[]Span{{5, 10}}, 20, "read at byte 10"},
	} {
		_, _, err := New(Options{Tensors: true}).File(context.Background(), bytes.NewReader(b), c.size, c.spans)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a refusal that says %q", name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := New(Options{File: true}).File(ctx, bytes.NewReader(b), 10, nil); err != context.Canceled {
		t.Errorf("cancelled: got %v", err)
	}
}

func BenchmarkFile(b *testing.B) {
	data := make([]byte, 64<<20)
	for name, o := range map[string]Options{"file": {File: true}, "file and tensors": {File: true, Tensors: true}, "all": {true, true, true}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, _, err := New(o).File(context.Background(), bytes.NewReader(data), int64(len(data)), []Span{{1 << 10, 40 << 20}, {41 << 20, 20 << 20}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
