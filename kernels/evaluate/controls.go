package evaluate

import (
	"context"
	"fmt"
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
)

// Kinds of fault that a run plants.
const (
	faultAnswer = "wrong answer"
	faultCut    = "cut response"
	faultPrompt = "prompt ids"
	faultModel  = "wrong weights"
)

// planter puts faults into the record of one fixture and judges it again, and
// has a faulty copy of the model answer one.
type planter struct {
	ctx       context.Context
	model     Model
	tok       Tokenizer
	perturbed Perturbed
	controls  *kernels.Controls
}

// plant takes the passed fixture with the shortest prompt. Where none passed,
// there is no green record to turn red, and every control counts as missed.
func (p planter) plant(fixtures Fixtures, result Result) error {
	at := -1
	for i, o := range result.Outcomes {
		if o.Passed && (at < 0 || len(o.PromptIDs) < len(result.Outcomes[at].PromptIDs)) {
			at = i
		}
	}
	if at < 0 {
		for _, fault := range Kernel().Faults {
			p.controls.Add(kernels.ControlResult{Name: fault, Fault: fault, Detail: "no fixture passed: there is nothing to plant a fault in"})
		}
		return nil
	}
	f, o := fixtures.Fixtures[at], result.Outcomes[at]

	wrong := f
	wrong.Expect = Expect{"exact", f.Expect.Text + "."}
	p.red("one character more expected", faultAnswer, checkAnswer, judge(wrong, o))
	other := o
	other.Text = o.Text[:len(o.Text)-1]
	wrong.Expect = Expect{"exact", o.Text}
	p.red("one byte of the answer lost", faultAnswer, checkAnswer, judge(wrong, other))

	cut := o
	cut.IDs, cut.Stop = o.IDs[:len(o.IDs)-1], StopLimit
	p.red("the stopping id taken away", faultCut, checkEnd, judge(f, cut))

	ids := slices.Clone(o.PromptIDs)
	ids[len(ids)-1]++
	other = o
	other.PromptIDs = ids
	p.red("the last prompt id changed", faultPrompt, checkPrompt, judge(f, other))
	other.PromptIDs = o.PromptIDs[1:]
	p.red("the first prompt id lost", faultPrompt, checkPrompt, judge(f, other))
	other.PromptIDs = append([]uint32{o.PromptIDs[0]}, o.PromptIDs...)
	p.red("the first prompt id twice", faultPrompt, checkPrompt, judge(f, other))
	return p.faultyModel(f, o)
}

func (p planter) red(name, fault, check string, found []kernels.Finding) {
	i := slices.IndexFunc(found, func(x kernels.Finding) bool { return x.Check == check })
	detail := fmt.Sprintf("%d findings, none of the check %s", len(found), check)
	if i >= 0 {
		detail = found[i].String()
	}
	p.controls.Add(kernels.ControlResult{Name: name, Fault: fault, Red: i >= 0, Detail: detail})
}

// faultyModel lets a copy with a fault against the answer's first id run the
// fixture: a run that does not look at the weights would not notice.
func (p planter) faultyModel(f Fixture, o Outcome) error {
	const name = "the output row of the answer's first id negated"
	if p.perturbed == nil {
		p.controls.Add(kernels.ControlResult{Name: name, Fault: faultModel, Detail: "no faulty model was given"})
		return nil
	}
	m, err := p.perturbed(o.IDs[0])
	if err != nil {
		return fmt.Errorf("evaluate: planted control: %w", err)
	}
	other, err := answer(p.ctx, m, p.tok, f)
	if err != nil {
		return err
	}
	found := judge(f, other)
	c := kernels.ControlResult{Name: name, Fault: faultModel, Red: len(found) > 0, Detail: "the fixture passed all the same"}
	if c.Red {
		c.Detail = found[0].String()
	}
	p.controls.Add(c)
	return nil
}
