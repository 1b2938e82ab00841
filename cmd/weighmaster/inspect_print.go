package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
			a.say("  %s = %s\n", k, s.Metadata[k])
		}
	}
	if o.tensors {
		for _, t := range s.Tensors {
			a.say("  %-32s %-8s %v [%d, %d) %s %s\n", t.Name, t.Type, t.Dims, t.Begin, t.End, t.SHA256, t.File)
		}
	}
	for _, f := range s.Files {
		if o.digest {
			a.say("  %s: %d bytes, sha256 %s, git blob %s\n", f.Name, f.Size, f.SHA256, f.GitBlob)
		}
	}
	for _, p := range s.Profiles {
		if p.Loads {
			a.say("  %s would load it\n", p.Reader)
		} else {
			a.say("  %s would refuse it: %s\n", p.Reader, strings.Join(p.Reasons, "; "))
		}
	}
	for _, w := range s.Warnings {
		a.say("  warning: %s\n", w)
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
	if s.Matrix != nil {
		a.say("%s: %s\n", s.Path, format)
		a.printInspectedMatrix(s.Matrix)
		return
	}
	a.say("%s: %s, %s, %d parameters\n", s.Path, format, architecture, s.Parameters)
	for _, t := range s.Types {
		a.say("  %4d %-8s %d bytes\n", t.Tensors, t.Type, t.Bytes)
	}
	for _, q := range s.Schemes {
		a.say("  %4d matrices %s: %d weights\n", q.Matrices, q.Scheme, q.Weights)
	}
	if s.Name != "" {
		a.say("  name: %q\n", s.Name)
	}
	for _, n := range s.Sizes {
		a.say("  %s = %s\n", n.Name, n.Value)
	}
	if t := s.Tokenizer; t != nil {
		a.say("  tokenizer: %s, %d tokens (%d control), %d merges\n", named(t.Model, t.Pre), t.Vocabulary, t.Control, t.Merges)
		for _, special := range t.Special {
			a.say("    %s = %d %q\n", special.Key, special.ID, special.Text)
		}
		for _, flag := range t.Flags {
			a.say("    %s = %s\n", flag.Name, flag.Value)
		}
	}
	for _, t := range s.Templates {
		a.say("  %s: %d bytes, sha256 %s, starts %q\n", t.Key, t.Bytes, t.SHA256, t.FirstLine)
	}
	if q := s.Quantization; q != nil {
		a.say("  says of itself:")
		if q.FileType != nil {
			claimed := ""
			if s.Recipe != nil {
				claimed = s.Recipe.Claimed
			}
			a.say(" file type %s (%d)", named(claimed, ""), *q.FileType)
		}
		if q.Version != nil {
			a.say(" quantization version %d", *q.Version)
		}
		a.say("\n")
	}
	switch r := s.Recipe; {
	case r == nil:
	case r.Exact:
		a.say("  tensor types: those of recipe %s\n", r.Name)
	default:
		a.say("  tensor types: of no recipe; the nearest is %s\n", r.Name)
		for _, d := range r.Differences {
			a.say("    not the recipe's: %s\n", d)
		}
	}
	if len(s.Imatrix) > 0 {
		claims := make([]string, len(s.Imatrix))
		for i, c := range s.Imatrix {
			claims[i] = c.Name + " " + c.Value
		}
		a.say("  claims an importance matrix (a name, not a proof): %s\n", strings.Join(claims, ", "))
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

// say prints a line whose strings come from the file: what a terminal would
// not show as it stands is escaped, so that no name can pass for another line.
func (a *app) say(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = visible(text)
		}
	}
	a.printf(format, args...)
}

func visible(s string) string {
	var out strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&out, `\x%02x`, s[i])
		case strconv.IsPrint(r):
			out.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return out.String()
}
