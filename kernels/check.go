package kernels

import (
	"context"
	"fmt"
)

// Checked is how one kernel did on its built-in input with its controls planted.
type Checked struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Verdict  Verdict  `json:"verdict"`
	Failure  string   `json:"failure,omitempty"`
	Controls Controls `json:"controls"`
	// LimitProblems says for each limit that is not as stated, or that no probe shows, what is wrong.
	LimitProblems []string `json:"limitProblems"`
}

// Check runs the self-check of a kernel, holds its report against what the
// kernel claims (a control for every fault, every gate kept), and tries its limits.
func (k Kernel) Check(ctx context.Context) Checked {
	r, err := k.SelfCheck(ctx)
	if err == nil {
		err = k.CheckFaults(r.Controls)
	}
	if err == nil {
		err = k.CheckGates(r)
	}
	c := Checked{Name: k.Name, Version: k.Version, Verdict: r.Verdict, Controls: r.Controls, LimitProblems: []string{}}
	if err != nil {
		c.Verdict, c.Failure = Failed, err.Error()
	}
	for _, l := range k.Limits {
		if l.Probe == nil {
			c.LimitProblems = append(c.LimitProblems, fmt.Sprintf("%q: no probe shows it", l.What))
		} else if err := l.Probe(ctx); err != nil {
			c.LimitProblems = append(c.LimitProblems, fmt.Sprintf("%q: %v", l.What, err))
		}
	}
	return c
}

// Summary is the outcome of checking all kernels of a registry.
type Summary struct {
	Kernels       []Checked `json:"kernels"`
	Passed        int       `json:"passed"`
	Failed        int       `json:"failed"`
	Planted       int       `json:"planted"`
	Red           int       `json:"red"`
	Missed        int       `json:"missed"`
	LimitProblems int       `json:"limitProblems"`
}

// Check checks every kernel, sorted by name.
func (r *Registry) Check(ctx context.Context) Summary {
	s := Summary{Kernels: []Checked{}}
	for _, k := range r.List() {
		c := k.Check(ctx)
		s.Kernels = append(s.Kernels, c)
		if c.Verdict == Passed {
			s.Passed++
		} else {
			s.Failed++
		}
		s.Planted += c.Controls.Planted
		s.Red += c.Controls.Red
		s.Missed += c.Controls.Missed
		s.LimitProblems += len(c.LimitProblems)
	}
	return s
}

// OK tells whether every kernel passed, every control was red and every limit is as stated.
func (s Summary) OK() bool { return s.Failed == 0 && s.Missed == 0 && s.LimitProblems == 0 }

// String is the summary's one line.
func (s Summary) String() string {
	return fmt.Sprintf("%d kernels: %d pass, %d fail; %d controls: %d red as planted, %d missed; %d limit problems",
		len(s.Kernels), s.Passed, s.Failed, s.Planted, s.Red, s.Missed, s.LimitProblems)
}
