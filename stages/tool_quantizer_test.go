package stages

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// made keeps the bytes that several tests start from.
var made sync.Map // by name

// exampleModel is the example snapshot as BF16, in a file of the test's own.
func exampleModel(t *testing.T) Artifact {
	t.Helper()
	return onceMade(t, "model.gguf", func() (*Outcome, error) {
		return runStage(t, Convert{}, `{"type":"BF16","file":"model.gguf"}`, map[string]Artifact{"snapshot": exampleSnapshot(t)})
	})
}

// onceMade makes a file once and then copies it.
func onceMade(t *testing.T, name string, make func() (*Outcome, error)) Artifact {
	t.Helper()
	body, ok := made.Load(name)
	if !ok {
		out, err := make()
		if err != nil || out.Verdict != schemas.Passed {
			t.Fatalf("%v %+v", err, out)
		}
		read, err := os.ReadFile(out.Output.Path)
		if err != nil {
			t.Fatal(err)
		}
		made.Store(name, read)
		body = read
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, body.([]byte), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := readFile(t.Context(), name, path)
	if err != nil {
		t.Fatal(err)
	}
	return FileArtifact(f)
}

func folderOf(t *testing.T, name, dir string) Artifact {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := FolderArtifact(t.Context(), name, dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// scriptRuntime is a build whose llama-quantize is a shell script: $1 is the
// model, $2 the output. Beside it lies the product that it should make, good.gguf.
func scriptRuntime(t *testing.T, script string, good Artifact) Artifact {
	t.Helper()
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"bin/llama-quantize": "#!/bin/sh\ngood=${0%/*}/good.gguf\n" + script + "\n"})
	if err := os.Chmod(filepath.Join(dir, "bin", "llama-quantize"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(good.Path, filepath.Join(dir, "bin", "good.gguf")); err != nil {
		t.Fatal(err)
	}
	return folderOf(t, "runtime", dir)
}

func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, body := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(body), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// quantized is the example model, and what a quantizer should make of it.
type quantized struct{ model, good Artifact }

func exampleProducts(t *testing.T) quantized {
	t.Helper()
	needBox(t)
	model := exampleModel(t)
	return quantized{model, onceMade(t, "good.gguf", func() (*Outcome, error) {
		return runStage(t, Quantize{}, `{"type":"Q8_0","file":"good.gguf"}`, map[string]Artifact{"model": model})
	})}
}

// run is a run of the stage, on files of its own, with a script for a program.
func (p quantized) run(t *testing.T, script string, with map[string]any) *Run {
	t.Helper()
	all := map[string]any{"type": "Q8_0", "file": "q.gguf"}
	for k, v := range with {
		all[k] = v
	}
	run := newRun(t, "q8", all)
	if err := schemas.StageParameters("quantize", run.With); err != nil {
		t.Fatal(err)
	}
	run.Inputs = map[string]Artifact{"model": copyOf(t, p.model), "runtime": scriptRuntime(t, script, copyOf(t, p.good))}
	return run
}

func copyOf(t *testing.T, a Artifact) Artifact {
	t.Helper()
	body, err := os.ReadFile(a.Path)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), a.Name)
	if err := os.WriteFile(path, body, 0o644); err != nil {
		t.Fatal(err)
	}
	return FileArtifact(File{Name: a.Name, Path: path, Sums: a.Files[0].Sums})
}

func TestAnExternalQuantizerIsBelievedForWhatItWrote(t *testing.T) {
	run := exampleProducts(t).run(t, `echo "$@"; cp $good $2`, map[string]any{"threads": 3})
	out, err := Quantize{}.Run(t.Context(), run)
	if err != nil || out.Verdict != schemas.Passed {
		t.Fatalf("%v %+v", err, out)
	}
	if st, err := os.Stat(out.Output.Path); err != nil || st.Mode().Perm() != 0o444 || filepath.Base(out.Output.Path) != "q.gguf" {
		t.Errorf("%v %v", st, err)
	}
	if onDisk(run.Dir, "q.gguf.partial") {
		t.Error("the partial file is still there")
	}
	if got := logOf(t, run, out, "log/stdout"); !strings.HasSuffix(got, ".partial Q8_0 3\n") {
		t.Errorf("its arguments: %q", got)
	}
	ran, err := json.Marshal(out.Internal)
	if err != nil || !strings.Contains(string(ran), `"program":"{input/runtime}/bin/llama-quantize"`) || !strings.Contains(string(ran), `"{out}/q.gguf.partial"`) || strings.Contains(string(ran), os.TempDir()) {
		t.Errorf("recorded with a path of this machine, or without what ran: %s %v", ran, err)
	}
	if out.Facts["type"] != "Q8_0" || out.Facts[schemas.FactBox] == "" || out.Facts[schemas.FactNetwork] != schemas.NetworkDenied {
		t.Errorf("facts %v", out.Facts)
	}
	if out.Dependencies[0].Name != "tool/llama-quantize" || out.Dependencies[1].Name != "tool/sh" {
		t.Errorf("dependencies %+v", out.Dependencies)
	}
	before, err := Quantize{}.Resolve(t.Context(), run)
	if err != nil || len(before) != len(out.Dependencies) || before[0] != out.Dependencies[0] {
		t.Errorf("resolved before the run: %+v %v", before, err)
	}
}

// TestAnExternalQuantizerThatFails: nothing gets the output's name, and what was made stays a candidate.
func TestAnExternalQuantizerThatFails(t *testing.T) {
	example := exampleProducts(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		script string
		with   map[string]any
		want   string
		stays  bool // a partial file
	}{
		"exits 0 and makes nothing":            {"exit 0", nil, "ended with 0, but it made no q.gguf.partial", false},
		"makes it under another name":          {"cp $good ${2%.partial}.new", nil, "it made no q.gguf.partial", false},
		"exits 3 after all was written":        {"cp $good $2; echo out of luck >&2; exit 3", nil, "exit status 3: out of luck", true},
		"is killed half-way":                   {"head -c 1000000 $good > $2; kill -9 $$", nil, "as after signal 9", true},
		"takes too long":                       {"head -c 1000000 $good > $2; sleep 60", map[string]any{"timeout": "1s"}, "ran longer than 1s", true},
		"writes half and exits 0":              {"head -c 1000000 $good > $2", nil, "is not what was asked for", true},
		"writes no GGUF":                       {"echo done > $2", nil, "is not what was asked for", true},
		"writes an empty file":                 {": > $2", nil, "is not what was asked for", true},
		"writes the model again":               {"cp $1 $2", nil, "general.file_type is 32 (BF16), want 7 (Q8_0)", true},
		"writes another type":                  {"cp $good $2", map[string]any{"type": "Q4_K_M"}, "general.file_type is 7 (Q8_0), want 15 (Q4_K_M)", true},
		"writes a link":                        {"cp $good $2.x; ln -s q.gguf.partial.x $2", nil, "is no regular file: got L", true},
		"writes a file with two names":         {"cp $good $2; ln $2 $2.x", nil, "has 2 names, want one", true},
		"writes a pipe":                        {"mkfifo $2", nil, "is no regular file: got p", true},
		"makes a folder":                       {"mkdir $2", nil, "is no regular file: got d", true},
		"writes into the model":                {"echo more >> $1", nil, "cannot create /work/in/model/", false},
		"writes beside its own program":        {"echo more >> $good", nil, "cannot create /work/in/runtime/bin/good.gguf", false},
		"runs what it wrote":                   {"cp /bin/true $2; chmod +x $2; exec $2", nil, "exit status 126", true},
		"looks at another file of the machine": {"cat " + secret + " > $2", nil, "exit status 1: cat: ", true},
	} {
		t.Run(name, func(t *testing.T) {
			run := example.run(t, c.script, c.with)
			out, err := Quantize{}.Run(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			if out.Verdict != schemas.Failed || !strings.Contains(out.Failure, c.want) || out.Output != nil || out.ExitStatus == 0 {
				t.Errorf("%s, exit status %d: %q; want failed over %q", out.Verdict, out.ExitStatus, out.Failure, c.want)
			}
			if _, err := os.Lstat(filepath.Join(run.Dir, "q.gguf")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("q.gguf: %v, want none", err)
			}
			if _, err := os.Lstat(filepath.Join(run.Dir, "q.gguf.partial")); (err == nil) != c.stays {
				t.Errorf("q.gguf.partial: %v, want it to stay: %v", err, c.stays)
			}
			if len(out.Dependencies) == 0 || len(out.Evidence) != 2 {
				t.Errorf("a failed run keeps its tools and logs: got %v and %v", out.Dependencies, out.Evidence)
			}
		})
	}
}

func TestAnExternalQuantizerIsRefusedBeforeItRuns(t *testing.T) {
	example := exampleProducts(t)
	for name, c := range map[string]struct {
		with   map[string]any
		before func(t *testing.T, run *Run)
		want   string
	}{
		"the output is there":  {nil, func(t *testing.T, run *Run) { writeTree(t, run.Dir, map[string]string{"q.gguf": ""}) }, "a finished file is never written over"},
		"a partial is there":   {nil, func(t *testing.T, run *Run) { writeTree(t, run.Dir, map[string]string{"q.gguf.partial": ""}) }, "a finished file is never written over"},
		"a program that isn't": {map[string]any{"tool": "bin/llama-quantise"}, nil, "has no bin/llama-quantise"},
		"a program above":      {map[string]any{"tool": "../llama-quantize"}, nil, "want one relative to the folder"},
		"no program":           {map[string]any{"tool": "bin/good.gguf"}, nil, "is no program"},
		"a matrix without a calibration": {nil, func(t *testing.T, run *Run) {
			run.Inputs["imatrix"] = exampleMatrix(t, run)
		}, "importance matrix"},
		"a tool without a runtime": {map[string]any{"threads": 2}, func(_ *testing.T, run *Run) { delete(run.Inputs, "runtime") }, "built in, no tool runs"},
		"a tool changed since it was built": {nil, func(t *testing.T, run *Run) {
			writeTree(t, run.Inputs["runtime"].Path, map[string]string{"bin/llama-quantize": "#!/bin/sh\ncp ${0%/*}/good.gguf $2 # and more\n"})
		}, "changed since it was made"},
	} {
		t.Run(name, func(t *testing.T) {
			run := example.run(t, "cp $good $2", c.with)
			if c.before != nil {
				c.before(t, run)
			}
			out, err := Quantize{}.Run(t.Context(), run)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v (%+v), want %q", err, out, c.want)
			}
			if out != nil && out.Output != nil {
				t.Error("it made something")
			}
		})
	}
}

// exampleMatrix is a sound importance matrix of the model that nobody calibrated.
func exampleMatrix(t *testing.T, run *Run) Artifact {
	t.Helper()
	model, matrix := sharedFile(t, "llama-grouped", "BF16.gguf"), sharedFile(t, "llama-grouped", "imatrix.gguf")
	run.Inputs["model"] = model
	return matrix
}

// TestAToolThatIsSwappedWhileItRunsIsFound: whoever swaps a file that was
// hashed, from within or from without, for good or for a moment.
func TestAToolThatIsSwappedWhileItRunsIsFound(t *testing.T) {
	example := exampleProducts(t)
	wait := "; : > ${2%/*}/started; while [ ! -e ${2%/*}/go ]; do sleep 0.01; done"
	for name, c := range map[string]struct {
		script string
		with   map[string]any
		swap   func(t *testing.T, run *Run)
		want   string
	}{
		"by itself, without a box": {`cp $good $2; echo "# more" >> "$0"`, map[string]any{"box": map[string]any{"method": "none"}}, nil, "llama-quantize changed between being hashed and having run"},
		"its program": {"cp $good $2" + wait, nil, func(t *testing.T, run *Run) {
			swapFile(t, filepath.Join(run.Inputs["runtime"].Path, "bin", "llama-quantize"), "#!/bin/sh\n")
		}, "llama-quantize changed between being hashed and having run"},
		"its program, and back": {"cp $good $2" + wait, nil, func(t *testing.T, run *Run) {
			path := filepath.Join(run.Inputs["runtime"].Path, "bin", "llama-quantize")
			if err := os.Rename(path, path+".old"); err != nil {
				t.Error(err)
			}
			swapFile(t, path, "#!/bin/sh\n")
			if err := os.Rename(path+".old", path); err != nil {
				t.Error(err)
			}
		}, "was touched while the command ran"},
		"another file of the build": {"cp $good $2" + wait, nil, func(t *testing.T, run *Run) {
			swapFile(t, filepath.Join(run.Inputs["runtime"].Path, "bin", "good.gguf"), "x")
		}, "input runtime, while the command ran"},
		"the model": {"cp $good $2" + wait, nil, func(t *testing.T, run *Run) {
			swapFile(t, run.Inputs["model"].Path, "x")
		}, "input model, while the command ran"},
	} {
		t.Run(name, func(t *testing.T) {
			run := example.run(t, c.script, c.with)
			if c.swap != nil {
				go func() {
					for !onDisk(run.Dir, "started") {
						time.Sleep(time.Millisecond)
					}
					c.swap(t, run)
					if err := os.WriteFile(filepath.Join(run.Dir, "go"), nil, 0o644); err != nil {
						t.Error(err)
					}
				}()
			}
			out, err := Quantize{}.Run(t.Context(), run)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "not to be trusted") {
				t.Errorf("got %v (%+v), want %q", err, out, c.want)
			}
			if out == nil || out.Output != nil || onDisk(run.Dir, "q.gguf") {
				t.Errorf("its output was taken: %+v", out)
			}
		})
	}
}

