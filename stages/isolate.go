package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	scai "github.com/in-toto/attestation/go/predicates/scai/v0"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// Isolate shows what the box of the tool stages denies: this program tries it,
// in a box with the same mounts and the same things let in, and states by SCAI
// v0.3 the attributes that it was refused by. Its inputs are mounted as a tool's are.
type Isolate struct{}

// Uses implements [Stage].
func (Isolate) Uses() string { return "isolate" }

type isolateWith struct {
	Require []string    `json:"require"`
	Box     schemas.Box `json:"box"`
}

// Resolve implements [Resolver]: what was shown is shown again after a restart
// of the machine, and when what makes the box is another program.
func (Isolate) Resolve(ctx context.Context, run *Run) ([]Dependency, error) {
	var with isolateWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	box, err := isolation.Open(ctx, isolateProfile(run, with))
	if err != nil {
		return nil, err
	}
	return boxDependencies(box.Facts()), box.Close()
}

func boxDependencies(facts map[string]string) []Dependency {
	var list []Dependency
	for _, d := range []struct{ name, fact string }{{"machine/boot", schemas.FactBoot}, {"tool/bwrap", schemas.FactBoxMaker}} {
		if v := facts[d.fact]; v != "" {
			list = append(list, Dependency{Name: d.name, Digest: godigest.Digest(v)})
		}
	}
	return list
}

// isolateProfile is the profile of a tool that gets these inputs.
func isolateProfile(run *Run, with isolateWith) isolation.Profile {
	box := with.Box
	box.Roots = make([]schemas.BoxRoot, len(with.Box.Roots))
	for i, r := range with.Box.Roots {
		r.Path = below(run.Project, r.Path)
		box.Roots[i] = r
	}
	return isolation.Profile{Box: box, Dir: run.Dir, Mounts: append(inputMounts(run), isolation.Mount{Name: "out", Host: run.Dir, Inside: isolation.InsideOut, Write: true})}
}

// Run implements [Stage].
func (Isolate) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with isolateWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	e, err := isolation.Examine(ctx, isolateProfile(run, with))
	if err != nil {
		return nil, err
	}
	out := &Outcome{Facts: e.Facts, Internal: map[string]any{"box": e.Record, "kernel": isolation.Kernel(), "notDenied": isolation.NotDenied(e.Method)}, Dependencies: boxDependencies(e.Facts)}
	if len(with.Require) == 0 {
		with.Require = isolation.Gives(e.Method)
	}
	probes, err := putProbes(ctx, run, out, e)
	if err != nil {
		return out, err
	}
	shown := isolation.ShownBy(e)
	report, err := isolationReport(e, shown, with.Require)
	if err != nil {
		return out, err
	}
	report.Inputs = append(report.Inputs, kernels.Input{Name: probes.Name, Digest: probes.Digest, Size: probes.Size})
	out.Reports = []kernels.Report{report}
	out.Verdict = schemas.Verdict(report.Verdict)
	if report.Verdict != kernels.Passed {
		out.Failure = failureOf(report)
	}
	s, err := attributeReport(ctx, run, e, shown, report, probes)
	if err != nil {
		return out, err
	}
	if s != nil {
		out.Statements = []*attest.Statement{s}
	}
	return out, nil
}

// putProbes keeps every try and how it ended. It names no path of the machine.
func putProbes(ctx context.Context, run *Run, out *Outcome, e isolation.Examination) (Evidence, error) {
	body, err := json.Marshal(map[string]any{"method": e.Method, "tries": e.Tries})
	if err != nil {
		return Evidence{}, err
	}
	if body, err = jsoncanonicalizer.Transform(body); err != nil {
		return Evidence{}, err
	}
	ev := Evidence{Name: "box/probes", MediaType: "application/json"}
	if ev.Digest, ev.Size, err = run.Objects.Put(ctx, ev.MediaType, true, bytes.NewReader(body)); err != nil {
		return ev, fmt.Errorf("store %s: %w", ev.Name, err)
	}
	out.Evidence = append(out.Evidence, ev)
	return ev, nil
}

// attributeReport states what was shown, each attribute with the report as its
// evidence. It is about the probe's findings; nil when nothing was shown.
func attributeReport(ctx context.Context, run *Run, e isolation.Examination, shown []isolation.Shown, report kernels.Report, probes Evidence) (*attest.Statement, error) {
	if report.Controls.Missed > 0 {
		return nil, nil // a probe that cannot tell a hole shows nothing
	}
	report.Inputs = append(reportInputs(run.Inputs), report.Inputs...) // as the runner stores it
	evidence, err := putJSON(ctx, run.Objects, "report/"+report.Kernel, report, nil)
	if err != nil {
		return nil, err
	}
	p := &scai.AttributeReport{}
	for _, s := range shown {
		if !s.Shown {
			continue
		}
		conditions, err := toStruct(map[string]any{"method": string(e.Method), "shown": s.Statement, "kernel": isolation.Kernel(), "boot": e.Facts[schemas.FactBoot], "admitted": e.Facts[schemas.FactAdmitted]})
		if err != nil {
			return nil, err
		}
		a := &scai.AttributeAssertion{Attribute: s.Attribute, Conditions: conditions, Evidence: evidence}
		if maker := godigest.Digest(e.Facts[schemas.FactBoxMaker]); maker != "" {
			a.Target = &attest.ResourceDescriptor{Name: "tool/bwrap", Digest: sha256Set(maker)}
		}
		p.Attributes = append(p.Attributes, a)
	}
	if len(p.Attributes) == 0 {
		return nil, nil
	}
	binary, err := BinaryDigest()
	if err != nil {
		return nil, err
	}
	p.Producer = &attest.ResourceDescriptor{Name: "tool/weighmaster", Digest: sha256Set(binary)}
	subject := &attest.ResourceDescriptor{Name: probes.Name, Digest: sha256Set(probes.Digest), MediaType: probes.MediaType}
	return attest.NewStatement([]*attest.ResourceDescriptor{subject}, attest.SCAIType, p)
}
