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
	own := 0
	for _, d := range run.tools() {
		maker := slices.IndexFunc(makers, func(m *Run) bool { return m.makes(d.Digest) })
		switch {
		case d.Digest == "":
			reasons = append(reasons, undecided(what, d.Name+" without a sha256", want).from(run.PAE()))
		case maker >= 0:
			own++
		case slices.Contains(in.policy.Built.Environment, d.Digest.String()):
		case slices.Contains(in.policy.Built.Environment, unpinned) && makers[0].Uses == "patch": // beside a script, never in the place of a binary
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
	patched := run
	if run.Uses == "build" {
		patched = nil
		for _, input := range run.Inputs {
			if p := in.makerOf(input.Digest, "patch"); p != nil {
				patched = p
			}
		}
		if patched == nil {
			return []Reason{undecided(what, "no patch run made its source", want).from(run.PAE())}
		}
		if !in.sound(patched) {
			return []Reason{failed(what, patched.name()+" is not signed as the policy wants, or did not pass", "a passed patch run", patched.PAE())}
		}
	}
	var source schemas.ToolSource
	for _, d := range patched.Needs {
		switch {
		case strings.HasPrefix(d.Name, "source/"):
			if source.Commit != "" && source.Commit != d.Commit {
				return []Reason{failed(what, "two commits", "one", patched.PAE())}
			}
			source.Commit = d.Commit
		case strings.HasPrefix(d.Name, "patch/"):
			source.Patches = append(source.Patches, d.Digest)
		}
	}
	if source.Commit == "" {
		return []Reason{undecided(what, "no commit is named", want).from(patched.PAE())}
	}
	for _, s := range in.policy.Built.Sources {
		if s.Commit == source.Commit && sameSet(s.Patches, source.Patches) {
			return []Reason{passed(what, sourceName(source), want, patched.PAE())}
		}
	}
	return []Reason{failed(what, sourceName(source), want, patched.PAE())}
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
