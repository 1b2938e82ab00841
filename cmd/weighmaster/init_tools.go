package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/fixtures"
)

// ownTools and llamaCpp are who may do the work in a new project.
const (
	ownTools = "built-in"
	llamaCpp = "llama.cpp"
)

var deviceForm = regexp.MustCompile(`^(CPU|[A-Z]{2,8}[0-9]{1,3}(,[A-Z]{2,8}[0-9]{1,3})*)$`)

// documents are the pipeline and the policy of a new project.
func (o initOptions) documents(replace *strings.Replacer) (pipeline, policy string, err error) {
	switch {
	case o.Tools == ownTools && (o.Device != "CPU" || o.Rented != ""):
		return "", "", usage("--device and --rented: they are for --tools %s; the built-in stages use no device and rent nothing", llamaCpp)
	case o.Tools == ownTools:
		return replace.Replace(fixtures.Pipeline), replace.Replace(fixtures.Policy), nil
	case o.Tools != llamaCpp:
		return "", "", usage("--tools: got %q, want %s or %s", o.Tools, ownTools, llamaCpp)
	case !deviceForm.MatchString(o.Device):
		return "", "", usage("--device: got %q, want CPU, or devices as llama.cpp names them: CUDA0 or CUDA0,CUDA1", o.Device)
	case o.Rented != "" && o.Rented != "azure":
		return "", "", usage("--rented: got %q, want azure, or nothing for a machine of your own", o.Rented)
	}
	device := strings.NewReplacer("@DEVICE@", o.Device, "@DEVICES@", strings.ReplaceAll(o.Device, ",", ", "), "@RELEASED@", map[bool]string{true: "released, "}[o.Rented != ""])
	fill := func(text string) string { return device.Replace(replace.Replace(o.lines(text))) }
	return fill(fixtures.ToolsPipeline), fill(fixtures.ToolsPolicy), nil
}

// lines keeps the lines of a template that are for every project, or for this one.
func (o initOptions) lines(text string) string {
	wanted := map[string]bool{"#cpu:": o.Device == "CPU", "#gpu:": o.Device != "CPU", "#rented:": o.Rented != ""}
	var kept []string
	for line := range strings.Lines(text) {
		for mark, want := range wanted {
			if rest, marked := strings.CutPrefix(line, mark); marked && want {
				line = rest
			} else if marked {
				line = ""
			}
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "")
}

// editMark marks a value that only the producer knows.
var editMark = regexp.MustCompile(`EDIT\(([^)]*)\)`)

// unedited refuses a document in which values are left to be filled in, all of them with their lines.
func unedited(path string, body []byte) error {
	var list []string
	n := 0
	for line := range strings.Lines(string(body)) {
		n++
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, m := range editMark.FindAllStringSubmatch(line, -1) {
			list = append(list, fmt.Sprintf("%s:%d: fill in %s", filepath.Base(path), n, m[1]))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return usage("%s has values that only you know:\n  %s", path, strings.Join(slices.Compact(list), "\n  "))
}
