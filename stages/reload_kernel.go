package stages

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/kernels/evaluate"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// Kinds of fault that the reload kernel finds.
const (
	faultNetwork = "open network"
	faultAnswer  = "wrong answer"
	faultReread  = "other bytes"
	faultParity  = "token parity"
)

// ReloadKernel describes the reload of delivered bytes.
func ReloadKernel() kernels.Kernel {
	return kernels.Kernel{
		Name: "reload", Version: "1.0.0", Spec: evaluate.FixturesSchema,
		Summary: "the delivered bytes, hashed again, loaded and answering in a fresh process without network",
		Limits:  reloadLimits(),
		Gates:   []kernels.Gate{{Metric: "prompts", Unit: "prompts", Compare: kernels.AtLeast, Value: 1}, {Metric: "parity_mismatches", Unit: "prompts", Compare: kernels.Equal, Value: 0}},
		Faults:  []string{faultNetwork, faultAnswer, faultReread, faultParity},
		SelfCheck: func(ctx context.Context) (kernels.Report, error) {
			r := ReloadKernel().NewReport()
			out := []isolation.Attempt{{Address: "beacon", Result: "connected"}}
			plantNetwork(&r.Controls, isolation.Seccomp, out)
			if err := plantReread(ctx, &r.Controls, bytes.NewReader([]byte("delivered")), 9); err != nil {
				return r, err
			}
			sample, err := evaluate.Kernel().SelfCheck(ctx)
			if err != nil {
				return r, err
			}
			plantAnswers(&r.Controls, sample.Controls)
			var a reloadAnswer
			a.parity(evaluate.Fixtures{Fixtures: []evaluate.Fixture{{ID: "sample", PromptIDs: []uint32{1}}}}, func(string, bool) []uint32 { return []uint32{1} })
			r.Controls.Add(a.Control)
			r.Metric("prompts", "prompts", 1)
			r.Metric("parity_mismatches", "prompts", float64(len(a.Parity)))
			return r, r.Finish()
		},
	}
}

// reloadReport judges what the child said.
func reloadReport(ctx context.Context, artifact Artifact, network isolation.Verdict, m isolation.Method, outside []isolation.Attempt, a *reloadAnswer) (kernels.Report, error) {
	r := ReloadKernel().NewReport()
	r.Inputs = []kernels.Input{{Name: "artifact", Digest: artifact.Digest, Size: artifact.Files[0].Sums.Size}}
	if a.Digest != artifact.Digest {
		r.Find(kernels.Finding{Check: "digest", Where: artifact.Name, Got: a.Digest.String(), Want: artifact.Digest.String(), Hint: "the file changed after it was delivered"})
	}
	for _, x := range append(append([]kernels.Finding{}, a.Report.Findings...), a.Parity...) {
		r.Find(x)
	}
	r.FindingsOmitted += a.Report.FindingsOmitted
	if a.Report.Kernel != evaluate.Kernel().Name || a.Prompts == 0 {
		r.Find(kernels.Finding{Check: "answers", Where: artifact.Name, Got: fmt.Sprintf("a report of %q over %d prompts", a.Report.Kernel, a.Prompts), Want: "answers to fixtures"})
	}
	r.Metrics = append(r.Metrics, a.Report.Metrics...)
	r.Metric("prompts", "prompts", float64(a.Prompts))
	r.Metric("parity_mismatches", "prompts", float64(len(a.Parity)))
	plantNetwork(&r.Controls, m, outside)
	plantAnswers(&r.Controls, a.Report.Controls)
	r.Controls.Add(a.Control)
	f, err := os.Open(artifact.Path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if err := plantReread(ctx, &r.Controls, f, artifact.Files[0].Sums.Size); err != nil {
		return r, err
	}
	if err := r.Finish(); err != nil {
		return r, err
	}
	if !network.Denied && r.Verdict == kernels.Passed {
		r.Verdict = kernels.Undecided
	}
	return r, nil
}

// plantNetwork gives the judge of the box what a process without a box reports.
func plantNetwork(c *kernels.Controls, m isolation.Method, outside []isolation.Attempt) {
	open := append([]isolation.Attempt{}, outside...)
	open = append(open, isolation.Attempt{Address: isolation.Outside, Result: "timeout"})
	for _, p := range []struct {
		name   string
		inside []isolation.Attempt
	}{
		{"the attempt outside the box, called inside", open},
		{"nothing tried", nil},
	} {
		v := isolation.Judge(m, outside, p.inside)
		c.Add(kernels.ControlResult{Name: p.name, Fault: faultNetwork, Red: !v.Denied, Detail: v.Statement})
	}
}

// plantAnswers takes over the faults that the evaluate kernel planted in the child.
func plantAnswers(c *kernels.Controls, planted kernels.Controls) {
	for _, p := range planted.Results {
		p.Name, p.Fault = p.Fault+": "+p.Name, faultAnswer
		c.Add(p)
	}
}

// plantReread flips one bit of the file's start, in a view of it, and hashes both.
func plantReread(ctx context.Context, c *kernels.Controls, r io.ReaderAt, size int64) error {
	n := min(size, sampleBytes)
	var digests [2]godigest.Digest
	var b [1]byte
	if _, err := r.ReadAt(b[:], n/2); err != nil {
		return err
	}
	views := []io.ReaderAt{r, kernels.Overlay{R: r, Patches: []kernels.Patch{{Offset: n / 2, Bytes: []byte{b[0] ^ 1}}}}}
	for i, v := range views {
		d, err := digest.SHA256(ctx, v, n)
		if err != nil {
			return err
		}
		digests[i] = d
	}
	c.Add(kernels.ControlResult{Name: "one bit of the delivered file flipped", Fault: faultReread, Red: digests[0] != digests[1], Detail: digests[1].String() + " for " + digests[0].String()})
	return nil
}
