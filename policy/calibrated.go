package policy

import (
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
)

// calibrationKernel is the kernel whose report finalizes an importance matrix.
const calibrationKernel = "calibration"

// matrixRole is the role under which a run takes an importance matrix.
const matrixRole = "imatrix"

// ruleCalibrated wants every importance matrix that went into the artifact to be
// finalized: its calibrate run passed, and a passed report binds it to the very
// model, corpus and binary that the run took. The corpus is one that the policy
// names, under a licence that it allows.
func ruleCalibrated(in *inquiry) []Reason {
	const what, want = "importance matrix", "one from a passed calibrate run whose report binds model, corpus and binary"
	var reasons []Reason
	for _, run := range in.side {
		if run.Uses == "calibrate" {
			reasons = append(reasons, in.judgeCalibration("importance matrix of "+run.name(), want, run)...)
		}
	}
	for _, run := range append(slices.Clone(in.path), in.side...) {
		if run == nil {
			continue
		}
		for _, input := range run.Inputs {
			if input.Name == matrixRole && in.makerOf(input.Digest, "calibrate") == nil {
				reasons = append(reasons, failed("importance matrix of "+run.name(), input.Digest.String()+", which no calibrate run made", want, run.PAE()))
			}
		}
	}
	if len(reasons) > 0 {
		return reasons
	}
	if slices.Contains(in.class.Side, "calibrate") || len(in.pathFaults) > 0 {
		return []Reason{undecided(what, "no run of the chain took one", want)}
	}
	return []Reason{passed(what, "none: the class takes none", want, "")}
}

func (in *inquiry) judgeCalibration(what, want string, run *Run) []Reason {
	if !in.sound(run) {
		return []Reason{failed(what, "its run is not signed as the policy wants, or did not pass: a candidate", want, run.PAE())}
	}
	corpora := run.digestsOf("corpus/")
	if len(corpora) == 0 {
		return []Reason{undecided(what, "it names no corpus", want).from(run.PAE())}
	}
	var reasons []Reason
	for _, d := range corpora {
		reasons = append(reasons, in.judgeCorpus(d, run))
	}
	reports, err := run.Reports(in.ev.Objects)
	if err != nil {
		return append(reasons, undecided(what, err.Error(), want).from(run.PAE()))
	}
	count := 0
	for _, rep := range reports {
		if rep.Kernel != calibrationKernel {
			continue
		}
		count++
		reasons = append(reasons, in.judgeBinding(what, want, run, rep, corpora))
	}
	if count == 0 {
		reasons = append(reasons, undecided(what, "no report of kernel "+calibrationKernel, want).from(run.PAE()))
	}
	return reasons
}

// judgeBinding wants a report over the run's own model and corpus, and over a tool that it ran.
func (in *inquiry) judgeBinding(what, want string, run *Run, rep schemas.Report, corpora []godigest.Digest) Reason {
	over := func(d godigest.Digest) bool {
		return d != "" && slices.ContainsFunc(rep.Inputs, func(i schemas.Input) bool { return i.Digest == d })
	}
	model := slices.ContainsFunc(run.Inputs, func(i NamedDigest) bool { return in.ofPath(i) && over(i.Digest) })
	binary := slices.ContainsFunc(run.digestsOf("tool/"), over)
	switch {
	case !model:
		return failed(what, "a report that binds another model", want, run.PAE())
	case !slices.ContainsFunc(corpora, over):
		return failed(what, "a report that binds another corpus", want, run.PAE())
	case !binary:
		return failed(what, "a report that binds another binary", want, run.PAE())
	}
	return judgeVerdict(what, run, rep)
}

// judgeCorpus wants a corpus that the policy names, under an allowed licence.
func (in *inquiry) judgeCorpus(d godigest.Digest, run *Run) Reason {
	const what = "calibration corpus"
	var names []string
	for _, c := range in.policy.Calibrated.Corpora {
		names = append(names, c.Digest.String())
		if c.Digest != d {
			continue
		}
		res, err := run.Result(in.ev.Objects)
		if said := res.Facts[factCorpusLicence]; err == nil && said != "" && said != "absent" && !strings.EqualFold(said, c.Licence) { // licence identifiers have no case (SPDX, annex on expressions)
			return failed(what, d.String()+" under "+said, "under "+c.Licence, run.PAE())
		}
		return passed(what, d.String()+" under "+c.Licence, "one that the policy names", run.PAE())
	}
	return failed(what, d.String(), strings.Join(names, " or "), run.PAE())
}

// factCorpusLicence is the licence of the corpus as the pipeline states it.
const factCorpusLicence = "corpus-licence"

// digestsOf gives the digests of the dependencies of a role, but this program's.
func (r *Run) digestsOf(role string) []godigest.Digest {
	var list []godigest.Digest
	for _, d := range r.Needs {
		if strings.HasPrefix(d.Name, role) && d.Name != selfName && d.Digest != "" {
			list = append(list, d.Digest)
		}
	}
	return list
}
