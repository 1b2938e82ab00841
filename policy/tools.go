package policy

import (
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// toolStages are the stage types whose work another program may do. What is left
// out here either runs nothing but this program, or makes no part of an artifact.
var toolStages = []string{"exec", "build", "convert", "quantize", "calibrate", "parity"}

// alwaysTools never do their work themselves.
var alwaysTools = []string{"exec", "build", "calibrate"}

// selfName is this program as a dependency of every run.
const selfName = "tool/weighmaster"

// tools are the programs, the lock of their packages and the libraries that a run names, but this program.
func (r *Run) tools() []Dependency {
	var list []Dependency
	for _, d := range r.Needs {
		if (strings.HasPrefix(d.Name, "tool/") || strings.HasPrefix(d.Name, "library/")) && d.Name != selfName {
			list = append(list, d)
		}
	}
	return list
}

// ranTool tells whether a program other than this one did the work. A run that
// was given one, or that says in which box it ran, is held to have run it, whatever it names.
func (in *inquiry) ranTool(run *Run) bool {
	if !slices.Contains(toolStages, run.Uses) {
		return false
	}
	if slices.Contains(alwaysTools, run.Uses) || len(run.tools()) > 0 {
		return true
	}
	if res, err := run.Result(in.ev.Objects); err == nil && res.Facts[schemas.FactBox] != "" {
		return true
	}
	return slices.ContainsFunc(run.Inputs, func(i NamedDigest) bool { return i.Name == "runtime" || i.Name == "converter" })
}

// toolRuns are the runs that the decision rests on in which a tool did the work, in log order.
func (in *inquiry) toolRuns() []*Run {
	return slices.DeleteFunc(in.usedRuns(), func(r *Run) bool { return !in.ranTool(r) })
}

// wantsTools tells whether artifacts of the class are made by tools that were built for it.
func (in *inquiry) wantsTools() bool {
	return slices.Contains(in.class.Side, "build") || slices.Contains(in.class.Side, "patch") || slices.Contains(in.class.Made, "exec")
}

// noTools is the answer of a rule about tools over a chain that used none.
func (in *inquiry) noTools(want string) []Reason {
	if in.wantsTools() || len(in.pathFaults) > 0 {
		return []Reason{undecided("tools", "no run of the chain names one", want)}
	}
	return []Reason{passed("tools", "none: this program did all the work", want, "")}
}
