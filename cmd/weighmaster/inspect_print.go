package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/tensorhash"
)

func (a *app) printInspection(s modelSummary, o inspectOptions) {
	if o.ggufHash {
		names, of := make([]string, len(s.Tensors)), make([]tensorhash.Digests, len(s.Tensors))
		for i, t := range s.Tensors {
			names[i], of[i] = t.Name, t.Digests
		}
		_ = tensorhash.Print(a.out, s.Path, names, of, *s.Model) // as every other write to standard output
		return
	}
	a.printSummary(s)
	if o.keys {
		if s.keys == nil {
			s.keys = slices.Sorted(maps.Keys(s.Metadata))
		}
		for _, k := range s.keys {
			a.printf("  %s = %s\n", k, s.Metadata[k])
		}
	}
	if o.tensors {
		for _, t := range s.Tensors {
			a.printf("  %-32s %-8s %v [%d, %d) %s\n", t.Name, t.Type, t.Dims, t.Begin, t.End, t.SHA256)
		}
	}
	for _, f := range s.Files {
		if o.digest {
			a.printf("  %s: %d bytes, sha256 %s, git blob %s\n", f.Name, f.Size, f.SHA256, f.GitBlob)
		}
	}
	for _, p := range s.Profiles {
		if !p.Loads {
			a.printf("  %s would refuse it: %s\n", p.Reader, strings.Join(p.Reasons, "; "))
		}
	}
	for _, w := range s.Warnings {
		a.printf("  warning: %s\n", w)
	}
}

func (a *app) printSummary(s modelSummary) {
	format := s.Format
	if s.Container != "" {
		format += " (" + s.Container + ")"
	}
	architecture := s.Architecture
	if architecture == "" {
		architecture = "no architecture named"
	}
	a.printf("%s: %s, %s, %d parameters\n", s.Path, format, architecture, s.Parameters)
	for _, t := range s.Types {
		a.printf("  %4d %-8s %d bytes\n", t.Tensors, t.Type, t.Bytes)
	}
	if s.Name != "" {
		a.printf("  name: %q\n", s.Name)
	}
	for _, n := range s.Sizes {
		a.printf("  %s = %s\n", n.Name, n.Value)
	}
	if t := s.Tokenizer; t != nil {
		a.printf("  tokenizer: %s, %d tokens (%d control), %d merges\n", named(t.Model, t.Pre), t.Vocabulary, t.Control, t.Merges)
		for _, special := range t.Special {
			a.printf("    %s = %d %q\n", special.Key, special.ID, special.Text)
		}
		for _, flag := range t.Flags {
			a.printf("    %s = %s\n", flag.Name, flag.Value)
		}
	}
	for _, t := range s.Templates {
		a.printf("  %s: %d bytes, sha256 %s, starts %q\n", t.Key, t.Bytes, t.SHA256, t.FirstLine)
	}
	if q := s.Quantization; q != nil {
		a.printf("  says of itself:")
		if q.FileType != nil {
			a.printf(" file type %s (%d)", named(q.Recipe, ""), *q.FileType)
		}
		if q.Version != nil {
			a.printf(" quantization version %d", *q.Version)
		}
		a.printf("\n")
	}
	if len(s.Imatrix) > 0 {
		claims := make([]string, len(s.Imatrix))
		for i, c := range s.Imatrix {
			claims[i] = c.Name + " " + c.Value
		}
		a.printf("  claims an importance matrix (a name, not a proof): %s\n", strings.Join(claims, ", "))
	}
}

// named is a name with its variant; nothing is called unknown.
func named(name, variant string) string {
	if name == "" {
		name = "unknown"
	}
	if variant != "" {
		name += fmt.Sprintf(" (%s)", variant)
	}
	return name
}
