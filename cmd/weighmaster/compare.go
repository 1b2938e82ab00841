package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/kernels/derive"
)

func (a *app) compareCommand() *cobra.Command {
	return &cobra.Command{
		Use: "compare SOURCE TARGET", Short: "Tell, from the bytes alone, what TARGET is to SOURCE", Args: cobra.ExactArgs(2),
		Long: "Compare needs no ledger and no setup. SOURCE and TARGET are each a Hugging Face folder or a GGUF file. It tells whether TARGET is identical to SOURCE,\n" +
			"differs in metadata, is an exact conversion, is a quantization with every bit recomputed, or is not derived from it; each tensor with its class of proof:\n" +
			"A every bit recomputed; D the error alone, which is reported and never called verified. Exit code 0: class A; 1: not derived; 2: class D.",
		Example: "  weighmaster compare snapshot/ model-Q8_0.gguf\n  weighmaster compare old.gguf new.gguf --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			source, closeSource, err := compareInput(args[0])
			if err != nil {
				return err
			}
			defer closeSource()
			target, closeTarget, err := compareInput(args[1])
			if err != nil {
				return err
			}
			defer closeTarget()
			rel, err := derive.Compare(cmd.Context(), source, target, derive.Options{})
			if errors.Is(err, fs.ErrNotExist) {
				return usage("compare %s with %s: %v; want a Hugging Face folder or a GGUF file", args[0], args[1], err)
			}
			if err != nil {
				return &exitError{exitFalse, fmt.Errorf("compare %s with %s: %w", args[0], args[1], err)}
			}
			if err := a.answer(rel, func() { a.printRelation(args[0], args[1], rel) }); err != nil {
				return err
			}
			switch rel.Kind {
			case derive.NotDerived:
				return &exitError{code: exitFalse}
			case derive.ErrorOnly:
				return &exitError{code: exitUndecided}
			}
			return nil
		},
	}
}

// compareInput opens one side. The returned function closes it.
func compareInput(path string) (derive.Input, func() error, error) {
	info, err := os.Stat(path)
	if err != nil {
		return derive.Input{}, nil, usage("%v", err)
	}
	if info.IsDir() {
		return derive.Input{Snapshot: os.DirFS(path)}, func() error { return nil }, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return derive.Input{}, nil, usage("%v", err)
	}
	return derive.Input{GGUF: &derive.File{R: f, Size: info.Size()}}, f.Close, nil
}

func (a *app) printRelation(source, target string, rel derive.Relation) {
	class := string(rel.Class)
	if class == "" {
		class = "none"
	}
	a.printf("%s is to %s: %s\n  class of proof %s, recipe %s, %d tensors\n", target, source, rel.Kind, class, rel.Recipe, len(rel.Tensors))
	for _, f := range rel.Findings {
		a.printf("FAIL %s\n", f)
	}
	for _, f := range rel.Metadata {
		a.printf("     metadata: %s\n", f)
	}
	for _, t := range rel.Tensors {
		if t.Class == derive.ClassD && t.Error != nil {
			a.printf("     %s %s: class D, relative RMS error %.3g; not verified\n", t.Name, t.Type, *t.Error)
		}
	}
}
