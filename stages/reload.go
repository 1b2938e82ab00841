package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// ReloadVerb is the hidden verb of the command line that runs [ReloadChild].
const ReloadVerb = "reload-child"

// Reload loads the delivered bytes in a fresh process without network and has
// them answer, here and now. Input role: artifact, the delivered file.
type Reload struct {
	command func(ctx context.Context, path string, args ...string) (*boxed, error) // the box; the best that works here when nil
}

// Uses implements [Stage].
func (Reload) Uses() string { return "reload" }

// Unrepeatable: what was reloaded once is not reloaded now.
func (Reload) Unrepeatable() {}

type reloadWith struct {
	Fixtures string `json:"fixtures"` // path of a fixtures file
	Kind     string `json:"kind"`     // which fixtures to answer; arithmetic when empty
}

const (
	maxFixturesFile = 64 << 20 // bytes
	maxChildAnswer  = 64 << 20 // bytes
	maxChildWords   = 2000     // bytes of the child's stderr that an error repeats
)

// Run implements [Stage].
func (s Reload) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with reloadWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	artifact, err := run.Single("artifact")
	if err != nil {
		return nil, err
	}
	fixtures, err := readBounded(below(run.Project, with.Fixtures), maxFixturesFile)
	if err != nil {
		return nil, err
	}
	beacon, err := isolation.NewBeacon()
	if err != nil {
		return nil, err
	}
	defer beacon.Close()
	outside := isolation.Probe(ctx, beacon.Address())
	if with.Kind == "" {
		with.Kind = "arithmetic"
	}
	job := reloadJob{Path: artifact.Path, Fixtures: fixtures, Kind: with.Kind, Connect: []string{beacon.Address(), isolation.Outside}}
	start := run.Now()
	answer, b, err := s.ask(ctx, job)
	if err != nil {
		return nil, err
	}
	method := b.method
	outside = append(outside, isolation.Probe(ctx, beacon.Address())...)
	network := isolation.Judge(method, outside, answer.Attempts)
	out := &Outcome{
		Facts:    map[string]string{"network": "not enforced", "enforcement": network.Statement},
		Internal: map[string]any{"method": string(method)},
	}
	if b.record != nil {
		out.Internal["box"] = b.record
	}
	if network.Denied {
		out.Facts["network"] = "denied"
	}
	out.Dependencies = []Dependency{{Name: "corpus/fixtures", Digest: godigest.FromBytes(fixtures)}}
	report, err := reloadReport(ctx, artifact, network, method, outside, answer)
	if err != nil {
		return out, err
	}
	report.Metric("elapsed", "nanoseconds", float64(run.Now().Sub(start).Nanoseconds()))
	out.Reports = []kernels.Report{report}
	out.Verdict = schemas.Verdict(report.Verdict)
	if report.Verdict != kernels.Passed {
		out.Failure = failureOf(report)
		if report.Verdict == kernels.Undecided && !network.Denied {
			out.Failure = "the network could not be denied to the reload: " + network.Statement
		}
	}
	return out, nil
}

// ask runs the child and reads its answer.
func (s Reload) ask(ctx context.Context, job reloadJob) (answer *reloadAnswer, b *boxed, err error) {
	start := s.command
	if start == nil {
		start = box
	}
	if b, err = start(ctx, job.Path, ReloadVerb); err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	job.Path = b.path
	body, err := json.Marshal(job)
	if err != nil {
		return nil, b, err
	}
	stdout, stderr := &limitedBuffer{limit: maxChildAnswer}, &limitedBuffer{limit: maxChildWords}
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = bytes.NewReader(body), stdout, stderr
	if err := b.cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, b, fmt.Errorf("reload in a fresh process (%s): %w: %s", b.method, err, strings.TrimSpace(string(stderr.kept)))
	}
	if stdout.cut {
		return nil, b, fmt.Errorf("reload: the child answered more than %d bytes", maxChildAnswer)
	}
	dec := json.NewDecoder(bytes.NewReader(stdout.kept))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&answer); err != nil {
		return nil, b, fmt.Errorf("reload: the child's answer: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, b, errors.New("reload: the child's answer goes on after its end")
	}
	if answer == nil {
		return nil, b, errors.New("reload: the child's answer is empty")
	}
	return answer, b, nil
}
