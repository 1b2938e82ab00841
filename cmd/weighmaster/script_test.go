package main

import (
	"archive/zip"
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weighmaster/weighmaster/stages/isolation"
)

func TestMain(m *testing.M) {
	if err := isolation.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitUndecided)
	}
	testscript.Main(onOwnMachine{m}, keyServices(testCommands()))
}

// onOwnMachine gives the tests a machine of their own: none waits for what else
// runs here, and none leaves anything in a home.
type onOwnMachine struct{ m *testing.M }

func (o onOwnMachine) Run() int {
	root, err := os.MkdirTemp("", "machine-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUndecided
	}
	defer os.RemoveAll(root)
	os.Setenv(machineRootVariable, root)
	return o.m.Run()
}

// runSelf runs weighmaster as a process of its own, which some stages need: they start themselves again.
func runSelf(t *testing.T, args ...string) (int, string) {
	t.Helper()
	self, err := exec.LookPath("weighmaster")
	if err != nil {
		t.Fatal(err)
	}
	return runCommand(t, self, args...)
}

func runCommand(t *testing.T, name string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	out, err := cmd.CombinedOutput()
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode(), string(out)
	} else if err != nil {
		t.Fatal(err)
	}
	return 0, string(out)
}

// matrix collects what the tamper scripts saw, to be printed as one table.
var matrix struct {
	sync.Mutex
	rows []string
}

// demoOnce makes the demo's project once; scripts work on copies.
var demoOnce struct {
	sync.Once
	dir string
	err error
}

func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

func TestTamperMatrix(t *testing.T) {
	runScripts(t, "testdata/tamper")
	t.Cleanup(func() {
		matrix.Lock()
		defer matrix.Unlock()
		sort.Strings(matrix.rows)
		fmt.Printf("tamper matrix: %d faults, each refused\n%s\n", len(matrix.rows), strings.Join(matrix.rows, "\n"))
		if len(matrix.rows) < 25 {
			t.Errorf("the tamper matrix has %d rows, want at least 25: scripts were lost", len(matrix.rows))
		}
	})
}

func runScripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Cmds: scriptCommands(map[string]func(*testscript.TestScript, bool, []string){
			"demo": cmdDemo, "refused": cmdRefused, "flip": cmdFlip, "replace": cmdReplace, "zipreplace": cmdZipReplace, "unzip": cmdUnzip,
			"zipdrop": cmdZipDrop, "bundle": cmdBundle, "sql": cmdSQL, "truncate": cmdTruncate, "evidence": cmdEvidence, "checkpoint": cmdCheckpoint, "dropstage": cmdDropStage, "writable": cmdWritable,
		}),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PRODUCT", "p/delivered/example-llama-2m-Q8_0.gguf")
			env.Setenv("BF16", "p/delivered/example-llama-2m-BF16.gguf")
			return usePlain(env)
		},
	})
}

// cmdDemo: demo DIR. Gives the script its own copy of the demo's project.
func cmdDemo(ts *testscript.TestScript, _ bool, args []string) {
	dir, err := demoProject()
	ts.Check(err)
	ts.Check(os.CopyFS(ts.MkAbs(args[0]), os.DirFS(dir)))
}

