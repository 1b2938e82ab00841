package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/ledger/objects"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/registry/registrytest"
	"github.com/weighmaster/weighmaster/stages/remote/sshtest"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// pair is one pipeline over a rented machine, which makes and accepts, and a
// laptop, which delivers, reloads and completes.
type pair struct {
	t          *testing.T
	dir        string
	vm, laptop string // project folders
	env        []string
	q8, bf16   string // file names
}

// pairOnce is a pair whose rented machine made and accepted everything; tests work on copies.
var pairOnce struct {
	sync.Once
	dir string
}

// newPair gives both projects. Each knows the other's log and functionaries;
// pipeline and policy are the same file on both. from gives the laptop's
// parameters of a delivery, and more stages may be added.
func newPair(t *testing.T, from func(p *pair, file string) string, more func(p *pair) string) *pair {
	t.Helper()
	pairOnce.Do(func() { makePair(t) })
	if pairOnce.dir == "" {
		t.Fatal("the pair of projects could not be made")
	}
	p := at(t, t.TempDir())
	p.check(os.CopyFS(p.dir, os.DirFS(pairOnce.dir)))
	p.write(from, more)
	return p
}

func at(t *testing.T, dir string) *pair {
	return &pair{
		t: t, dir: dir, vm: filepath.Join(dir, "vm"), laptop: filepath.Join(dir, "laptop"), q8: "example-llama-2m-Q8_0.gguf", bf16: "example-llama-2m-BF16.gguf",
		env: append(os.Environ(), "HF_ENDPOINT=http://127.0.0.1:1", "WEIGHMASTER_MACHINE_ROOT="+filepath.Join(dir, "root"), "DOCKER_CONFIG="+dir),
	}
}

func makePair(t *testing.T) {
	publisher, err := fixtures.ModelPublisher()
	if err != nil {
		t.Fatal(err)
	}
	hub, err := demoHub()
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	self, err := exec.LookPath("weighmaster")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(filepath.Dir(self)), "pair-") // goes with the command that tests start
	if err != nil {
		t.Fatal(err)
	}
	p := at(t, dir)
	p.env = append(p.env, "HF_ENDPOINT="+hub.URL)
	for _, project := range []string{p.vm, p.laptop} {
		p.must("", "init", project, "--no-password", "--repository", publisher.Repository, "--revision", publisher.Revision)
		p.check(writeEvaluation(project))
	}
	p.laptopKeys()
	p.check(believe(p.vm, p.laptop, "laptop"))
	p.check(believe(p.laptop, p.vm, "producer", "gatekeeper"))
	trust, err := readTrust(filepath.Join(p.laptop, trustFile))
	p.check(err)
	trust.Deciders = []string{"gatekeeper"}
	p.check(writeTrust(p.laptop, trust))
	policy, err := os.ReadFile(filepath.Join(p.vm, policyFile))
	p.check(err)
	rules := string(policy)
	for _, uses := range []string{"deliver", "reload"} {
		rules = strings.Replace(rules, uses+": {functionaries: [producer]", uses+": {functionaries: [producer, laptop]", 1)
	}
	rules = strings.Replace(rules, "complete: {functionaries: [gatekeeper]", "complete: {functionaries: [laptop]", 1)
	for _, project := range []string{p.vm, p.laptop} {
		p.check(os.WriteFile(filepath.Join(project, policyFile), []byte(rules), 0o644))
		p.check(os.Rename(filepath.Join(project, pipelineFile), filepath.Join(project, "template.yaml")))
		p.check(os.WriteFile(filepath.Join(project, pipelineFile), nil, 0o644))
	}
	p.write(func(*pair, string) string { return "{}" }, nil)
	p.says(exitUndecided, []string{"ok q8-accepted", "--- finished complete skipped", "stage q8-delivered (deliver) belongs to machine laptop and is not run here"}, p.vm, "run")
	pairOnce.dir = dir
}

