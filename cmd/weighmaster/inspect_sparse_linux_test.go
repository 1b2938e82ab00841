package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

const mebibyte = 1 << 20

// TestSparseFilesAreInspectedInLittleMemory inspects files of 8 GB, whose data
// is a hole and whose headers are as large as those of real models.
func TestSparseFilesAreInspectedInLittleMemory(t *testing.T) {
	dir := t.TempDir()
	binaryPath := filepath.Join(dir, "weighmaster") // without the race detector, whose memory is not ours
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binaryPath, ".").CombinedOutput(); err != nil {
		shared.Missing(t, "go build: %v: %s", err, out)
	}
	large, small := filepath.Join(dir, "large.gguf"), filepath.Join(dir, "small.gguf")
	snapshot := filepath.Join(dir, "large.safetensors")
	sparseGGUF(t, large, 32)
	sparseGGUF(t, small, 1)
	sparseSafetensors(t, snapshot)
	for _, c := range []struct {
		args []string
		size int64 // at least
	}{
		{[]string{large, "--keys"}, 8e9}, {[]string{large, "--json"}, 8e9}, {[]string{snapshot, "--json"}, 8e9},
		{[]string{small, "--keys", "--digest"}, 25e7},
	} {
		info, err := os.Stat(c.args[0])
		if err != nil || info.Size() < c.size {
			t.Fatalf("got %v, %v, want a file of %d bytes", info, err, c.size)
		}
		peak := peakMemory(t, exec.CommandContext(t.Context(), binaryPath, append([]string{"inspect"}, c.args...)...))
		t.Logf("%v: %d MiB", c.args[1:], peak/mebibyte)
		if peak > 96*mebibyte { // the program's own code, mapped from its file, is half of it
			t.Errorf("inspect %v: got %d MiB, want at most 96", c.args, peak/mebibyte)
		}
	}
}

// peakMemory runs a command that prints more than 8 KiB, and reads the peak of its resident memory
// while it waits for its pipe, which takes less: then everything but printing is done. What
// the kernel reports of a finished child counts the memory of its parent too.
func peakMemory(t *testing.T, cmd *exec.Cmd) int64 {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = w, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, said.String())
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(r)
	if err != nil || len(rest) < 8<<10 {
		t.Fatalf("got %d bytes and %v, want more than the pipe takes", len(rest), err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, said.String())
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	field := strings.Fields(after)
	if len(field) < 2 || field[1] != "kB" {
		t.Fatalf("got no VmHWM in %s", status)
	}
	n, err := strconv.ParseInt(field[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// sparseGGUF writes a Llama's header with a vocabulary of 128,256 tokens, and a hole.
func sparseGGUF(t *testing.T, path string, layers int) {
	t.Helper()
	tokens, merges := make([]string, 128_256), make([]string, 280_147)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("Ġtoken%d", i)
	}
	for i := range merges {
		merges[i] = fmt.Sprintf("Ġ%d %d", i%1000, i)
	}
	kvs := []gguf.KV{{Key: "general.architecture", Value: gguf.String("llama")}, {Key: "tokenizer.ggml.tokens", Value: gguf.Strings(tokens)},
		{Key: "tokenizer.ggml.token_type", Value: gguf.Int32s(make([]int32, len(tokens)))}, {Key: "tokenizer.ggml.merges", Value: gguf.Strings(merges)}}
	for i := range 400 {
		kvs = append(kvs, gguf.KV{Key: fmt.Sprintf("weighmaster.filler.%d", i), Value: gguf.String(strings.Repeat("x", 40))})
	}
	type tensor struct {
		name string
		dims []uint64
	}
	tensors := []tensor{{"token_embd.weight", []uint64{4096, uint64(layers) * 1024}}}
	for i := range layers {
		for _, name := range []string{"attn_q", "attn_output"} {
			tensors = append(tensors, tensor{fmt.Sprintf("blk.%d.%s.weight", i, name), []uint64{4096, 4096}})
		}
		for _, name := range []string{"ffn_gate", "ffn_up"} {
			tensors = append(tensors, tensor{fmt.Sprintf("blk.%d.%s.weight", i, name), []uint64{4096, 14336 - 2560}})
		}
	}
	sparse(t, path, func(w io.Writer) error {
		var sources []gguf.TensorSource
		for _, x := range tensors {
			size, err := gguf.BF16.Size(x.dims)
			if err != nil {
				return err
			}
			sources = append(sources, gguf.TensorSource{Name: x.name, Dims: x.dims, Type: gguf.BF16, Data: func(w io.Writer) error { return zeros(w, size) }})
		}
		return gguf.Write(w, kvs, sources)
	})
}

// sparseSafetensors writes a header of 400 tensors and 1000 keys, and a hole.
func sparseSafetensors(t *testing.T, path string) {
	t.Helper()
	sparse(t, path, func(w io.Writer) error {
		header := map[string]any{}
		metadata := map[string]string{}
		for i := range 1000 {
			metadata[fmt.Sprintf("key %d", i)] = strings.Repeat("x", 40)
		}
		header["__metadata__"] = metadata
		const each = 2 * 4096 * 2560
		for i := range int64(400) {
			header[fmt.Sprintf("model.layers.%d.weight", i)] = map[string]any{"dtype": "BF16", "shape": []int{4096, 2560}, "data_offsets": []int64{i * each, (i + 1) * each}}
		}
		body, err := json.Marshal(header)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(body))), body...)); err != nil {
			return err
		}
		return zeros(w, 400*each)
	})
}

var zeroBlock [1 << 20]byte

func zeros(w io.Writer, n int64) error {
	for ; n > 0; n -= int64(len(zeroBlock)) {
		if _, err := w.Write(zeroBlock[:min(n, int64(len(zeroBlock)))]); err != nil {
			return err
		}
	}
	return nil
}

// holes writes a file and leaves a hole where many zeros come at once.
type holes struct{ f *os.File }

func (h holes) Write(p []byte) (int, error) {
	if len(p) < 64<<10 || !bytes.Equal(p, zeroBlock[:len(p)]) {
		return h.f.Write(p)
	}
	_, err := h.f.Seek(int64(len(p)), io.SeekCurrent)
	return len(p), err
}

// sparse makes a file that takes little room.
func sparse(t *testing.T, path string, write func(w io.Writer) error) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := write(holes{f}); err != nil {
		t.Fatal(err)
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		shared.Missing(t, "the file system refuses a file of %d bytes: %v", size, err)
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &stat); err != nil || stat.Blocks*512 > 64*mebibyte {
		shared.Missing(t, "the file system keeps no holes: %d blocks, %v", stat.Blocks, err)
	}
}
