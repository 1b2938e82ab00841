package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/fixtures"
)

// ownTools and llamaCpp are who may do the work in a new project.
const (
	ownTools = "built-in"
	llamaCpp = "llama.cpp"
)

var deviceForm = regexp.MustCompile(`^(CPU|[A-Z]{2,8}[0-9]{1,3}(,[A-Z]{2,8}[0-9]{1,3})*)$`)

// documents are the files of a new project besides its trust file, by name below it.
func (o initOptions) documents(replace *strings.Replacer) (map[string]string, error) {
	switch {
	case o.Tools == ownTools && (o.Device != "CPU" || o.Rented != ""):
		return nil, usage("--device and --rented: they are for --tools %s; the built-in stages use no device and rent nothing", llamaCpp)
	case o.Tools == ownTools:
		return map[string]string{pipelineFile: replace.Replace(fixtures.Pipeline), policyFile: replace.Replace(fixtures.Policy)}, nil
	case o.Tools != llamaCpp:
		return nil, usage("--tools: got %q, want %s or %s", o.Tools, ownTools, llamaCpp)
	case !deviceForm.MatchString(o.Device):
		return nil, usage("--device: got %q, want CPU, or devices as llama.cpp names them: CUDA0 or CUDA0,CUDA1", o.Device)
	case o.Rented != "" && o.Rented != "azure":
		return nil, usage("--rented: got %q, want azure, or nothing for a machine of your own", o.Rented)
	}
	pipeline, err := o.pipeline()
	if err != nil {
		return nil, err
	}
	values := strings.NewReplacer(
		"@COMMIT@", theCommit, "@PATCH@", godigest.FromBytes(fixtures.ToolsPatch).String(), "@CORPUS@", godigest.FromBytes(fixtures.ToolsCorpus).String(),
		"@DEVICES@", strings.ReplaceAll(o.Device, ",", ", "), "@RELEASED@", map[bool]string{true: "released, "}[o.Rented != ""],
	)
	return map[string]string{
		pipelineFile: replace.Replace(pipeline), policyFile: values.Replace(replace.Replace(o.lines(fixtures.ToolsPolicy))),
		"patches/tokenizer.patch": string(fixtures.ToolsPatch), "calibration/corpus.txt": string(fixtures.ToolsCorpus),
	}, nil
}

// theCommit stands where only the producer knows from which source the tools are to be built.
const theCommit = `"EDIT(the full commit of llama.cpp, 40 hex digits)"`

var commitForm = regexp.MustCompile(`commit: [0-9a-f]{40}`)

// pipeline is the template with the device and the rented machine of this project.
func (o initOptions) pipeline() (string, error) {
	text := commitForm.ReplaceAllString(fixtures.ToolsPipeline, "commit: "+theCommit)
	swaps := [][2]string{}
	if o.Device != "CPU" {
		swaps = append(swaps, [][2]string{
			{"          - -DGGML_NATIVE=OFF", "          - -DGGML_CUDA=ON\n          - -DCMAKE_CUDA_COMPILER={root/cuda}/bin/nvcc\n          - -DGGML_NATIVE=OFF"},
			{"{roots: [{name: ccache, path: ccache, write: true}]}", `{roots: [{name: ccache, path: ccache, write: true}, {name: cuda, path: "EDIT(folder of the CUDA toolkit, e.g. /usr/local/cuda)"}]}`},
			{"  - {name: box-probed, uses: isolate}\n", "  - {name: box-probed, uses: isolate}\n  - {name: box-with-gpu-probed, uses: isolate, with: {box: {admit: [gpu]}}}\n"},
			{"chunkSize: 128}", `chunkSize: 128, device: "` + o.Device + `", arguments: [-ngl, "99"], box: {admit: [gpu]}}`},
		}...)
	}
	if o.Rented != "" {
		swaps = append(swaps, [2]string{"  # - {name: compute-released, uses: release, with: {vm: compute.yaml,", `  - {name: compute-released, uses: release, with: {vm: "EDIT(private file of schema compute/v1 that names the rented machine)",`})
	}
	for _, s := range swaps {
		if n := strings.Count(text, s[0]); n != 1 {
			return "", fmt.Errorf("the pipeline's template has %d of %q, want one", n, s[0])
		}
		text = strings.Replace(text, s[0], s[1], 1)
	}
	return text, nil
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
