package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/schemas"
)

// machinesOnce makes two projects of one model on two machines once; scripts
// work on copies.
var machinesOnce struct {
	sync.Once
	dir string
	err error
}

// cmdMachines: machines ONE TWO. ONE acquired, inspected and converted the
// example model; its producer is the functionary "first". TWO has the rest of
// the pipeline, knows ONE's log and "first", and has recorded nothing.
func cmdMachines(ts *testscript.TestScript, _ bool, args []string) {
	machinesOnce.Do(func() { machinesOnce.dir, machinesOnce.err = makeMachines() })
	ts.Check(machinesOnce.err)
	for i, name := range []string{"one", "two"} {
		ts.Check(os.CopyFS(ts.MkAbs(args[i]), os.DirFS(filepath.Join(machinesOnce.dir, name))))
	}
}

func makeMachines() (string, error) {
	self, err := exec.LookPath("weighmaster")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(filepath.Dir(self)), "machines-")
	if err != nil {
		return "", err
	}
	hub, err := demoHub()
	if err != nil {
		return "", err
	}
	defer hub.Close()
	publisher, err := fixtures.ModelPublisher()
	if err != nil {
		return "", err
	}
	weighmaster := func(args ...string) error {
		cmd := exec.Command(self, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HF_ENDPOINT="+hub.URL)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w: %s", args, err, out)
		}
		return nil
	}
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for _, name := range []string{"one", "two"} {
		if err := weighmaster("init", name, "--no-password", "--repository", publisher.Repository, "--revision", publisher.Revision); err != nil {
			return "", err
		}
		if err := writeEvaluation(filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	first := func(path, from string) error {
		return edit(filepath.Join(path, from), "name: producer\n", "name: first\n")
	}
	for _, rename := range [][2]string{{"producer.pem", "first.pem"}, {"producer.pub", "first.pub"}} {
		if err := os.Rename(filepath.Join(one, keysDir, rename[0]), filepath.Join(one, keysDir, rename[1])); err != nil {
			return "", err
		}
	}
	if err := first(one, trustFile); err != nil {
		return "", err
	}
	pipeline, err := os.ReadFile(filepath.Join(one, pipelineFile))
	if err != nil {
		return "", err
	}
	var start, whole strings.Builder
	for line := range strings.Lines(string(pipeline)) {
		stage, isStage := strings.CutPrefix(line, "  - {name: ")
		name, _, _ := strings.Cut(stage, ",")
		if isStage && slices.Contains([]string{"source", "source-inspected", "bf16"}, name) {
			line, isStage = strings.TrimSuffix(line, "}\n")+", signer: first}\n", false
		}
		whole.WriteString(line)
		if !isStage {
			start.WriteString(line)
		}
	}
	for dir, text := range map[string]string{one: start.String(), two: whole.String()} {
		if err := os.WriteFile(filepath.Join(dir, pipelineFile), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	if err := believe(two, one, "first"); err != nil {
		return "", err
	}
	if err := edit(filepath.Join(two, policyFile), "[producer]", "[producer, first]"); err != nil {
		return "", err
	}
	return dir, weighmaster("--project", "one", "run")
}

// edit replaces every occurrence in a file.
func edit(path, old, new string) error {
	body, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(body), old) {
		return fmt.Errorf("%s does not hold %q", path, old)
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(string(body), old, new)), 0o644)
}

// believe lets a project's trust file name another's log, and one of its functionaries.
func believe(project, other, functionary string) error {
	trust, err := readTrust(filepath.Join(project, trustFile))
	if err != nil {
		return err
	}
	there, err := readTrust(filepath.Join(other, trustFile))
	if err != nil {
		return err
	}
	trust.Logs = append(trust.Logs, there.Log)
	for _, f := range there.Functionaries {
		if f.Name == functionary {
			trust.Functionaries = append(trust.Functionaries, f)
		}
	}
	return writeTrust(project, trust)
}

func writeTrust(project string, trust schemas.Trust) error {
	body, err := json.Marshal(trust) // YAML reads JSON
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(project, trustFile), body, 0o644)
}
