package stages

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// pythonEnvironment is a virtual environment (PEP 405) whose packages a tool
// may import. The tool is run by the interpreter that it was made from, without
// the site module, so that no .pth file and no user folder adds to the path,
// and with a cache folder that cannot exist, so that no compiled file on disk is believed.
type pythonEnvironment struct {
	interpreter string // on the host, links followed
	library     string // its standard library
	root        string // the environment
	packages    string // its site-packages
	lock        schemas.PythonLock
	records     []pythonRecord
}

// insidePackages is where a box that renames has the packages.
const insidePackages = isolation.InsideRoots + "python"

// pythonStart is the program that python runs: it adds the packages and starts the tool as a script.
const pythonStart = `import runpy, sys; sys.path.append(sys.argv[1]); sys.argv = sys.argv[2:]; sys.path.insert(0, sys.argv[0].rpartition("/")[0]); runpy.run_path(sys.argv[0], run_name="__main__")`

// pythonArguments run a script, by its path in the box, with the packages at theirs.
func pythonArguments(packages, script string, args ...string) []string {
	return append([]string{"-I", "-S", "-B", "-X", "pycache_prefix=/dev/null/none", "-c", pythonStart, packages, script}, args...)
}

// openPython finds what an environment is made of and reads its RECORDs. The
// packages themselves are not read: [pythonEnvironment.check] does that.
func openPython(ctx context.Context, project, python string, watch watched) (*pythonEnvironment, error) {
	called := below(project, python)
	root := filepath.Dir(filepath.Dir(called))
	fail := func(err error) (*pythonEnvironment, error) { return nil, fmt.Errorf("python %s: %w", python, err) }
	home, err := pythonHome(filepath.Join(root, "pyvenv.cfg"))
	if err != nil {
		return fail(err)
	}
	found, err := filepath.Glob(filepath.Join(root, "lib", "python3.*", "site-packages"))
	if err != nil || len(found) != 1 {
		return fail(fmt.Errorf("got %d folders lib/python3.*/site-packages, want one: %w", len(found), fs.ErrNotExist))
	}
	version := filepath.Base(filepath.Dir(found[0]))
	e := &pythonEnvironment{root: root, packages: found[0], library: filepath.Join(filepath.Dir(home), "lib", version)}
	if e.interpreter, err = filepath.EvalSymlinks(called); err != nil {
		return fail(err)
	}
	base, err := filepath.EvalSymlinks(filepath.Join(home, version))
	if err != nil {
		return fail(err)
	}
	if base != e.interpreter {
		return fail(fmt.Errorf("it is %s, and its pyvenv.cfg was made from %s; want one program: make the environment anew with python3 -m venv --symlinks", e.interpreter, base))
	}
	if err := errors.Join(watch.add(filepath.Join(root, "pyvenv.cfg")), watch.add(e.interpreter), watch.add(e.library), watch.add(e.packages)); err != nil {
		return fail(err)
	}
	return e, e.readLock(ctx, strings.TrimPrefix(version, "python"))
}

// pythonHome reads home of pyvenv.cfg: the folder of the interpreter that made the environment.
func pythonHome(path string) (string, error) {
	body, err := readBounded(path, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("it is in no virtual environment; make one with python3 -m venv: %w", err)
	} else if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(body)) {
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "home" && filepath.IsAbs(strings.TrimSpace(value)) {
			return filepath.Clean(strings.TrimSpace(value)), nil
		}
	}
	return "", fmt.Errorf("%s names no home", filepath.Base(path))
}

// readLock reads what the environment claims to hold.
func (e *pythonEnvironment) readLock(ctx context.Context, version string) error {
	sums, err := digest.File(ctx, e.interpreter)
	if err != nil {
		return err
	}
	e.lock = schemas.PythonLock{Schema: schemas.PythonLockURI, Python: version, Interpreter: sums.SHA256, Distributions: []schemas.PythonDistribution{}}
	if e.lock.StandardLibrary, err = standardLibrary(ctx, e.library); err != nil {
		return err
	}
	infos, err := filepath.Glob(filepath.Join(e.packages, "*.dist-info"))
	if err != nil {
		return err
	}
	for _, info := range infos {
		r, err := readDistribution(e.root, e.packages, info)
		if err != nil {
			return err
		}
		e.records = append(e.records, r)
		e.lock.Distributions = append(e.lock.Distributions, r.distribution)
	}
	slices.SortFunc(e.lock.Distributions, func(a, b schemas.PythonDistribution) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// standardLibrary hashes the interpreter's own library.
func standardLibrary(ctx context.Context, dir string) (schemas.PythonLibrary, error) {
	var lib schemas.PythonLibrary
	var names, paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "__pycache__" || path == filepath.Join(dir, "site-packages") || path == filepath.Join(dir, "dist-packages")) {
			return filepath.SkipDir
		}
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() { // a link counts as what it leads to
			name, err := filepath.Rel(dir, path)
			names, paths = append(names, filepath.ToSlash(name)), append(paths, path)
			return err
		}
		return nil
	})
	if err != nil {
		return lib, fmt.Errorf("python's standard library: %w", err)
	}
	sums, err := hashFiles(ctx, paths)
	if err != nil {
		return lib, fmt.Errorf("python's standard library: %w", err)
	}
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = name + "\x00" + sums[i].digest.Encoded()
		lib.Size += sums[i].size
	}
	slices.Sort(lines)
	lib.Files = len(names)
	h := godigest.Canonical.Digester()
	for _, l := range lines {
		name, sum, _ := strings.Cut(l, "\x00")
		fmt.Fprintf(h.Hash(), "%s  %s\n", sum, name)
	}
	lib.Digest = h.Digest()
	return lib, nil
}

// mounts let the packages and the standard library in; the interpreter and its
// libraries are let in as those files that the runner hashes.
func (e *pythonEnvironment) mounts() []isolation.Mount {
	list := []isolation.Mount{{Name: "root/python", Host: e.packages, Inside: insidePackages}}
	if _, system := under("/usr", e.library); !system {
		list = append(list, isolation.Mount{Name: "python/library", Host: e.library, Inside: e.library})
	}
	return list
}

// dependency is the lock as one that went into the run.
func (e *pythonEnvironment) dependency() (Dependency, error) {
	body, err := canonical(e.lock)
	return Dependency{Name: "tool/python-packages", Digest: godigest.FromBytes(body)}, err
}

// put keeps the lock as public evidence.
func (e *pythonEnvironment) put(ctx context.Context, run *Run, out *Outcome) error {
	body, err := canonical(e.lock)
	if err != nil {
		return err
	}
	sum, size, err := run.Objects.Put(ctx, "application/json", true, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("store lock/python: %w", err)
	}
	out.Evidence = append(out.Evidence, Evidence{Name: "lock/python", Digest: sum, MediaType: "application/json", Size: size})
	return nil
}

// metadataHeader reads Name and Version of METADATA (core metadata specifications).
func metadataHeader(path string) (name, version string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	for s := bufio.NewScanner(io.LimitReader(f, 1<<20)); s.Scan() && s.Text() != ""; {
		if v, ok := strings.CutPrefix(s.Text(), "Name: "); ok && name == "" {
			name = strings.TrimSpace(v)
		}
		if v, ok := strings.CutPrefix(s.Text(), "Version: "); ok && version == "" {
			version = strings.TrimSpace(v)
		}
	}
	if name == "" || version == "" {
		return "", "", fmt.Errorf("%s names no distribution and version", path)
	}
	return name, version, nil
}