// demoProject is the project that the demo made, for reading only.
func demoProject() (string, error) {
	demoOnce.Do(func() {
		self, err := exec.LookPath("weighmaster")
		if err != nil {
			demoOnce.err = err
			return
		}
		// Beside the command that testscript made, whose folder it removes at the end.
		temp, err := os.MkdirTemp(filepath.Dir(filepath.Dir(self)), "demo-")
		if err != nil {
			demoOnce.err = err
			return
		}
		demoOnce.dir = filepath.Join(temp, "demo")
		if out, err := exec.Command(self, "demo", "--dir", demoOnce.dir).CombinedOutput(); err != nil {
			demoOnce.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	return demoOnce.dir, demoOnce.err
}

// cmdRefused: refused CODE REASON weighmaster ARGS... The command must end with
// the code and say the reason (a regular expression). The case joins the matrix.
func cmdRefused(ts *testscript.TestScript, _ bool, args []string) {
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	reason, err := regexp.Compile(args[1])
	ts.Check(err)
	if code == 0 || reason.MatchString("") {
		ts.Fatalf("a refusal has a code and a reason")
	}
	err = ts.Exec(args[2], args[3:]...)
	said := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	got := 0
	if exit, ok := err.(*exec.ExitError); ok {
		got = exit.ExitCode()
	}
	if got != code {
		ts.Fatalf("exit code %d, want %d; it said:\n%s", got, code, said)
	}
	if !reason.MatchString(said) {
		ts.Fatalf("it does not say %q; it said:\n%s", reason, said)
	}
	matrix.Lock()
	defer matrix.Unlock()
	matrix.rows = append(matrix.rows, fmt.Sprintf("  %-34s exit %d  %s", ts.Name(), code, reason.FindString(said)))
}

func cmdFlip(ts *testscript.TestScript, _ bool, args []string) {
	offset, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(flip(onlyFile(ts, args[0]), offset))
}

// onlyFile resolves a pattern that must fit exactly one file.
func onlyFile(ts *testscript.TestScript, pattern string) string {
	found, err := filepath.Glob(ts.MkAbs(pattern))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%s fits %d files, want 1", pattern, len(found))
	}
	return found[0]
}

func cmdWritable(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.Chmod(onlyFile(ts, args[0]), 0o644))
}

// cmdReplace: replace FILE OLD NEW, the first time it occurs; \n in NEW is a line break.
func cmdReplace(ts *testscript.TestScript, _ bool, args []string) {
	path := onlyFile(ts, args[0])
	body, err := os.ReadFile(path)
	ts.Check(err)
	if !bytes.Contains(body, []byte(args[1])) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	ts.Check(os.Chmod(path, 0o644))
	ts.Check(os.WriteFile(path, bytes.Replace(body, []byte(args[1]), []byte(strings.ReplaceAll(args[2], `\n`, "\n")), 1), 0o644))
}

// cmdZipReplace: zipreplace ARCHIVE MEMBER-PREFIX OLD NEW, in the first member that holds OLD.
func cmdZipReplace(ts *testscript.TestScript, _ bool, args []string) {
	done := false
	ts.Check(rewritePackage(ts.MkAbs(args[0]), func(name string, body []byte) []byte {
		if done || !strings.HasPrefix(name, args[1]) || !bytes.Contains(body, []byte(args[2])) {
			return body
		}
		done = true
		return bytes.Replace(body, []byte(args[2]), []byte(args[3]), 1)
	}))
	if !done {
		ts.Fatalf("no member %s* holds %q", args[1], args[2])
	}
}

// cmdZipDrop: zipdrop ARCHIVE MEMBER-PREFIX drops the first such member.
func cmdZipDrop(ts *testscript.TestScript, _ bool, args []string) {
	old, err := zip.OpenReader(ts.MkAbs(args[0]))
	ts.Check(err)
	defer old.Close()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	dropped := false
	for _, f := range old.File {
		if !dropped && strings.HasPrefix(f.Name, args[1]) {
			dropped = true
			continue
		}
		ts.Check(w.Copy(f))
	}
	ts.Check(w.Close())
	if !dropped {
		ts.Fatalf("no member %s*", args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out.Bytes(), 0o644))
}

// cmdBundle: bundle ARCHIVE PART [OLD NEW]. Tampers with the first bundle, and
// mends its leaf's digest as a careful forger would.
func cmdBundle(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(rewritePackage(ts.MkAbs(args[0]), func(name string, body []byte) []byte {
		if name != "bundles.jsonl" {
			return body
		}
		lines := bytes.SplitN(body, []byte("\n"), 2)
		var b map[string]any
		ts.Check(json.Unmarshal(lines[0], &b))
		envelope := b["dsseEnvelope"].(map[string]any)
		switch args[1] {
		case "payload":
			payload, err := base64.StdEncoding.DecodeString(envelope["payload"].(string))
			ts.Check(err)
			if !bytes.Contains(payload, []byte(args[2])) {
				ts.Fatalf("the payload does not hold %q: %s", args[2], payload)
			}
			envelope["payload"] = base64.StdEncoding.EncodeToString(bytes.Replace(payload, []byte(args[2]), []byte(args[3]), 1))
		case "payloadType":
			envelope["payloadType"] = "application/json"
		case "signature":
			sig := envelope["signatures"].([]any)[0].(map[string]any)
			raw, err := base64.StdEncoding.DecodeString(sig["sig"].(string))
			ts.Check(err)
			raw[len(raw)-1] ^= 1
			sig["sig"] = base64.StdEncoding.EncodeToString(raw)
		default:
			ts.Fatalf("no part %q of a bundle", args[1])
		}
		first, err := json.Marshal(b)
		ts.Check(err)
		return slices.Concat(first, []byte("\n"), lines[1])
	}))
}

// cmdDropStage: dropstage ARCHIVE STAGE drops the provenance of one stage from a package, index and proof too.
func cmdDropStage(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	pkg, err := readPackage(ts.MkAbs(args[0]))
	ts.Check(err)
	want := []byte(fmt.Sprintf(`"stage":%q`, args[1]))
	for i, b := range pkg.Bundles {
		var bundle struct {
			Envelope struct {
				Payload []byte `json:"payload"`
			} `json:"dsseEnvelope"`
		}
		ts.Check(json.Unmarshal(b, &bundle))
		if bytes.Contains(bundle.Envelope.Payload, want) {
			pkg.Bundles = slices.Delete(pkg.Bundles, i, i+1)
			pkg.Proofs = slices.Delete(pkg.Proofs, i, i+1)
			pkg.Index.Entries = slices.Delete(pkg.Index.Entries, i, i+1)
			var out bytes.Buffer
			ts.Check(pkg.Write(&out))
			ts.Check(os.WriteFile(ts.MkAbs(args[0]), out.Bytes(), 0o644))
			return
		}
	}
	ts.Fatalf("the package has no stage %s", args[1])
}

// cmdSQL: sql DATABASE STATEMENT...
func cmdSQL(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	for _, s := range args[1:] {
		_, err := db.ExecContext(context.Background(), s)
		ts.Check(err)
	}
}

// cmdTruncate: truncate FILE BYTES cuts that many bytes off the end.
func cmdTruncate(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	path := onlyFile(ts, args[0])
	ts.Check(os.Chmod(path, 0o644))
	info, err := os.Stat(path)
	ts.Check(err)
	ts.Check(os.Truncate(path, info.Size()-n))
}

// cmdUnzip: unzip ARCHIVE FOLDER writes the members into a new folder.
func cmdUnzip(ts *testscript.TestScript, _ bool, args []string) {
	z, err := zip.OpenReader(ts.MkAbs(args[0]))
	ts.Check(err)
	defer z.Close()
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), z))
}