// write writes the pipeline of both.
func (p *pair) write(from func(p *pair, file string) string, more func(p *pair) string) {
	p.t.Helper()
	pipeline, err := os.ReadFile(filepath.Join(p.vm, "template.yaml"))
	p.check(err)
	var text strings.Builder
	for line := range strings.Lines(string(pipeline)) {
		stage, isStage := strings.CutPrefix(line, "  - {name: ")
		name, _, _ := strings.Cut(stage, ",")
		machine := "vm"
		switch {
		case !isStage:
			text.WriteString(line)
			continue
		case strings.HasSuffix(name, "-delivered"):
			artifact := strings.TrimSuffix(name, "-delivered")
			file := map[string]string{"q8": p.q8, "bf16": p.bf16}[artifact]
			line = strings.TrimSuffix(line, "}\n") + ", with: " + from(p, filepath.Join("work", artifact, file)) + "}\n"
			fallthrough
		case strings.HasSuffix(name, "-reloaded"), name == "finished":
			machine = "laptop"
			line = strings.Replace(strings.TrimSuffix(line, "}\n"), ", signer: gatekeeper", "", 1) + ", signer: laptop}\n"
		}
		text.WriteString(strings.TrimSuffix(line, "}\n") + ", machine: " + machine + "}\n")
	}
	if more != nil {
		text.WriteString(more(p))
	}
	for _, project := range []string{p.vm, p.laptop} {
		p.check(os.WriteFile(filepath.Join(project, pipelineFile), []byte(text.String()), 0o644))
	}
}

// laptopKeys gives the laptop one functionary, called so.
func (p *pair) laptopKeys() {
	for _, end := range []string{".pem", ".pub"} {
		p.check(os.Rename(filepath.Join(p.laptop, keysDir, "producer"+end), filepath.Join(p.laptop, keysDir, "laptop"+end)))
		p.check(os.Remove(filepath.Join(p.laptop, keysDir, "gatekeeper"+end)))
	}
	trust, err := readTrust(filepath.Join(p.laptop, trustFile))
	p.check(err)
	trust.Functionaries = []schemas.Functionary{trust.Functionaries[0]}
	trust.Functionaries[0].Name, trust.Deciders = "laptop", nil
	p.check(writeTrust(p.laptop, trust))
}