func swapFile(t *testing.T, path, body string) {
	if err := errors.Join(os.WriteFile(path+".other", []byte(body), 0o755), os.Rename(path+".other", path)); err != nil {
		t.Error(err)
	}
}

func TestAToolThatIsCancelledLeavesItsPartial(t *testing.T) {
	run := exampleProducts(t).run(t, "head -c 1000 $good > $2; sleep 60", nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for sizeOf(filepath.Join(run.Dir, "q.gguf.partial")) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	out, err := Quantize{}.Run(ctx, run)
	if err != nil || out.Verdict != schemas.Failed || !strings.Contains(out.Failure, "was stopped: context canceled") || !onDisk(run.Dir, "q.gguf.partial") {
		t.Errorf("%v %+v", err, out)
	}
}

// TestAnExternalQuantizerMakesTheBuiltInBytes runs the llama-quantize of a real build.
func TestAnExternalQuantizerMakesTheBuiltInBytes(t *testing.T) {
	dir := os.Getenv("WEIGHMASTER_LLAMACPP_BUILD")
	if dir == "" {
		shared.Missing(t, "WEIGHMASTER_LLAMACPP_BUILD names no build of llama.cpp")
	}
	needBox(t)
	model, runtime := exampleModel(t), folderOf(t, "build", dir)
	with := []map[string]any{
		{"type": "Q8_0", "file": "m.gguf"}, {"type": "Q4_K_M", "file": "m.gguf"}, {"type": "Q6_K", "file": "m.gguf", "pure": true},
		{"type": "Q4_K_M", "file": "m.gguf", "box": map[string]any{"method": "none"}},
	}
	if underRace {
		with = with[:2]
	} else if isolation.BoxWorks(isolation.Landlock) == nil {
		with = append(with, map[string]any{"type": "Q4_K_M", "file": "m.gguf", "box": map[string]any{"method": "landlock"}})
	}
	for _, with := range with {
		run := newRun(t, "quantize", with)
		run.Inputs = map[string]Artifact{"model": model, "runtime": runtime}
		out, err := Quantize{}.Run(t.Context(), run)
		if err != nil || out.Verdict != schemas.Passed {
			t.Fatalf("%v %+v", err, out)
		}
		delete(with, "box")
		own, err := runStage(t, Quantize{}, string(newRun(t, "own", with).With), map[string]Artifact{"model": model})
		if err != nil {
			t.Fatal(err)
		}
		if out.Output.Digest != own.Output.Digest {
			t.Errorf("%v: llama-quantize made %s, built in %s", with, out.Output.Digest, own.Output.Digest)
		}
		libraries := 0
		for _, d := range out.Dependencies {
			if strings.HasPrefix(d.Name, "library/lib") {
				libraries++
			}
		}
		if libraries < 3 {
			t.Errorf("%d libraries of the build are named: %+v", libraries, out.Dependencies)
		}
	}
}
