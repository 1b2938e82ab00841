package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

// The kernel's identity.
const (
	Name    = "token parity"
	Version = "1.0.0"
	Spec    = "https://huggingface.co/docs/tokenizers/pipeline"
)

// MinCorpus is the number of texts that a comparison needs to be decided.
const MinCorpus = 330

// Kernel describes the kernel for the registry.
func Kernel() kernels.Kernel {
	return kernels.Kernel{
		Name: Name, Version: Version, Spec: Spec,
		Summary: "compares two tokenizers on the ids and the texts that they give, with no difference allowed",
		Limits:  kernelLimits(),
		Gates: []kernels.Gate{
			{Metric: "texts_differing", Unit: "texts", Compare: kernels.Equal, Value: 0},
			{Metric: "texts", Unit: "texts", Compare: kernels.AtLeast, Value: MinCorpus},
		},
		Faults:    faultNames(),
		SelfCheck: selfCheck,
	}
}

// Parity compares two tokenizers on every text of a corpus, with and without
// the special tokens around it: the ids, and the text that each makes of the
// ids of the first, with and without special tokens. The report passes when nothing
// differs, every planted control was found and the corpus has at least
// [MinCorpus] texts; with fewer it is undecided.
func Parity(ctx context.Context, a, b Encoder, corpus []string) (kernels.Report, error) {
	report := Kernel().NewReport()
	if a == nil || b == nil {
		return report, errors.New("parity: got one tokenizer, want two")
	}
	for _, side := range []Encoder{a, b} {
		if s, ok := side.(interface{ Source() kernels.Input }); ok {
			report.Inputs = append(report.Inputs, s.Source())
		}
	}
	listed, err := json.Marshal(corpus)
	if err != nil {
		return report, fmt.Errorf("parity: corpus: %w", err)
	}
	report.Inputs = append(report.Inputs, kernels.Input{Name: "corpus", Digest: godigest.FromBytes(listed), Size: int64(len(listed))})

	ids, differing := 0, 0
	for i, s := range corpus {
		if err := ctx.Err(); err != nil {
			return report, err
		}
		n, findings := compareText(a, b, s)
		ids += n
		if len(findings) > 0 {
			differing++
		}
		for _, f := range findings {
			f.Where = fmt.Sprintf("text %d, %s", i, f.Where)
			report.Find(f)
		}
	}
	report.Metric("texts", "texts", float64(len(corpus)))
	report.Metric("ids", "ids", float64(ids))
	report.Metric("texts_differing", "texts", float64(differing))
	report.Metrics = append(report.Metrics, warnings(a, b))
	if err := plant(ctx, b, corpus, &report.Controls); err != nil {
		return report, err
	}
	if err := report.Finish(); err != nil {
		return report, err
	}
	if report.Verdict == kernels.Passed && len(corpus) < MinCorpus {
		report.Verdict = kernels.Undecided
	}
	return report, nil
}

// warnings counts what a user of the vocabulary should know although every text
// has its ids, and names it in the metric's identity.
func warnings(sides ...Encoder) kernels.Metric {
	m := kernels.Metric{Name: "warnings", Unit: "warnings"}
	for _, side := range sides {
		s, ok := side.(interface{ Warnings() []kernels.Finding })
		if !ok {
			continue
		}
		for _, f := range s.Warnings() {
			if m.Identity == nil {
				m.Identity = map[string]string{}
			}
			m.Value++
			m.Identity[f.Check] = f.String()
		}
	}
	return m
}

// compareText gives the number of ids compared and what differs.
func compareText(a, b Encoder, s string) (ids int, findings []kernels.Finding) {
	for _, special := range []bool{false, true} {
		want, got := a.Encode(s, special), b.Encode(s, special)
		ids += len(want)
		where := fmt.Sprintf("%.80q, special tokens added: %v", s, special)
		if !slices.Equal(got, want) {
			at := 0
			for at < len(got) && at < len(want) && got[at] == want[at] {
				at++
			}
			findings = append(findings, kernels.Finding{
				Check: "ids", Where: fmt.Sprintf("%s, position %d", where, at), Got: shown(b, got, at), Want: shown(a, want, at),
				Hint: "the two would give a model different inputs; do not measure with one what was made with the other",
			})
		}
		for _, skip := range []bool{false, true} {
			wantText, wantErr := a.Decode(want, skip)
			gotText, gotErr := b.Decode(want, skip)
			if wantErr != nil || gotErr != nil || gotText != wantText {
				findings = append(findings, kernels.Finding{
					Check: "text", Where: fmt.Sprintf("%s, special tokens skipped: %v", where, skip),
					Got: result(gotText, gotErr), Want: result(wantText, wantErr),
				})
			}
		}
	}
	return ids, findings
}

func shown(e Encoder, ids []uint32, at int) string {
	if at >= len(ids) {
		return fmt.Sprintf("the end after %d ids", len(ids))
	}
	text, _ := e.Token(ids[at])
	return fmt.Sprintf("%d (%q)", ids[at], text)
}

func result(s string, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.200q", s)
}
