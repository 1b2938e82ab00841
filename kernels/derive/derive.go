// Package derive proves from the bytes that one model file was made from
// another: every tensor of the source found exactly once in the product, in its
// shape, its row order and its type, and every stored bit recomputed from the
// source; every hyper-parameter, token and template held against the
// publisher's files. No log and no statement is believed.
//
// # Classes of proof
//
// Each tensor, and the file as its weakest, is of one class:
//
//   - A: every bit recomputed. For quantized types under one of the builds of
//     ggml's quantizers (see package quant), with the importance matrix at hand
//     or without, perhaps behind a narrower intermediate. One build has to fit the
//     whole file. The header is then recomputed too, and the file's digest claimed.
//   - B: no known build gives every bit; the codes of every block are those that the
//     source and the stored scales give, at least half of the blocks are the
//     recomputed ones, the tensor's error is within 2 percent of the recomputed one's,
//     and no block's is 16 times that of the recomputed block.
//   - C: codes as in B, in blocks that are not the recomputed ones: the importance
//     matrix is not at hand, or does not fit. The error is 0.7 to 1.35 times that
//     of the tensor recomputed without a matrix, that of a block at most 16 times.
//   - D: the error alone, for types whose codes cannot be checked. Never verified.
//
// The bounds were calibrated on files of real builds; see bounds.go and its test.
// What the source's weights round away is in no product: a source that differs only
// there cannot be told apart.
//
// What a converter takes from folder names and model cards (general.name and
// its like) and what a quantizer notes about its inputs (quantize.…) are claims,
// not derivations; they are not compared with a publisher's snapshot. A signalling
// NaN of a BF16 source may stand in the product as it is or quiet: converters differ.
package derive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// The kernel's identity.
const (
	Name    = "derive"
	Version = "2.0.0"
	Spec    = "https://github.com/ggml-org/llama.cpp/blob/master/conversion/llama.py"
)

// File is a GGUF file of Size bytes.
type File struct {
	R    io.ReaderAt
	Size int64
}

// Input is one side of a derivation: a publisher's snapshot (safetensors,
// config.json and tokenizer files at the root), a GGUF file, or the parts of one
// that was split. Exactly one is set.
type Input struct {
	Snapshot fs.FS
	GGUF     *File
	Parts    []gguf.Part
}

// Kernel describes the kernel for the registry.
func Kernel() kernels.Kernel {
	return kernels.Kernel{
		Name: Name, Version: Version, Spec: Spec,
		Summary: "proves from the bytes that a GGUF file was made from a snapshot or from another GGUF",
		Limits:  limits(),
		Gates: []kernels.Gate{
			{Metric: "tensors_differing", Unit: "tensors", Compare: kernels.Equal, Value: 0},
			{Metric: "tensors_bit_exact", Unit: "tensors", Compare: kernels.AtLeast, Value: 1},
		},
		Faults:    Faults(),
		SelfCheck: selfCheck,
	}
}

// Check compares a product with its source and plants the controls of every
// kind in views of the product. An error means that it could not be checked: an
// unusable source, or reading failed. A product that is malformed, truncated or
// different is a failed report.
//
// With [Options.TokenizerCompared] the keys of a vocabulary that are not those that the
// known converter writes are no findings: the metric tokenizer_keys_left counts and
// names them, and its identity "tokenizer" is [gguf.TokenizerDigest] of the product, by
// which a comparison of the tokenizers is held against it. Ids of special tokens and
// chat templates are those that the publisher states all the same, the text of each
// id that of tokenizer.json, and each row of the embedding has one token.
func Check(ctx context.Context, from Input, product File, o Options) (kernels.Report, error) {
	report := Kernel().NewReport()
	src, err := open(from)
	if err != nil {
		return report, fmt.Errorf("source: %w", err)
	}
	defer src.close()
	if o.TokenizerCompared {
		if src, err = src.published(); err != nil {
			return report, fmt.Errorf("source: %w", err)
		}
	}
	target, err := openFile(product)
	if malformed(err) {
		report.Find(kernels.Finding{Check: "format", Where: "product", Got: err.Error(), Want: "a complete GGUF file", Hint: "fetch or make the file again"})
		return report, report.Finish()
	}
	if err != nil {
		return report, fmt.Errorf("product: %w", err)
	}
	if unmapped(src, target) {
		err := checkContent(ctx, src, target, &report)
		return report, err
	}
	inventory, err := compareTensors(ctx, src, target, o)
	if err != nil {
		return report, err
	}
	for _, f := range inventory.findings {
		report.Find(f)
	}
	metadata, err := compareMetadata(ctx, src, target)
	if err != nil {
		return report, err
	}
	if o.TokenizerCompared {
		if metadata, err = leaveTokenizer(target, metadata, &report); err != nil {
			return report, err
		}
	}
	for _, f := range metadata {
		report.Find(f)
	}
	for _, f := range inventory.free(matrixUse(target, inventory, o), o) {
		report.Find(f)
	}
	inventory.measure(&report, src)
	report.Metric("metadata_differing", "keys", float64(len(metadata)))
	if err := plant(ctx, &controls{src: src, dst: target, product: product, compared: o.TokenizerCompared}, &report.Controls); err != nil {
		return report, err
	}
	if err := report.Finish(); err != nil {
		return report, err
	}
	if report.Verdict == kernels.Failed && undecidedOnly(report.Findings) {
		report.Verdict = kernels.Undecided
	}
	return report, nil
}

// malformed tells errors about the bytes of a GGUF file from errors of reading them.
func malformed(err error) bool {
	var format *gguf.FormatError
	var truncated *gguf.TruncatedError
	var order *gguf.OrderError
	return errors.As(err, &format) || errors.As(err, &truncated) || errors.As(err, &order)
}
