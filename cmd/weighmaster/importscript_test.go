package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/ledger/objects"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// machinesOnce makes two projects of one model on two machines once; scripts
// work on copies.
var machinesOnce struct {
	sync.Once
	dir  string
	made time.Time
	err  error
}

// cmdMachines: machines ONE TWO. ONE acquired, inspected and converted the
// example model; its producer is the functionary "first". TWO has the rest of
// the pipeline, knows ONE's log and "first", and has recorded nothing. What ONE
// recorded is at least two seconds old, so that expire finds a moment between
// that and what TWO records.
func cmdMachines(ts *testscript.TestScript, _ bool, args []string) {
	machinesOnce.Do(func() {
		machinesOnce.dir, machinesOnce.err = makeMachines()
		machinesOnce.made = time.Now()
	})
	ts.Check(machinesOnce.err)
	time.Sleep(time.Until(machinesOnce.made.Add(2 * time.Second)))
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

// cmdTrust: trust PROJECT OTHER FUNCTIONARY... lets a project believe another's
// log, and those of its functionaries whose names are free, or else under "other-".
func cmdTrust(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(believe(ts.MkAbs(args[0]), ts.MkAbs(args[1]), args[2:]...))
}

// believe lets a project's trust file name another's log, and functionaries.
func believe(project, other string, functionaries ...string) error {
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
		if !slices.Contains(functionaries, f.Name) {
			continue
		}
		if slices.ContainsFunc(trust.Functionaries, func(old schemas.Functionary) bool { return old.Name == f.Name }) {
			f.Name = "other-" + f.Name
		}
		trust.Functionaries = append(trust.Functionaries, f)
	}
	return writeTrust(project, trust)
}

// cmdUnbelieve: unbelieve PROJECT log|functionary takes the word of the first
// machine out of a project's trust file.
func cmdUnbelieve(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	trust, err := readTrust(filepath.Join(dir, trustFile))
	ts.Check(err)
	switch args[1] {
	case "log":
		trust.Logs = nil
	case "functionary":
		trust.Functionaries = slices.DeleteFunc(trust.Functionaries, func(f schemas.Functionary) bool { return f.Name == "first" })
	default:
		ts.Fatalf("unbelieve %q", args[1])
	}
	ts.Check(writeTrust(dir, trust))
}

// cmdExpire: expire PROJECT ARCHIVE SECONDS lets the key of "first" expire that
// many seconds after the newest entry of an evidence package, and returns when
// it is expired.
func cmdExpire(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	pkg, err := readPackage(ts.MkAbs(args[1]))
	ts.Check(err)
	at, err := time.Parse(time.RFC3339, pkg.Index.Entries[len(pkg.Index.Entries)-1].Leaf.Appended)
	ts.Check(err)
	seconds, err := strconv.Atoi(args[2])
	ts.Check(err)
	at = at.Add(time.Duration(seconds) * time.Second)
	trust, err := readTrust(filepath.Join(dir, trustFile))
	ts.Check(err)
	for i, f := range trust.Functionaries {
		if f.Name == "first" {
			trust.Functionaries[i].NotAfter = &at
		}
	}
	ts.Check(writeTrust(dir, trust))
	time.Sleep(time.Until(at))
}

// cmdPackage: package ARCHIVE WHAT [OTHER] tampers with an evidence package
// and writes it as a whole one again.
func cmdPackage(ts *testscript.TestScript, _ bool, args []string) {
	pkg, err := readPackage(ts.MkAbs(args[0]))
	ts.Check(err)
	switch args[1] {
	case "swap-bundles":
		pkg.Bundles[0], pkg.Bundles[1] = pkg.Bundles[1], pkg.Bundles[0]
	case "swap-proofs":
		pkg.Proofs[0], pkg.Proofs[1] = pkg.Proofs[1], pkg.Proofs[0]
	case "move-entry":
		pkg.Index.Entries[2].Index += 7
	case "another-time":
		pkg.Index.Entries[0].Leaf.Appended = "2020-01-01T00:00:00Z"
	case "proof-of":
		other, err := readPackage(ts.MkAbs(args[2]))
		ts.Check(err)
		pkg.Proofs[0] = other.Proofs[0]
	case "checkpoint-of":
		other, err := readPackage(ts.MkAbs(args[2]))
		ts.Check(err)
		pkg.Checkpoint = other.Checkpoint
	case "vouch":
		pkg.Vouched[0], pkg.Vouched[1] = pkg.Vouched[1], pkg.Vouched[0]
	case "unvouch":
		pkg.Vouched = nil
		for i := range pkg.Index.Entries {
			pkg.Index.Entries[i].Imported = nil
		}
	case "private":
		pkg.Index.Withheld = append(pkg.Index.Withheld, pkg.Index.Objects[0])
	case "stray":
		body := []byte("a letter")
		d := godigest.FromBytes(body)
		pkg.Index.Objects = append(pkg.Index.Objects, evidence.Object{Digest: d, Size: int64(len(body)), MediaType: "text/plain"})
		pkg.Objects[d] = body
	case "missing":
		delete(pkg.Objects, pkg.Index.Objects[0].Digest)
		pkg.Index.Objects = pkg.Index.Objects[1:]
	case "object":
		d := pkg.Index.Objects[0].Digest
		pkg.Objects[d] = append([]byte{'X'}, pkg.Objects[d][1:]...)
	case "empty":
		pkg.Bundles, pkg.Proofs, pkg.Index.Entries = nil, nil, []evidence.Entry{}
	default:
		ts.Fatalf("package %q", args[1])
	}
	var out bytes.Buffer
	ts.Check(pkg.Write(&out))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out.Bytes(), 0o644))
}

// cmdEntry: entry PROJECT TEXT sets CLAIM to the claim of the first entry whose
// predicate type has the text.
func cmdEntry(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	p, err := (&app{project: ts.MkAbs(args[0])}).open(ctx, false)
	ts.Check(err)
	defer p.close()
	for e, err := range p.log.Entries(ctx) {
		ts.Check(err)
		if strings.Contains(e.Leaf.PredicateType, args[1]) {
			ts.Setenv("CLAIM", e.Leaf.PAE.String())
			return
		}
	}
	ts.Fatalf("no entry of predicate type *%s*", args[1])
}

// cmdPrivate: private PROJECT N marks the first N evidence objects private and
// sets PRIVATE to the name of the first one's file below sha256.
func cmdPrivate(ts *testscript.TestScript, _ bool, args []string) {
	store, err := objects.Open(filepath.Join(ts.MkAbs(args[0]), evidenceDir))
	ts.Check(err)
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ctx := context.Background()
	var first []godigest.Digest
	for o, err := range store.List(ctx) {
		ts.Check(err)
		if o.MediaType == "application/json" && len(first) < n {
			first = append(first, o.Digest)
		}
	}
	if len(first) != n {
		ts.Fatalf("%d JSON objects, want at least %d", len(first), n)
	}
	for _, d := range first {
		_, err := store.Mark(ctx, d, false)
		ts.Check(err)
	}
	ts.Setenv("PRIVATE", first[0].Encoded()[:2]+"/"+first[0].Encoded())
}

func writeTrust(project string, trust schemas.Trust) error {
	body, err := json.Marshal(trust) // YAML reads JSON
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(project, trustFile), body, 0o644)
}
