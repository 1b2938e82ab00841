package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// memory prints our peak memory on a model of 16 GB whose weights are zeros and lie in holes of sparse files.
func memory(ctx context.Context, binary, dir string) error {
	const layers = 131
	bf16, q8 := filepath.Join(dir, "zeros-BF16.gguf"), filepath.Join(dir, "zeros-Q8_0.gguf")
	for path, typ := range map[string]gguf.Type{bf16: gguf.BF16, q8: gguf.Q8_0} {
		if err := sparse(path, layers, typ); err != nil {
			return err
		}
		defer os.Remove(path)
	}
	for _, args := range [][]string{{"inspect", bf16}, {"inspect", "--tensors", bf16}, {"compare", bf16, bf16}, {"compare", bf16, q8}} {
		seconds, peak, err := timed(ctx, append([]string{binary}, args...), 0)
		if err != nil {
			return err
		}
		info, err := os.Stat(args[len(args)-1])
		if err != nil {
			return err
		}
		fmt.Printf("%-20s a file of %.1f GB: %d MiB at most, %.1f s\n", args[0], float64(info.Size())/1e9, peak>>20, seconds)
	}
	return nil
}

// sparse writes a GGUF of zeros as holes.
func sparse(path string, layers int, matrix gguf.Type) error {
	var tensors []gguf.TensorSource
	all := shapes(layers)
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		t := gguf.TensorSource{Name: name, Type: gguf.F32}
		for _, d := range all[name] {
			t.Dims = append([]uint64{uint64(d)}, t.Dims...)
		}
		if len(t.Dims) > 1 {
			t.Type = matrix
		}
		size, err := t.Type.Size(t.Dims)
		if err != nil {
			return err
		}
		t.Data = func(w io.Writer) error {
			for rest := size; rest > 0; {
				n := min(rest, int64(len(zeros)))
				if _, err := w.Write(zeros[:n]); err != nil {
					return err
				}
				rest -= n
			}
			return nil
		}
		tensors = append(tensors, t)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := &holes{file: f}
	if err := gguf.Write(w, []gguf.KV{{Key: "general.architecture", Value: gguf.String("llama")}}, tensors); err != nil {
		return err
	}
	return f.Truncate(w.size)
}

var zeros = make([]byte, 1<<20)

// holes writes zeros as holes.
type holes struct {
	file *os.File
	size int64
}

func (h *holes) Write(p []byte) (int, error) {
	at := h.size
	h.size += int64(len(p))
	if len(p) <= len(zeros) && bytes.Equal(p, zeros[:len(p)]) {
		return len(p), nil
	}
	return h.file.WriteAt(p, at)
}
