package stages

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/recipe"
)

const defaultQuantizer = "bin/llama-quantize"

// command is llama-quantize with its arguments.
func (with quantizeWith) command(run *Run, extra []string) (toolCommand, error) {
	if with.Tool == "" {
		with.Tool = defaultQuantizer
	}
	if with.Threads == 0 {
		with.Threads = runtime.NumCPU()
	}
	c, err := runtimeTool(run, "runtime", with.Tool)
	if err != nil {
		return c, err
	}
	if c.Timeout, err = toolTimeout(with.Timeout); err != nil {
		return c, err
	}
	c.Box = with.Box
	c.Args = append(extra, "{input/model}", "{out}/"+partialName(with.File), with.Type, strconv.Itoa(with.Threads))
	return c, nil
}

// runQuantizer makes the product with the program of a build. A matrix must
// have been finalized for this very model, by its calibration.
func runQuantizer(ctx context.Context, run *Run, with quantizeWith, source *gguf.File, out *Outcome) error {
	var options []string
	if with.Pure {
		options = append(options, "--pure")
	}
	if _, given := run.Inputs["imatrix"]; given {
		options = append(options, "--imatrix", "{input/imatrix}")
	}
	c, err := with.command(run, options)
	if err != nil {
		return err
	}
	if err := refuseExisting(run, with.File); err != nil {
		return err
	}
	if a, given := run.Inputs["imatrix"]; given {
		if err := recheckMatrix(ctx, run, a, run.Inputs["model"]); err != nil {
			return fmt.Errorf("input imatrix: %w", err)
		}
	}
	_, failure, err := runTool(ctx, run, c, out)
	if err != nil {
		return err
	}
	return takeOutput(ctx, run, with.File, out, failure, func(f *os.File, size int64) error {
		return checkQuantized(f, size, with, source)
	})
}

// checkQuantized opens what the program made: the model's tensors, all of them,
// under the recipe that was asked for.
func checkQuantized(f *os.File, size int64, with quantizeWith, source *gguf.File) error {
	r, _ := recipe.Find(with.Type)
	made, err := checkGGUF(f, size, r.FileType)
	if err != nil {
		return err
	}
	if len(made.Tensors) != len(source.Tensors) {
		return fmt.Errorf("got %d tensors, want the model's %d", len(made.Tensors), len(source.Tensors))
	}
	matrices, own := 0, 0
	for _, t := range source.Tensors {
		got, ok := made.Tensor(t.Name)
		if !ok {
			return fmt.Errorf("it has no tensor %s, which the model has", t.Name)
		}
		if got.Type != t.Type {
			own++
		}
		matrices++
	}
	if own == 0 && !r.Copies() && matrices > 0 {
		return fmt.Errorf("no tensor has another type than in the model: nothing was quantized")
	}
	return nil
}

// checkGGUF opens a GGUF and holds the type that it says it has against what was asked for.
func checkGGUF(f *os.File, size int64, fileType uint32) (*gguf.File, error) {
	made, err := gguf.Open(f, size)
	if err != nil {
		return nil, err
	}
	v, ok := made.KV("general.file_type")
	got, isNumber := v.Uint()
	if !ok || !isNumber {
		return nil, fmt.Errorf("it names no general.file_type, want %s", fileTypeName(fileType))
	}
	if got != uint64(fileType) {
		return nil, fmt.Errorf("its general.file_type is %d (%s), want %d (%s)", got, fileTypeName(uint32(got)), fileType, fileTypeName(fileType))
	}
	return made, nil
}

func fileTypeName(fileType uint32) string {
	name, ok := recipe.FileTypeName(fileType)
	if !ok {
		return "unknown"
	}
	return name
}
