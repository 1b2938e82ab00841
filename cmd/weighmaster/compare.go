package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/derive"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
)

func (a *app) compareCommand() *cobra.Command {
	var matrix string
	var hash bool
	cmd := &cobra.Command{
		Use: "compare SOURCE TARGET", Short: "Tell, from the bytes alone, what TARGET is to SOURCE", Args: cobra.ExactArgs(2),
		Long: "Compare needs no ledger and no setup. SOURCE and TARGET are each a GGUF file (of a split one, any part), a Hugging Face folder, or one that MLX,\n" +
			"compressed-tensors or ModelOpt made. It tells whether TARGET is identical to SOURCE, differs in metadata or chat template alone, is an exact conversion or a\n" +
			"quantization of it (with its recipe), or is not derived from it; each tensor with its class of proof and what remains unproven:\n" +
			"  A  every bit recomputed; one build of the quantizers fits the whole file\n" +
			"  B  the codes of every block exact, the scales within the bounds of another build\n" +
			"  C  the codes of every block exact, the scales free: the importance matrix is not at hand\n" +
			"  D  the error alone, which is reported and never called verified\n" +
			"Exit code 0: class A, B or C; 1: not derived, or beside the weights (keys, tokens, template) something else than the source says; 2: class D, an\n" +
			"architecture without a mapping, a vocabulary that could not be derived, rows in the other rotary order, a source that cannot be read, or nothing that could be compared.",
		Example: "  weighmaster compare snapshot/ model-Q4_K_M.gguf\n  weighmaster compare model-BF16.gguf model-Q4_K_M.gguf --imatrix imatrix.gguf\n  weighmaster compare old.gguf new.gguf --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			rel, err := compare(cmd.Context(), args[0], args[1], matrix, hash)
			if err != nil {
				return err
			}
			if err := a.answer(rel, func() { a.printRelation(args[0], args[1], rel) }); err != nil {
				return err
			}
			return compareExit(rel)
		},
	}
	cmd.Flags().BoolVar(&hash, "digest", true, "hash the whole of a GGUF file that is recomputed; --digest=false leaves that read out")
	cmd.Flags().StringVar(&matrix, "imatrix", "", "importance matrix that TARGET was made with (GGUF or .dat)")
	return cmd
}

// compareExit is the exit code of a relation.
func compareExit(rel derive.Relation) error {
	switch rel.Kind {
	case derive.NotDerived:
		return &exitError{code: exitFalse}
	case derive.ContentFound, derive.ContentPartly, derive.RowsMoved, derive.MoreScales:
		return &exitError{code: exitUndecided}
	}
	switch verdict := rel.MetadataVerdict(); {
	case verdict == kernels.Failed:
		return &exitError{code: exitFalse}
	case verdict == kernels.Undecided, rel.Kind == derive.ErrorOnly:
		return &exitError{code: exitUndecided}
	}
	return nil
}

func compare(ctx context.Context, from, to, matrix string, hash bool) (derive.Relation, error) {
	before, err := stamps(from, to)
	if err != nil {
		return derive.Relation{}, usage("%v", err)
	}
	source, closeSource, err := compareInput(from)
	if err != nil {
		return derive.Relation{}, err
	}
	defer closeSource()
	target, closeTarget, err := compareInput(to)
	if err != nil {
		return derive.Relation{}, err
	}
	defer closeTarget()
	o, closeMatrix, err := compareMatrix(ctx, matrix)
	if err != nil {
		return derive.Relation{}, err
	}
	defer closeMatrix()
	o.NoDigest = !hash
	rel, err := derive.Compare(ctx, source, target, o)
	if changed := before.check(from, to); changed != nil {
		return derive.Relation{}, usage("%v", changed)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return rel, usage("compare %s with %s: %v; want a model folder or a GGUF file", from, to, err)
	}
	var unchecked *derive.UncheckedError
	var unread *derive.SourceError
	var io *fs.PathError
	if errors.As(err, &unchecked) || errors.As(err, &unread) || errors.As(err, &io) || ctx.Err() != nil && err != nil {
		return rel, usage("compare %s with %s: %v", from, to, err)
	}
	if err != nil {
		return rel, &exitError{exitFalse, fmt.Errorf("compare %s with %s: %w", from, to, err)}
	}
	return rel, nil
}

// compareInput opens one side. The returned function closes it.
func compareInput(path string) (derive.Input, func() error, error) {
	info, err := os.Stat(path)
	if err != nil {
		return derive.Input{}, nil, usage("%v", err)
	}
	if info.IsDir() {
		return derive.Input{Snapshot: folder.Dir(path)}, func() error { return nil }, nil
	}
	if filepath.Ext(path) == ".safetensors" {
		return derive.Input{}, nil, usage("%s: got one safetensors file, want the folder with its config.json", path)
	}
	names := gguf.PartNames(path)
	if names == nil {
		names = []string{path}
	}
	var in derive.Input
	var files closers
	for _, name := range names {
		f, size, err := openRegular(name)
		if errors.Is(err, fs.ErrNotExist) && name != path {
			continue // the reader names the parts that are missing
		}
		if err != nil {
			return derive.Input{}, nil, usage("%v", errors.Join(err, files.Close()))
		}
		files = append(files, f)
		in.Parts = append(in.Parts, gguf.Part{Name: filepath.Base(name), R: f, Size: size})
	}
	if len(names) == 1 {
		in = derive.Input{GGUF: &derive.File{R: in.Parts[0].R, Size: in.Parts[0].Size}}
	}
	return in, files.Close, nil
}

// compareMatrix opens an importance matrix, none for an empty path.
func compareMatrix(ctx context.Context, path string) (derive.Options, func() error, error) {
	if path == "" {
		return derive.Options{}, func() error { return nil }, nil
	}
	f, size, err := openRegular(path)
	if err != nil {
		return derive.Options{}, nil, usage("%v", err)
	}
	m, err := imatrix.Open(f, size)
	if err != nil {
		return derive.Options{}, nil, usage("%s: %v; nothing was compared", path, errors.Join(err, f.Close()))
	}
	sum, err := digest.SHA256(ctx, f, size)
	if err != nil {
		return derive.Options{}, nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return derive.Options{Matrix: m, MatrixDigest: sum}, f.Close, nil
}
