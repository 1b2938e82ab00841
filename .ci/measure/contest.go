package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// contest is one command of ours beside one of theirs.
type contest struct {
	name, beside string
	ours, theirs []string
	exit         int    // the exit code that ours has to have
	scratch      string // a file that theirs writes, removed before each round
	cold         bool   // the page cache is dropped before each run
}

// fight runs both in turn and prints the medians.
func (c contest) fight(ctx context.Context, rounds int) error {
	var ours, theirs, ratios []float64
	peak := int64(0)
	for range rounds {
		if err := c.cool(); err != nil {
			return err
		}
		a, memory, err := timed(ctx, c.ours, c.exit)
		if err != nil {
			return err
		}
		if c.scratch != "" {
			os.Remove(c.scratch)
		}
		if err := c.cool(); err != nil {
			return err
		}
		b, _, err := timed(ctx, c.theirs, 0)
		if err != nil {
			return err
		}
		ours, theirs, ratios = append(ours, a), append(theirs, b), append(ratios, a/b)
		peak = max(peak, memory)
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	slices.Sort(ratios)
	mid := rounds / 2
	fmt.Printf("%-44s %-34s %10.2f %10.2f %8.2f (%.2f, %.2f) %10d\n", c.name, c.beside, ours[mid], theirs[mid], ratios[mid], ratios[0], ratios[rounds-1], peak>>20)
	return nil
}

// cool drops the page cache, so that programs and files are read from the disk.
func (c contest) cool() error {
	if !c.cold {
		return nil
	}
	syscall.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}

// timed runs a command on one core and gives its wall time in seconds and its peak memory in bytes.
func timed(ctx context.Context, args []string, exit int) (float64, int64, error) {
	if taskset, err := exec.LookPath("taskset"); err == nil {
		args = append([]string{taskset, "-c", "0"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	start := time.Now()
	out, err := cmd.CombinedOutput()
	seconds := time.Since(start).Seconds()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exit {
		return 0, 0, fmt.Errorf("%v: got %v, want exit code %d\n%.2000s", args, err, exit, out)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return seconds, int64(usage.Maxrss) << 10, nil
}

// contests lists what can be run here, and says what is left out.
func contests(binary string, m model) (list []contest, left []string) {
	bf16, snapshot := m.path("BF16.gguf"), m.path("snapshot")
	list = append(list,
		contest{name: "inspect, SHA-256 and git blob", beside: "sha256sum", ours: []string{binary, "inspect", "--digest", bf16}, theirs: []string{"sha256sum", bf16}})
	if _, err := exec.LookPath("openssl"); err == nil {
		list = append(list,
			contest{name: "inspect, SHA-256 and git blob", beside: "openssl dgst -sha256, then -sha1", ours: []string{binary, "inspect", "--digest", bf16},
				theirs: []string{"sh", "-c", `openssl dgst -sha256 "$1" && openssl dgst -sha1 "$1"`, "sh", bf16}})
	} else {
		left = append(left, "openssl is not installed")
	}
	list = append(list,
		contest{name: "compare snapshot with BF16, then SHA-256", beside: "cmp, then sha256sum", ours: []string{binary, "compare", snapshot, bf16},
			theirs: []string{"sh", "-c", `cmp "$1" "$2" && sha256sum "$1"`, "sh", bf16, m.path("BF16-copy.gguf")}},
		contest{name: "compare snapshot with BF16", beside: "cmp of two equal files", ours: []string{binary, "compare", "--digest=false", snapshot, bf16}, theirs: []string{"cmp", bf16, m.path("BF16-copy.gguf")}})
	if python := os.Getenv("WEIGHMASTER_GGUF_PYTHON"); python != "" {
		script, err := filepath.Abs(".ci/measure/numpy_compare.py")
		if err == nil {
			list = append(list, contest{name: "compare snapshot with BF16", beside: "a numpy and gguf script", ours: []string{binary, "compare", "--digest=false", snapshot, bf16}, theirs: []string{python, script, snapshot, bf16}})
		}
	} else {
		left = append(left, "the numpy and gguf script: WEIGHMASTER_GGUF_PYTHON is not set")
	}
	quantize := os.Getenv("WEIGHMASTER_LLAMA_QUANTIZE")
	if quantize == "" {
		return list, append(left, "recomputation beside llama-quantize: WEIGHMASTER_LLAMA_QUANTIZE is not set")
	}
	for _, p := range products {
		ours, theirs := []string{binary, "compare", "--digest=false", bf16, m.path(p.file())}, []string{quantize}
		if p.matrix {
			ours = append(ours, "--imatrix", m.path("imatrix.gguf"))
			theirs = append(theirs, "--imatrix", m.path("imatrix.gguf"))
		}
		scratch := m.path("scratch.gguf")
		theirs = append(append(theirs, p.flags...), bf16, scratch, p.recipe, "1")
		list = append(list, contest{name: "compare BF16 with " + p.file(), beside: "llama-quantize", ours: ours, theirs: theirs, scratch: scratch})
	}
	return list, left
}
