package stages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/schemas"
)

const defaultConverter = "convert_hf_to_gguf.py"

// outTypes are the names of the converter's types, and what general.file_type then says.
var outTypes = map[string]struct {
	name     string
	fileType uint32
	tensors  gguf.Type
}{
	"F32":  {"f32", convert.FileF32, gguf.F32},
	"F16":  {"f16", convert.FileF16, gguf.F16},
	"BF16": {"bf16", convert.FileBF16, gguf.BF16},
	"Q8_0": {"q8_0", convert.FileQ8_0, gguf.Q8_0},
}

// converterCommand is llama.cpp's converter, run by the interpreter of an environment.
func converterCommand(ctx context.Context, run *Run, with convertWith) (toolCommand, *pythonEnvironment, []Dependency, error) {
	none := func(err error) (toolCommand, *pythonEnvironment, []Dependency, error) {
		return toolCommand{}, nil, nil, fmt.Errorf("stage %s: %w", run.Stage, err)
	}
	if with.Python == "" {
		return none(errors.New("python: got none, want the path of a Python whose environment has what the converter imports (torch, transformers, …)"))
	}
	if with.Converter == "" {
		with.Converter = defaultConverter
	}
	if snapshot, err := run.input("snapshot"); err != nil {
		return none(err)
	} else if !snapshot.Multi {
		return none(fmt.Errorf("input snapshot: got the file %s, want a folder", snapshot.Name))
	}
	script, err := toolFile(run, "converter", with.Converter)
	if err != nil {
		return none(err)
	}
	watch := watched{}
	python, err := openPython(ctx, run.Project, with.Python, watch)
	if err != nil {
		return none(err)
	}
	lock, err := python.dependency()
	if err != nil {
		return none(err)
	}
	c := toolCommand{Program: python.interpreter, Box: with.Box, mounts: python.mounts(), watch: watch, whole: true, Env: []string{"HF_HUB_OFFLINE=1"}}
	if c.Timeout, err = toolTimeout(with.Timeout); err != nil {
		return none(err)
	}
	args := []string{"{input/snapshot}", "--outfile", "{out}/" + partialName(with.File), "--outtype", outTypes[with.Type].name}
	if with.VocabularyOnly {
		args = append(args, "--vocab-only")
	}
	if with.Name != "" {
		args = append(args, "--model-name", with.Name)
	}
	c.Args = pythonArguments("{packages}", "{input/converter}/"+with.Converter, args...)
	c.packages = python.packages
	return c, python, []Dependency{{Name: "tool/" + baseName(with.Converter), Digest: script.Sums.SHA256}, lock}, nil
}

func baseName(name string) string { return name[strings.LastIndex(name, "/")+1:] }

// resolveConverter gives what goes into a conversion. The packages are bound by
// their RECORDs; whether the files are still so matters to who runs them.
func resolveConverter(ctx context.Context, run *Run, with convertWith) ([]Dependency, error) {
	c, _, own, err := converterCommand(ctx, run, with)
	if err != nil {
		return nil, err
	}
	list, err := resolveTool(ctx, run, c)
	return append(list, own...), err
}

// runConverter makes a GGUF with llama.cpp's converter.
func runConverter(ctx context.Context, run *Run, with convertWith) (*Outcome, error) {
	out := &Outcome{Facts: map[string]string{"type": with.Type}}
	if with.VocabularyOnly {
		out.Facts["type"] = "vocabulary"
	}
	c, python, own, err := converterCommand(ctx, run, with)
	if err != nil {
		return out, err
	}
	if err := refuseExisting(run, with.File); err != nil {
		return out, err
	}
	if err := python.check(ctx); err != nil {
		return out, fmt.Errorf("stage %s: %w", run.Stage, err)
	}
	if err := python.put(ctx, run, out); err != nil {
		return out, err
	}
	out.addDependencies(own)
	_, failure, err := runTool(ctx, run, c, out)
	if err != nil {
		return out, err
	}
	return out, takeOutput(ctx, run, with.File, out, failure, func(f *os.File, size int64) error {
		return checkConverted(f, size, with)
	})
}

// checkConverted opens what the converter made.
func checkConverted(f *os.File, size int64, with convertWith) error {
	if with.VocabularyOnly {
		made, err := gguf.Open(f, size)
		if err != nil {
			return err
		}
		if tokens, ok := made.KV("tokenizer.ggml.tokens"); !ok || tokens.Len == 0 || len(made.Tensors) != 0 {
			return fmt.Errorf("got %d tokens and %d tensors, want a vocabulary and no tensor", tokens.Len, len(made.Tensors))
		}
		return nil
	}
	want := outTypes[with.Type]
	made, err := checkGGUF(f, size, want.fileType)
	if err != nil {
		return err
	}
	for _, t := range made.Tensors {
		if t.Type == want.tensors {
			return nil
		}
	}
	return fmt.Errorf("none of its %d tensors is %s", len(made.Tensors), with.Type)
}

// noBox tells that nothing was said of a box.
func noBox(b schemas.Box) bool { return b.Method == "" && len(b.Admit) == 0 && len(b.Roots) == 0 }
