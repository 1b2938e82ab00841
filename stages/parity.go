package stages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/token"
	"github.com/weighmaster/weighmaster/schemas"
)

// Parity compares tokenizers: the publisher's (role snapshot), the vocabulary of a
// GGUF (role model) as it is read here, llama-tokenize of a build (role runtime)
// on that file, and a running server. The first that is there is the reference,
// and each of the others is held against it. It makes nothing but its reports.
type Parity struct{}

// Uses implements [Stage].
func (Parity) Uses() string { return "parity" }

type parityWith struct {
	Seed     uint64      `json:"seed"`
	Composed bool        `json:"composed"`
	Tool     string      `json:"tool"`
	Server   string      `json:"server"`
	Timeout  string      `json:"timeout"`
	Box      schemas.Box `json:"box"`
}

// paritySide is one tokenizer with what it is called.
type paritySide struct {
	name string
	side token.Side
	// leaves tells cases that the side cannot take.
	leaves func(text string) bool
}

// parityParameters reads with: a build among the inputs brings its llama-tokenize.
func parityParameters(run *Run) (with parityWith, err error) {
	if err = decodeWith(run, &with); err != nil {
		return with, err
	}
	if _, given := run.Inputs["runtime"]; given && with.Tool == "" {
		with.Tool = defaultTokenize
	}
	return with, nil
}

const defaultTokenize = "bin/llama-tokenize"

// Resolve implements [Resolver]. What a server answers is about here and now.
func (Parity) Resolve(ctx context.Context, run *Run) ([]Dependency, error) {
	with, err := parityParameters(run)
	if err != nil {
		return nil, err
	}
	if with.Server != "" {
		return nil, errors.New("a running server is asked again")
	}
	if with.Tool == "" {
		return nil, nil
	}
	command, err := tokenizeCommand(run, with)
	if err != nil {
		return nil, err
	}
	return resolveTool(ctx, run, command)
}

// Run implements [Stage].
func (Parity) Run(ctx context.Context, run *Run) (*Outcome, error) {
	with, err := parityParameters(run)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Verdict: schemas.Passed, Facts: map[string]string{"seed": strconv.FormatUint(with.Seed, 10)}}
	sides, corpus, err := localSides(run, with, out)
	if err != nil {
		return nil, err
	}
	if with.Composed {
		out.Facts["domain"] = "composed texts"
		corpus = slices.DeleteFunc(corpus, func(s string) bool { return !norm.NFC.IsNormalString(s) })
	}
	if with.Tool != "" {
		t, err := newTokenizeTool(ctx, run, with, corpus, out)
		if err != nil || t == nil {
			return out, err
		}
		sides = append(sides, paritySide{"tool", t, unprinted})
	}
	if with.Server != "" {
		s, err := newServer(with)
		if err != nil {
			return nil, err
		}
		out.Facts["server"] = "not bound to a digest"
		sides = append(sides, paritySide{"server", s, nil})
	}
	if len(sides) < 2 {
		return nil, fmt.Errorf("stage %s: got %d tokenizers that can be read, want two: name a snapshot, a model, a tool or a server", run.Stage, len(sides))
	}
	return out, compareSides(ctx, run, sides, corpus, out)
}

// localSides reads the publisher's tokenizer and the file's vocabulary, and makes
// the cases from the first that can be read. A vocabulary of a kind that is
// not read here is no side when the tool or a server reads it.
func localSides(run *Run, with parityWith, out *Outcome) (sides []paritySide, corpus []string, err error) {
	var first token.Encoder
	if a, given := run.Inputs["snapshot"]; given {
		tk, err := snapshotTokenizer(a)
		if err != nil {
			return nil, nil, err
		}
		first = tk
		sides = append(sides, paritySide{"publisher", token.Local(tk), nil})
	}
	if a, given := run.Inputs["model"]; given {
		f, model, err := a.openGGUF("model")
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		sum, err := gguf.TokenizerDigest(model.KVs)
		if err != nil {
			return nil, nil, fmt.Errorf("input model: %w", err)
		}
		out.Facts[schemas.FactTokenizer] = sum.String()
		own, err := token.FromGGUF(model)
		switch {
		case err == nil:
			if first == nil {
				first = own
			}
			sides = append(sides, paritySide{"vocabulary", token.Local(own), nil})
		case with.Tool != "" || with.Server != "":
			out.Facts["vocabulary"] = "not read here: " + err.Error()
		default:
			return nil, nil, fmt.Errorf("input model: %w", err)
		}
	}
	if first == nil {
		return nil, nil, fmt.Errorf("stage %s: got no tokenizer that is read here, want a snapshot or a model among the inputs: the cases come from its tokens", run.Stage)
	}
	return sides, token.Corpus(first, with.Seed), nil
}

// compareSides holds every side against the first.
func compareSides(ctx context.Context, run *Run, sides []paritySide, corpus []string, out *Outcome) error {
	sums, fewest := map[string]float64{}, len(corpus)
	var names []string
	for i, s := range sides {
		names = append(names, s.name)
		if i == 0 {
			continue
		}
		run.progress(fmt.Sprintf("comparing %s with %s over %d cases", sides[0].name, s.name, len(corpus)))
		cases := corpus
		if s.leaves != nil {
			cases = slices.DeleteFunc(slices.Clone(corpus), s.leaves)
		}
		fewest = min(fewest, len(cases))
		report, err := token.Parity(ctx, sides[0].side, s.side, cases)
		if err != nil {
			return fmt.Errorf("%s beside %s: %w", s.name, sides[0].name, err)
		}
		for _, m := range report.Metrics {
			sums[m.Name] += m.Value
		}
		out.report(report)
	}
	out.Facts["sides"] = strings.Join(names, ", ")
	out.Facts["cases"] = strconv.Itoa(fewest)
	for _, name := range []string{"comparisons", "mismatches"} {
		out.Facts[name] = strconv.FormatFloat(sums[name], 'f', -1, 64)
	}
	body, err := json.Marshal(corpus)
	if err != nil {
		return err
	}
	return out.store(ctx, run, "record/cases", "application/json", body)
}
