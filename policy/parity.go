package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
)

// parityKernel compares two tokenizers case by case.
const parityKernel = "token parity"

// factSides names what a parity run compared.
const factSides = "sides"

// ruleParity wants the publisher's tokenizer and the artifact's to have agreed on
// so many cases, all of them. The vocabulary that was compared is the
// artifact's, or one that the path's converter made of the path's source: the
// very same patched tree. Where a derivation left keys of the tokenizer to the
// comparison, what was compared is the artifact's by its digest.
func ruleParity(in *inquiry) []Reason {
	const what = "tokenizer parity"
	want := fmt.Sprintf("no mismatch in at least %d cases", in.policy.Parity.Cases)
	var reasons []Reason
	var compared []string
	for _, run := range in.parities {
		judged := in.judgeParity(what, want, run)
		reasons = append(reasons, judged...)
		if slices.ContainsFunc(judged, func(r Reason) bool { return r.Verdict != schemas.Passed }) {
			continue
		}
		if res, err := run.Result(in.ev.Objects); err == nil && res.Facts[schemas.FactTokenizer] != "" {
			compared = append(compared, res.Facts[schemas.FactTokenizer])
		}
	}
	if len(reasons) == 0 {
		reasons = []Reason{undecided(what, "no claim about a vocabulary of this path's", want)}
	}
	return append(reasons, in.comparedTokenizers(compared)...)
}

// findParity collects every parity run over the path's source and a vocabulary of the path's.
func (in *inquiry) findParity() {
	source, have := in.source()
	for _, run := range in.runs {
		if have && run.Uses == "parity" && run.takes(source) && in.vocabularyOf(run, source) {
			in.use(run)
			in.parities = append(in.parities, run)
		}
	}
}

// vocabularyOf tells whether one of a parity run's inputs is the artifact, was
// made on its path, or was converted from its source by its path's converter.
func (in *inquiry) vocabularyOf(run *Run, source godigest.Digest) bool {
	return slices.ContainsFunc(run.Inputs, func(i NamedDigest) bool {
		if i.Digest == source {
			return false
		}
		if i.Digest == in.q.Artifact || in.onPath(i.Digest) {
			return true
		}
		made := in.makerOf(i.Digest, "convert")
		if made == nil || !made.takes(source) {
			return false
		}
		same := slices.ContainsFunc(in.path, func(p *Run) bool {
			return p != nil && p.Uses == "convert" && converterOf(p) == converterOf(made) && converterOf(p) != ""
		})
		if same {
			in.use(made)
		}
		return same
	})
}

// converterOf is the tree that a convert run was given to convert with, empty for this program.
func converterOf(run *Run) godigest.Digest {
	for _, i := range run.Inputs {
		if i.Name == "converter" {
			return i.Digest
		}
	}
	return ""
}

func (in *inquiry) judgeParity(what, want string, run *Run) []Reason {
	sig := in.signed(run.Uses, run.Claims)
	if sig.Verdict != schemas.Passed {
		return []Reason{sig}
	}
	reports, err := run.Reports(in.ev.Objects)
	if err != nil {
		return []Reason{undecided(what, err.Error(), want).from(run.PAE())}
	}
	res, err := run.Result(in.ev.Objects)
	if err != nil {
		return []Reason{undecided(what, err.Error(), want).from(run.PAE())}
	}
	// A server answers for a file that nobody can name: it may be one side more, never the file's.
	sides := strings.Split(res.Facts[factSides], ", ")
	if !slices.Contains(sides, "publisher") || !slices.Contains(sides, "vocabulary") && !slices.Contains(sides, "tool") {
		return []Reason{undecided(what, "it compared "+cmp.Or(res.Facts[factSides], "nobody knows what"), "the publisher's tokenizer with the file's vocabulary, or with a tool that read the file").from(run.PAE())}
	}
	var reasons []Reason
	for _, rep := range reports {
		if rep.Kernel != parityKernel {
			continue
		}
		r := judgeVerdict(what, run, rep)
		cases, counted := metricOf(rep, "cases")
		mismatches, compared := metricOf(rep, "mismatches")
		switch {
		case r.Verdict != schemas.Passed:
		case !counted || !compared:
			r = undecided(what, "its cases or mismatches are not counted", want).from(run.PAE())
		case mismatches != 0 || cases < float64(in.policy.Parity.Cases):
			r = failed(what, fmt.Sprintf("%s mismatches in %s cases", number(mismatches), number(cases)), want, run.PAE())
		default:
			r = passed(what, number(cases)+" cases agree", want, run.PAE())
		}
		reasons = append(reasons, r)
	}
	if len(reasons) == 0 {
		return []Reason{undecided(what, "no report of kernel "+parityKernel, want).from(run.PAE())}
	}
	return reasons
}

func metricOf(rep schemas.Report, name string) (float64, bool) {
	for _, m := range rep.Metrics {
		if m.Name == name {
			return m.Value, true
		}
	}
	return 0, false
}
