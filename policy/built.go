package policy

import (
	"fmt"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
)

// unpinned lets in any tool beside those that were built.
const unpinned = "unpinned"

// ruleBuilt wants every tool that made a part of the artifact, and every library
// that it loaded, to have come out of a build of a source that the policy names:
// the commit, and the patches, all of them. A script may be run from the patched tree itself.
func ruleBuilt(in *inquiry) []Reason {
	const want = "products of a passed build of a source that the policy names"
	var reasons []Reason
	count := 0
	for _, run := range in.toolRuns() {
		if run.Uses == "build" { // its compilers are the machine's
			continue
		}
		count++
		reasons = append(reasons, in.judgeBuilt(run, want)...)
	}
	if count == 0 {
		return in.noTools(want)
	}
	return reasons
}

func (in *inquiry) judgeBuilt(run *Run, want string) []Reason {
	var reasons []Reason
	var makers []*Run
	for _, input := range run.Inputs {
		maker := in.makerOf(input.Digest, "build", "patch")
		if maker == nil || slices.Contains(makers, maker) {
			continue
		}
		makers = append(makers, maker)
		reasons = append(reasons, in.judgeSource(maker)...)
	}
	what := "tools of " + run.name()
	if len(makers) == 0 {
		return append(reasons, failed(what, "none of its inputs is a build or a patched source", want, run.PAE()))
	}
	// Beside a script, never in the place of a binary: what a build made is no script.
	script := !slices.ContainsFunc(makers, func(m *Run) bool { return m.Uses != "patch" }) && run.Uses == "convert"
	own := 0
	for _, d := range run.tools() {
		maker := slices.IndexFunc(makers, func(m *Run) bool { return m.makes(d.Digest) })
		switch {
		case d.Digest == "":
			reasons = append(reasons, undecided(what, d.Name+" without a sha256", want).from(run.PAE()))
		case maker >= 0:
			own++
		case slices.Contains(in.policy.Built.Environment, d.Digest.String()):
		case slices.Contains(in.policy.Built.Environment, unpinned) && script:
		default:
			reasons = append(reasons, failed(what, fmt.Sprintf("%s %s, which %s did not make", d.Name, d.Digest, makers[0].name()), want, run.PAE()))
		}
	}
	switch {
	case own == 0:
		reasons = append(reasons, undecided(what, "it names no tool of "+makers[0].name(), want).from(run.PAE()))
	default:
		reasons = append(reasons, passed(what, fmt.Sprintf("%d of %s", own, makers[0].name()), want, run.PAE()))
	}
	return reasons
}

// judgeSource follows a build, or a patched tree, to the commit and patches that it came from.
func (in *inquiry) judgeSource(run *Run) []Reason {
	what := "source of " + run.name()
	want := in.sources()
	if !in.sound(run) {
		return []Reason{failed(what, "it is not signed as the policy wants, or did not pass", "a passed "+run.Uses+" run", run.PAE())}
	}
	if run.Uses != "build" {
		return []Reason{in.judgeCommit(what, want, run)}
	}
	var reasons []Reason
	for _, input := range run.Inputs { // each: one good source does not make good what came along
		p := in.makerOf(input.Digest, "patch")
		switch {
		case p == nil:
			reasons = append(reasons, undecided(what, "no patch run made its input "+input.Name, want).from(run.PAE()))
		case !in.sound(p):
			reasons = append(reasons, failed(what, p.name()+" is not signed as the policy wants, or did not pass", "a passed patch run", p.PAE()))
		default:
			reasons = append(reasons, in.judgeCommit(what, want, p))
		}
	}
	if len(reasons) == 0 {
		return []Reason{undecided(what, "no patch run made its source: it has none", want).from(run.PAE())}
	}
	return reasons
}

// judgeCommit holds the commit and the patches of a patch run against the policy.
func (in *inquiry) judgeCommit(what, want string, patched *Run) Reason {
	var source schemas.ToolSource
	for _, d := range patched.Needs {
		switch {
		case strings.HasPrefix(d.Name, "source/"):
			if source.Commit != "" && source.Commit != d.Commit {
				return failed(what, "two commits", "one", patched.PAE())
			}
			source.Commit = d.Commit
		case strings.HasPrefix(d.Name, "patch/"):
			source.Patches = append(source.Patches, d.Digest)
		}
	}
	if source.Commit == "" {
		return undecided(what, "no commit is named", want).from(patched.PAE())
	}
	for _, s := range in.policy.Built.Sources {
		if s.Commit == source.Commit && sameSet(s.Patches, source.Patches) {
			return passed(what, sourceName(source), want, patched.PAE())
		}
	}
	return failed(what, sourceName(source), want, patched.PAE())
}

func (in *inquiry) sources() string {
	var list []string
	for _, s := range in.policy.Built.Sources {
		list = append(list, sourceName(s))
	}
	return strings.Join(list, ", or ")
}

func sourceName(s schemas.ToolSource) string {
	if len(s.Patches) == 0 {
		return "commit " + s.Commit + " without a patch"
	}
	return fmt.Sprintf("commit %s with patches %v", s.Commit, s.Patches)
}

func sameSet(a, b []godigest.Digest) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}
