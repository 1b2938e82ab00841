package stages

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
)

const fakePackage = "WORD = 'true'\n"

// environment makes a virtual environment of the system's Python with one
// distribution, fake 1.0, whose RECORD names the given files with their digests.
func environment(t *testing.T, files map[string]string) (root, packages string) {
	t.Helper()
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		shared.Missing(t, "no /usr/bin/python3")
	}
	real, err := filepath.EvalSymlinks(python)
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	packages = filepath.Join(root, "lib", filepath.Base(real), "site-packages")
	all := map[string]string{"fake/__init__.py": fakePackage, "fake-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n\nName: of the text\n"}
	for name, body := range files {
		all[name] = body
	}
	record := ""
	for _, name := range sortedKeys(all) {
		sum := sha256.Sum256([]byte(all[name]))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(all[name]))
	}
	all["fake-1.0.dist-info/RECORD"] = record + "fake/__pycache__/__init__.cpython-311.pyc,,\nfake-1.0.dist-info/RECORD,,\n"
	writeTree(t, packages, all)
	writeTree(t, root, map[string]string{"pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = false\n", "bin/x": ""})
	if err := os.Symlink(real, filepath.Join(root, "bin", "python")); err != nil {
		t.Fatal(err)
	}
	return root, packages
}

// converting is a converter that copies good.gguf, which lies beside it, and prints what it imports.
const converting = `
import sys, pathlib
import fake, helper
print(fake.WORD, helper.WORD, sorted(m for m in sys.modules if "sitecustomize" in m), sys.flags.isolated, sys.flags.no_site)
out = sys.argv[sys.argv.index("--outfile") + 1]
pathlib.Path(out).write_bytes(pathlib.Path(__file__).with_name("good.gguf").read_bytes())
`

// pythonRun is a run of the convert stage with that converter.
func pythonRun(t *testing.T, root string, with map[string]any) *Run {
	t.Helper()
	needBox(t)
	tree := t.TempDir()
	model := exampleModel(t)
	writeTree(t, tree, map[string]string{"convert_hf_to_gguf.py": converting, "helper.py": "WORD = 'helped'\n"})
	if err := os.Link(model.Path, filepath.Join(tree, "good.gguf")); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"type": "BF16", "file": "m.gguf", "python": filepath.Join(root, "bin", "python")}
	for k, v := range with {
		all[k] = v
	}
	run := newRun(t, "bf16", all)
	if err := schemas.StageParameters("convert", run.With); err != nil {
		t.Fatal(err)
	}
	run.Inputs = map[string]Artifact{"snapshot": exampleSnapshot(t), "converter": folderOf(t, "tree", tree)}
	return run
}

func TestAnExternalConverterRunsWithLockedPackages(t *testing.T) {
	root, packages := environment(t, nil)
	run := pythonRun(t, root, nil)
	t.Setenv("PYTHONPATH", t.TempDir())
	out, err := Convert{}.Run(t.Context(), run)
	if err != nil || out.Verdict != schemas.Passed {
		t.Fatalf("%v %+v", err, out)
	}
	if got := logOf(t, run, out, "log/stdout"); got != "true helped [] 1 1\n" {
		t.Errorf("it imported: %q", got)
	}
	var lock schemas.PythonLock
	body := []byte(logOf(t, run, out, "lock/python"))
	if err := schemas.DecodeJSON(schemas.PythonLockURI, body, &lock); err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(filepath.Join(packages, "fake-1.0.dist-info", "RECORD"))
	if err != nil {
		t.Fatal(err)
	}
	want := schemas.PythonDistribution{Name: "fake", Version: "1.0", Record: godigest.FromBytes(record), Files: 2, Size: int64(len(fakePackage)) + 65}
	if len(lock.Distributions) != 1 || lock.Distributions[0] != want || lock.StandardLibrary.Files < 100 {
		t.Errorf("got %+v, want %+v", lock, want)
	}
	names := map[string]godigest.Digest{}
	for _, d := range out.Dependencies {
		names[d.Name] = d.Digest
	}
	if names["tool/python-packages"] != godigest.FromBytes(body) || names["tool/python"+lock.Python] != lock.Interpreter || names["tool/convert_hf_to_gguf.py"] != run.Inputs["converter"].Files[0].Sums.SHA256 {
		t.Errorf("dependencies %v", names)
	}
	resolved, err := Convert{}.Resolve(t.Context(), run)
	if err != nil || len(resolved) != len(out.Dependencies) {
		t.Fatalf("resolved %+v, %v", resolved, err)
	}
	for _, d := range resolved {
		if names[d.Name] != d.Digest {
			t.Errorf("%s was resolved as %s, and ran as %s", d.Name, d.Digest, names[d.Name])
		}
	}
}