func (p *pair) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// run runs a verb in one of the projects.
func (p *pair) run(project string, args ...string) (int, string) {
	p.t.Helper()
	self, err := exec.LookPath("weighmaster")
	p.check(err)
	if project != "" {
		args = append([]string{"--project", project, "--machine", filepath.Base(project)}, args...)
	}
	cmd := exec.CommandContext(p.t.Context(), self, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (p *pair) must(project string, args ...string) string {
	p.t.Helper()
	code, out := p.run(project, args...)
	if code != 0 {
		p.t.Fatalf("weighmaster %q ended with %d:\n%s", args, code, out)
	}
	return out
}

// says wants a verb to end with a code and to say each of some words.
func (p *pair) says(code int, words []string, project string, args ...string) string {
	p.t.Helper()
	got, out := p.run(project, args...)
	if got != code {
		p.t.Fatalf("weighmaster %q ended with %d, want %d:\n%s", args, got, code, out)
	}
	flat := strings.Join(strings.Fields(out), " ")
	for _, w := range words {
		if !strings.Contains(flat, w) {
			p.t.Fatalf("weighmaster %q does not say %q:\n%s", args, w, out)
		}
	}
	return out
}

// withoutRace leaves a test of several processes to the run without the race detector.
func withoutRace(t *testing.T) {
	t.Helper()
	if underRace {
		t.Skip("it starts processes; they are tried without the race detector")
	}
}

func sshServer(t *testing.T) *sshtest.Server {
	t.Helper()
	s, err := sshtest.Start(t, sshtest.Options{})
	if errors.Is(err, sshtest.ErrMissing) {
		shared.Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// The rented machine makes and accepts; the laptop takes the evidence over,
// fetches the accepted bytes over ssh with one cut, reloads, completes, and
// gives its evidence back; afterwards both ledgers hold the chain.
func TestMachinesOneChain(t *testing.T) {
	withoutRace(t)
	s := sshServer(t)
	p := newPair(t, func(p *pair, file string) string {
		return fmt.Sprintf(`{from: "ssh://%s%s", config: "%s"}`, sshtest.Host, filepath.Join(p.vm, file), s.Config)
	}, nil)

	p.says(exitUndecided, []string{"stage source (acquire) belongs to machine vm and is not run here: the ledger has no run of it"}, p.laptop, "run")
	p.says(exitUndecided, []string{"ok q8-accepted", "q8-evaluated evaluate complete already, by the ledger", "stage bf16-delivered (deliver) belongs to machine laptop and is not run here", "stage q8-delivered (deliver) belongs to machine laptop"}, p.vm, "run")
	if entries, err := os.ReadDir(filepath.Join(p.vm, deliveredDir)); err != nil || len(entries) != 0 {
		t.Errorf("delivered on the rented machine: %v, %v", entries, err)
	}

	for _, artifact := range []string{"q8/" + p.q8, "bf16/" + p.bf16} {
		p.must(p.vm, "export", filepath.Join(p.vm, "work", artifact), "--out", filepath.Join(p.dir, "out.zip"))
		p.says(0, []string{"are new and were added", "was acquired by producer on vm alone; no other machine acquired it"}, p.laptop, "import", filepath.Join(p.dir, "out.zip"))
		p.says(0, []string{"nothing new"}, p.laptop, "import", filepath.Join(p.dir, "out.zip"))
	}

	bytesOf := size(t, filepath.Join(p.vm, "work", "bf16", p.bf16))
	s.CutAfter(bytesOf * 6 / 10)
	p.says(exitFalse, []string{"complete already, by the ledger", "what arrived is kept; run again to go on", "the failure is recorded in the ledger"}, p.laptop, "run")
	partial := size(t, filepath.Join(p.laptop, deliveredDir, p.bf16+".partial"))
	if partial == 0 || partial >= bytesOf {
		t.Errorf("%d of %d bytes after the cut", partial, bytesOf)
	}
	p.says(0, []string{"ok bf16-delivered", "ok q8-reloaded", "ok finished"}, p.laptop, "run")
	fmt.Printf("two machines: %d connections cut, the delivery gone on with at byte %d of %d\n", s.Cuts(), partial, bytesOf)
	for _, name := range []string{p.q8, p.bf16} {
		p.says(0, []string{"passed for decision redistribute"}, "", "verify", filepath.Join(p.laptop, deliveredDir, name), "--trust", filepath.Join(p.laptop, trustFile))
	}
	if got := p.statement(p.laptop, "bf16-delivered"); !strings.Contains(got, `"remoteDigest"`) || !strings.Contains(got, `"localDigest"`) || !strings.Contains(got, fmt.Sprintf("%d bytes", partial)) || !strings.Contains(got, `no other machine acquired it`) {
		t.Errorf("the delivery's Statement is %s", got)
	}

	p.private()

	// Back: the rented machine takes what the laptop did, and has nothing left to do.
	before := p.must(p.vm, "log", "show")
	for _, name := range []string{p.q8, p.bf16} {
		p.must(p.laptop, "export", filepath.Join(p.laptop, deliveredDir, name), "--out", filepath.Join(p.dir, "back.zip"))
		p.says(0, []string{"are new and were added"}, p.vm, "import", filepath.Join(p.dir, "back.zip"))
		p.says(0, []string{"nothing new"}, p.vm, "import", filepath.Join(p.dir, "back.zip"))
	}
	if after := p.must(p.vm, "log", "show"); !strings.HasPrefix(after, before[:len(before)/2]) || strings.Count(after, "\n") <= strings.Count(before, "\n") {
		t.Errorf("the rented machine's log after the import:\n%s", after)
	}
	p.must(p.vm, "run")
	for _, file := range []string{"q8/" + p.q8, "bf16/" + p.bf16} {
		p.says(0, []string{": passed"}, p.vm, "policy", "check", filepath.Join(p.vm, "work", file))
		p.says(0, []string{"passed for decision redistribute"}, "", "verify", filepath.Join(p.vm, "work", file), "--evidence", p.vm, "--trust", filepath.Join(p.vm, trustFile))
	}
	p.must(p.vm, "log", "verify")
	p.must(p.laptop, "log", "verify")

	// The tampered reject: the remote file changed after it was accepted, and is wanted again.
	file := filepath.Join(p.vm, "work", "q8", p.q8)
	p.check(os.Chmod(file, 0o644))
	p.check(flip(file, 1000))
	p.check(os.Chmod(filepath.Join(p.laptop, deliveredDir), 0o755))
	p.check(os.Remove(filepath.Join(p.laptop, deliveredDir, p.q8)))
	p.says(exitFalse, []string{"the other machine has other bytes than those that were accepted; nothing was fetched"}, p.laptop, "run")
	if exists(filepath.Join(p.laptop, deliveredDir, p.q8)) || exists(filepath.Join(p.laptop, deliveredDir, p.q8+".partial")) {
		t.Error("something was fetched")
	}
}

// private takes private evidence to the other machine of one's own: marked, and never changed.
func (p *pair) private() {
	p.t.Helper()
	artifact, out := filepath.Join(p.vm, "work", "q8", p.q8), filepath.Join(p.dir, "own.zip")
	p.says(0, []string{"It holds private evidence"}, p.vm, "export", artifact, "--private", "--out", out)
	pkg, err := readPackage(out)
	p.check(err)
	if len(pkg.Private) == 0 || pkg.Publishable() == nil || len(pkg.Index.Withheld) != 0 {
		p.t.Errorf("%d private objects, %d withheld", len(pkg.Private), len(pkg.Index.Withheld))
	}
	p.says(exitUndecided, []string{"is that of a public package"}, p.vm, "export", artifact, "--private", "--out", artifact+packageSuffix)
	public := filepath.Join(p.dir, "public.zip")
	p.must(p.vm, "export", artifact, "--out", public)
	plain, err := readPackage(public)
	p.check(err)
	for d, body := range pkg.Private {
		for _, have := range plain.Objects {
			if bytes.Equal(have, body) {
				p.t.Errorf("the public package holds the private object %s", d)
			}
		}
	}
	bad := *pkg
	bad.Private = maps.Clone(pkg.Private)
	first := pkg.Index.Private[0].Digest
	bad.Private[first] = append([]byte{'X'}, pkg.Private[first][1:]...)
	var body bytes.Buffer
	p.check(bad.Write(&body))
	p.check(os.WriteFile(filepath.Join(p.dir, "bad.zip"), body.Bytes(), 0o644))
	p.says(exitFalse, []string{"nothing was imported: private evidence object " + first.String() + ": its bytes have the digest"}, p.laptop, "import", filepath.Join(p.dir, "bad.zip"))
	if st, err := os.Stat(out); err != nil || st.Mode().Perm() != 0o600 {
		p.t.Errorf("the private package has mode %v, %v; want 0600", st.Mode(), err)
	}
	marked := *pkg // as if somebody had changed it on its way, so that the next export publishes it
	marked.Index.Private = append([]evidence.Private{}, pkg.Index.Private...)
	for i := range marked.Index.Private {
		marked.Index.Private[i].Public = true
	}
	body.Reset()
	p.check(marked.Write(&body))
	p.check(os.WriteFile(out, body.Bytes(), 0o600))
	p.says(0, []string{"private evidence objects came too and stay private here"}, p.laptop, "import", out)
	p.says(0, []string{"nothing new"}, p.laptop, "import", out)
	store, err := objects.Open(filepath.Join(p.laptop, evidenceDir))
	p.check(err)
	for _, o := range pkg.Index.Private {
		if there, err := store.Stat(p.t.Context(), o.Digest); err != nil || there.Public { // the package's own mark is nobody's word
			p.t.Errorf("%s on the laptop: %+v, %v", o.Digest, there, err)
		}
	}
}

// statement is the newest provenance of a stage, as its ledger has it.
func (p *pair) statement(project, stage string) string {
	p.t.Helper()
	ctx := p.t.Context()
	there, err := (&app{project: project}).open(ctx, false)
	p.check(err)
	defer there.close()
	claims, err := there.allClaims(ctx)
	p.check(err)
	found := ""
	for _, c := range claims {
		if bytes.Contains(c.Predicate(), []byte(fmt.Sprintf(`"stage":%q`, stage))) {
			found = string(c.Predicate())
		}
	}
	return found
}

// The same over a registry: the rented machine pushes file and evidence, the
// laptop takes both from there, and nothing private is among all bytes that left.
func TestMachinesOverARegistry(t *testing.T) {
	withoutRace(t)
	for kind, variable := range registrytest.Kinds {
		t.Run(kind, func(t *testing.T) {
			s, err := registrytest.Start(t, kind)
			if errors.Is(err, registrytest.ErrMissing) {
				shared.Missing(t, "%s: %v", variable, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			place := func(file string) string {
				return "oci://" + s.Host + "/models/example:" + strings.ToLower(strings.TrimSuffix(filepath.Base(file), ".gguf"))
			}
			p := newPair(t, func(_ *pair, file string) string { return fmt.Sprintf("{from: %q}", place(file)) }, func(p *pair) string {
				return fmt.Sprintf("  - {name: q8-published, uses: deliver, inputs: {artifact: q8}, with: {to: %q}, machine: vm}\n", place(p.q8)) +
					fmt.Sprintf("  - {name: bf16-published, uses: deliver, inputs: {artifact: bf16}, with: {to: %q}, machine: vm}\n", place(p.bf16))
			})
			p.says(exitUndecided, []string{"ok q8-published", "ok bf16-published", "belongs to machine laptop"}, p.vm, "run")
			for _, name := range []string{"q8/" + p.q8, "bf16/" + p.bf16} { // with the delivery itself
				p.must(p.vm, "export", filepath.Join(p.vm, "work", name), "--oci", place(name))
			}
			p.nothingPrivate(p.vm, s)
			for _, name := range []string{p.q8, p.bf16} {
				p.says(0, []string{"are new and were added"}, p.laptop, "import", place(name))
				p.says(0, []string{"nothing new"}, p.laptop, "import", place(name))
			}
			p.says(0, []string{"ok bf16-delivered", "ok finished"}, p.laptop, "run")
			p.says(0, []string{"passed for decision redistribute"}, "", "verify", filepath.Join(p.laptop, deliveredDir, p.q8), "--trust", filepath.Join(p.laptop, trustFile))
			p.must(p.laptop, "export", filepath.Join(p.laptop, deliveredDir, p.q8), "--oci", place(p.q8))
			p.says(exitFalse, []string{"the tag names something else than this file"}, p.laptop, "export", filepath.Join(p.laptop, deliveredDir, p.q8), "--oci", place(p.bf16))
			p.says(0, []string{"are new and were added"}, p.vm, "import", place(p.q8))
			p.says(0, []string{"passed for decision"}, "", "verify", filepath.Join(p.vm, "work", "q8", p.q8), "--evidence", p.vm, "--trust", filepath.Join(p.vm, trustFile))
			if _, out := p.run(p.vm, "run"); !strings.Contains(strings.Join(strings.Fields(out), " "), "q8-published deliver complete already, by the ledger") {
				t.Errorf("what was pushed is pushed again:\n%s", out)
			}
			p.nothingPrivate(p.vm, s)
			p.nothingPrivate(p.laptop, s)
			p.says(exitUndecided, []string{"if any flags in the group"}, p.laptop, "export", filepath.Join(p.laptop, deliveredDir, p.q8), "--oci", place(p.q8), "--private")
		})
	}
}

// nothingPrivate looks for every private object of a project in every byte that was sent.
func (p *pair) nothingPrivate(project string, s *registrytest.Server) {
	p.t.Helper()
	ctx := p.t.Context()
	store, err := objects.Open(filepath.Join(project, evidenceDir))
	p.check(err)
	sent, searched := s.Sent(), 0
	for o, err := range store.List(ctx) {
		p.check(err)
		if o.Public {
			continue
		}
		body, _, err := store.Get(ctx, o.Digest)
		p.check(err)
		searched++
		if len(body) > 0 && bytes.Contains(sent, body) {
			p.t.Errorf("private object %s (%s) of %s was sent", o.Digest, o.MediaType, filepath.Base(project))
		}
	}
	if searched == 0 {
		p.t.Errorf("%s has no private object; nothing was shown", filepath.Base(project))
	}
}
