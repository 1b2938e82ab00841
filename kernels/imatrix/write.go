package imatrix

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// Data is one entry to write.
type Data struct {
	Name   string
	Counts []float32 // one per expert; for the old form one number of calls
	Sums   []float32 // expert after expert, a multiple of len(Counts)
}

// Content is a matrix to write.
type Content struct {
	Datasets          []string // the old form takes the last one
	Chunks, ChunkSize int64    // the old form has no chunk size
	Entries           []Data
}

// WriteGGUF writes the GGUF form, in the bytes that llama-imatrix gives for the
// same content: entries are expected in byte order of their names.
func WriteGGUF(w io.Writer, c Content) error {
	kvs := []gguf.KV{
		{Key: "general.type", Value: gguf.String("imatrix")},
		{Key: keyDatasets, Value: gguf.Strings(c.Datasets)},
		{Key: keyChunks, Value: gguf.Uint32(uint32(c.Chunks))},
		{Key: keyChunkSize, Value: gguf.Uint32(uint32(c.ChunkSize))},
	}
	var tensors []gguf.TensorSource
	for _, e := range c.Entries {
		experts := uint64(len(e.Counts))
		if experts == 0 || len(e.Sums) == 0 || uint64(len(e.Sums))%experts != 0 {
			return fmt.Errorf("imatrix: %s: got %d sums for %d counts, want a multiple and at least one each", e.Name, len(e.Sums), experts)
		}
		sums, counts := []uint64{uint64(len(e.Sums)) / experts, experts}, []uint64{1, experts}
		if experts == 1 { // trailing ones are not stored
			sums, counts = sums[:1], counts[:1]
		}
		tensors = append(tensors,
			gguf.TensorSource{Name: e.Name + sumsSuffix, Dims: sums, Type: gguf.F32, Data: writer(e.Sums)},
			gguf.TensorSource{Name: e.Name + countsSuffix, Dims: counts, Type: gguf.F32, Data: writer(e.Counts)})
	}
	return gguf.Write(w, kvs, tensors)
}

func writer(values []float32) func(io.Writer) error {
	return func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, values) }
}

// WriteDat writes the old form. Sums are written as they stand: means times calls.
func WriteDat(w io.Writer, c Content) error {
	b := bufio.NewWriter(w)
	number := func(n int) { _ = binary.Write(b, binary.LittleEndian, int32(n)) } // the writer keeps its error for Flush
	text := func(s string) { number(len(s)); _, _ = b.WriteString(s) }
	number(len(c.Entries))
	for _, e := range c.Entries {
		if len(e.Counts) != 1 || len(e.Sums) == 0 || math.Abs(float64(e.Counts[0])) > math.MaxInt32 {
			return fmt.Errorf("imatrix: %s: got %d counts and %d sums, want one number of calls and at least one sum", e.Name, len(e.Counts), len(e.Sums))
		}
		text(e.Name)
		number(int(e.Counts[0]))
		number(len(e.Sums))
		_ = binary.Write(b, binary.LittleEndian, e.Sums)
	}
	number(int(c.Chunks))
	dataset := ""
	if n := len(c.Datasets); n > 0 {
		dataset = c.Datasets[n-1]
	}
	text(dataset)
	return b.Flush()
}