// TestPackagesThatAreNotAsInstalledStopTheStage before the converter runs.
func TestPackagesThatAreNotAsInstalledStopTheStage(t *testing.T) {
	for name, c := range map[string]struct {
		change func(packages string) error
		want   string
	}{
		"a changed file": {func(p string) error {
			return os.WriteFile(filepath.Join(p, "fake/__init__.py"), []byte("WORD = 'evil'\n"), 0o644)
		},
			"fake/__init__.py has the sha256 "},
		"a longer file": {func(p string) error {
			return os.WriteFile(filepath.Join(p, "fake/__init__.py"), []byte(fakePackage+"#\n"), 0o644)
		},
			"fake/__init__.py has 16 bytes, want 14"},
		"a file that is gone": {func(p string) error { return os.Remove(filepath.Join(p, "fake/__init__.py")) }, "fake/__init__.py is gone"},
		"a link in its place": {func(p string) error {
			path := filepath.Join(p, "fake/__init__.py")
			return errors.Join(os.Rename(path, filepath.Join(p, "..", "moved.py")), os.Symlink("../../moved.py", path))
		}, "fake/__init__.py is no regular file"},
		"a module that nobody installed": {func(p string) error { return os.WriteFile(filepath.Join(p, "torch.py"), nil, 0o644) }, "torch.py is in no RECORD"},
		"a path file":                    {func(p string) error { return os.WriteFile(filepath.Join(p, "x.pth"), []byte("import os"), 0o644) }, "x.pth is in no RECORD"},
		"a compiled module by itself":    {func(p string) error { return os.WriteFile(filepath.Join(p, "torch.pyc"), nil, 0o644) }, "torch.pyc is in no RECORD"},
		"a folder that leads elsewhere":  {func(p string) error { return os.Symlink("/usr/lib", filepath.Join(p, "torch")) }, "torch is in no RECORD"},
		"a distribution without RECORD":  {func(p string) error { return os.Remove(filepath.Join(p, "fake-1.0.dist-info/RECORD")) }, "python package fake-1.0"},
		"an egg-info": {func(p string) error {
			return errors.Join(os.Mkdir(filepath.Join(p, "old.egg-info"), 0o755), os.WriteFile(filepath.Join(p, "old.egg-info/PKG-INFO"), nil, 0o644))
		}, "old.egg-info/PKG-INFO is in no RECORD"},
		"a RECORD that leads out":        {appendRecord("../../../../../etc/passwd,sha256=x,1\n"), "not below the environment"},
		"a RECORD with an absolute path": {appendRecord("/etc/passwd,sha256=x,1\n"), "want one relative"},
		"a RECORD with a weak digest":    {appendRecord("fake/x.py,md5=x,1\n"), "want sha256, sha384 or sha512"},
		"a RECORD without a digest":      {appendRecord("fake/x.py,,\n"), "fake/x.py has no digest"},
		"a RECORD with a size below 0":   {appendRecord("fake/x.py,sha256=x,-1\n"), "want a number of bytes"},
		"a RECORD of two columns":        {appendRecord("fake/x.py,sha256=x\n"), "wrong number of fields"},
		"no METADATA":                    {func(p string) error { return os.Remove(filepath.Join(p, "fake-1.0.dist-info/METADATA")) }, "METADATA"},
		"no environment":                 {func(p string) error { return os.Remove(filepath.Join(p, "../../../pyvenv.cfg")) }, "it is in no virtual environment"},
		"another Python's environment": {func(p string) error {
			return os.WriteFile(filepath.Join(p, "../../../pyvenv.cfg"), []byte("home = /usr/local/nowhere\n"), 0o644)
		}, "/usr/local/nowhere"},
		"a copied interpreter": {func(p string) error {
			path := filepath.Join(p, "../../../bin/python")
			body, err := os.ReadFile(path)
			return errors.Join(err, os.Remove(path), os.WriteFile(path, body, 0o755))
		}, "want one program"},
	} {
		t.Run(name, func(t *testing.T) {
			root, packages := environment(t, nil)
			run := pythonRun(t, root, nil)
			if err := c.change(packages); err != nil {
				t.Fatal(err)
			}
			out, err := Convert{}.Run(t.Context(), run)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if len(out.Evidence) != 0 || onDisk(run.Dir, "m.gguf") || onDisk(run.Dir, "m.gguf.partial") {
				t.Errorf("it ran: %+v", out)
			}
		})
	}
}

func appendRecord(line string) func(packages string) error {
	return func(packages string) error {
		f, err := os.OpenFile(filepath.Join(packages, "fake-1.0.dist-info/RECORD"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(line)
		return errors.Join(err, f.Close())
	}
}

// TestCompiledFilesOnDiskAreNotBelieved: __pycache__ of a package and of the
// converter's own folder hold other code, which Python would take without a look at the source.
func TestCompiledFilesOnDiskAreNotBelieved(t *testing.T) {
	root, packages := environment(t, nil)
	run := pythonRun(t, root, nil)
	python := filepath.Join(root, "bin", "python")
	poison := func(source, word string) {
		evil := filepath.Join(t.TempDir(), "evil.py")
		writeTree(t, filepath.Dir(evil), map[string]string{"evil.py": "WORD = '" + word + "'\n"})
		code := "import importlib.util, py_compile, sys; py_compile.compile(sys.argv[1], cfile=importlib.util.cache_from_source(sys.argv[2]), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)"
		if words, err := exec.CommandContext(t.Context(), python, "-I", "-c", code, evil, source).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, words)
		}
	}
	tree := run.Inputs["converter"].Path
	poison(filepath.Join(packages, "fake/__init__.py"), "evil")
	poison(filepath.Join(tree, "helper.py"), "evil")
	run.Inputs["converter"] = folderOf(t, "tree", tree)
	// The control: an ordinary python takes the poison.
	words, err := exec.CommandContext(t.Context(), python, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import fake; print(fake.WORD)", packages).CombinedOutput()
	if err != nil || string(words) != "evil\n" {
		t.Fatalf("the control: %v %q", err, words)
	}
	out, err := Convert{}.Run(t.Context(), run)
	if err != nil || out.Verdict != schemas.Passed {
		t.Fatalf("%v %+v", err, out)
	}
	if got := logOf(t, run, out, "log/stdout"); !strings.HasPrefix(got, "true helped ") {
		t.Errorf("it imported what was compiled: %q", got)
	}
}

// TestPackagesThatChangeWhileTheConverterRuns are found afterwards.
func TestPackagesThatChangeWhileTheConverterRuns(t *testing.T) {
	root, packages := environment(t, map[string]string{"fake/later.py": "1\n"})
	run := pythonRun(t, root, map[string]any{"box": map[string]any{"method": "none"}})
	tree := run.Inputs["converter"].Path
	writeTree(t, tree, map[string]string{"convert_hf_to_gguf.py": strings.Replace(converting, "import fake", "open("+fmt.Sprintf("%q", filepath.Join(packages, "fake/later.py"))+", 'w').write('2\\n')\nimport fake", 1)})
	run.Inputs["converter"] = folderOf(t, "tree", tree)
	out, err := Convert{}.Run(t.Context(), run)
	if err == nil || !strings.Contains(err.Error(), "fake/later.py was touched while the command ran") || out.Output != nil {
		t.Errorf("got %v %+v", err, out)
	}
	if out.Facts[schemas.FactBox] != "none" {
		t.Errorf("without a box it says %v", out.Facts)
	}
}

func TestAnExternalConverterIsBelievedForWhatItWrote(t *testing.T) {
	root, _ := environment(t, nil)
	for name, c := range map[string]struct {
		script string
		with   map[string]any
		want   string
	}{
		"another type":              {converting, map[string]any{"type": "F16"}, "general.file_type is 32 (BF16), want 1 (F16)"},
		"tensors in a vocabulary":   {converting, map[string]any{"vocabularyOnly": true}, "want a vocabulary and no tensor"},
		"nothing, and exits 0":      {"pass", nil, "it made no m.gguf.partial"},
		"half, killed":              {strings.Replace(converting, ".read_bytes()", ".read_bytes()[:5000]", 1) + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", nil, "as after signal 9"},
		"half, and exits 0":         {strings.Replace(converting, ".read_bytes()", ".read_bytes()[:50000]", 1), nil, "is not what was asked for"},
		"a traceback":               {"raise ValueError('no such model')", nil, "ValueError: no such model"},
		"a socket to the world":     {"import socket; socket.create_connection(('192.0.2.1', 9), 2)", nil, "Network is unreachable"},
		"what is not in the lock":   {"import torch_of_the_machine", nil, "No module named"},
		"a file of another package": {"open('/work/root/python/fake/__init__.py', 'a').write('1')", nil, "Read-only file system"},
	} {
		t.Run(name, func(t *testing.T) {
			run := pythonRun(t, root, c.with)
			tree := run.Inputs["converter"].Path
			writeTree(t, tree, map[string]string{"convert_hf_to_gguf.py": c.script})
			run.Inputs["converter"] = folderOf(t, "tree", tree)
			out, err := Convert{}.Run(t.Context(), run)
			if err != nil || out.Verdict != schemas.Failed || !strings.Contains(out.Failure, c.want) || out.Output != nil || onDisk(run.Dir, "m.gguf") {
				t.Errorf("%v %+v; want failed over %q", err, out, c.want)
			}
		})
	}
}

func TestConvertSaysWhatItNeeds(t *testing.T) {
	root, _ := environment(t, nil)
	for name, c := range map[string]struct {
		with   map[string]any
		before func(run *Run)
		want   string
	}{
		"no python":                    {map[string]any{"python": "nowhere/bin/python"}, nil, "it is in no virtual environment"},
		"another script":               {map[string]any{"converter": "convert.py"}, nil, "has no convert.py"},
		"a script above":               {map[string]any{"converter": "../convert.py"}, nil, "want one relative"},
		"python without a converter":   {nil, func(run *Run) { delete(run.Inputs, "converter") }, "give the stage an input converter"},
		"a converter without a source": {nil, func(run *Run) { delete(run.Inputs, "snapshot") }, "input snapshot: got none"},
		"the output is there":          {nil, func(run *Run) { os.WriteFile(filepath.Join(run.Dir, "m.gguf"), nil, 0o644) }, "never written over"},
	} {
		run := pythonRun(t, root, c.with)
		if c.before != nil {
			c.before(run)
		}
		if _, err := (Convert{}).Run(t.Context(), run); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestALockIsBoundByItsRecords: another RECORD is another dependency, so that the stage is not resumed.
func TestALockIsBoundByItsRecords(t *testing.T) {
	root, packages := environment(t, nil)
	run := pythonRun(t, root, nil)
	lockOf := func() godigest.Digest {
		t.Helper()
		list, err := Convert{}.Resolve(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		return list[slices.IndexFunc(list, func(d Dependency) bool { return d.Name == "tool/python-packages" })].Digest
	}
	first := lockOf()
	if again := lockOf(); again != first {
		t.Errorf("got %s and %s of one environment", first, again)
	}
	if err := appendRecord("fake/more.py,sha256=x,1\n")(packages); err != nil {
		t.Fatal(err)
	}
	if lockOf() == first {
		t.Error("another RECORD has the same lock")
	}
}

func FuzzParseRecord(f *testing.F) {
	for _, s := range []string{"a.py,sha256=x,1\n", "\"a,b.py\",sha512=x,\nx.dist-info/RECORD,,\n", "../../../bin/f,sha384=x,1", "/a,,", "a,,,", "\"", "a\x00,sha256=,1", "__pycache__/a.pyc,,"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := parseRecord(body, "x.dist-info/RECORD")
		if err != nil {
			return
		}
		for _, r := range list {
			if filepath.IsAbs(r.name) || strings.ContainsRune(r.name, 0) || r.size < -1 || (!r.none && newHash(r.algo) == nil) {
				t.Errorf("accepted %+v", r)
			}
		}
		if len(list) > len(body) {
			t.Errorf("%d files of %d bytes", len(list), len(body))
		}
	})
}
