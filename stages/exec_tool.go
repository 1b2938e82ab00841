package stages

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/digest"
)

// tool is what a command resolved to.
type tool struct {
	path         string // absolute
	env          []string
	envNames     []string
	dependencies []Dependency // the binary, its interpreters, its non-system libraries
	system       []string     // libraries that the operating system brings: named, not hashed
	unresolved   []string     // libraries that were not found
}

const (
	maxInterpreters = 4
	maxLibraries    = 500
)

func resolveTool(run *Run, with execWith) (*tool, error) {
	t := &tool{envNames: []string{}, system: []string{}, unresolved: []string{}, env: []string{}}
	for _, name := range with.Env {
		if v, ok := os.LookupEnv(name); ok {
			t.env = append(t.env, name+"="+v)
			t.envNames = append(t.envNames, name)
		}
	}
	path, err := findTool(run.Project, with.Command[0])
	if err != nil {
		return nil, err
	}
	t.path = path
	return t, t.add(path, 0)
}

// findTool resolves a command: a name by PATH, anything with a slash below the project.
func findTool(project, name string) (string, error) {
	if strings.ContainsAny(name, `/\`) {
		name = below(project, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("command: %w", err)
	}
	return filepath.Abs(path)
}

// add hashes a program, and what it needs to run: an interpreter for a script, libraries for an ELF file.
func (t *tool) add(path string, depth int) error {
	if err := t.hash("tool/", path); err != nil {
		return err
	}
	if interpreter, err := shebang(path); err != nil || interpreter != "" {
		if err != nil || depth >= maxInterpreters {
			return errors.Join(err, fmt.Errorf("%s: its interpreter cannot be resolved", path))
		}
		return t.add(interpreter, depth+1)
	}
	return t.libraries(path, map[string]bool{})
}

func (t *tool) hash(role, path string) error {
	sums, err := digest.File(context.Background(), path)
	if err != nil {
		return err
	}
	name := role + filepath.Base(path)
	if slices.ContainsFunc(t.dependencies, func(d Dependency) bool { return d.Name == name && d.Digest != sums.SHA256 }) {
		name += "@" + sums.SHA256.Encoded()[:12]
	}
	t.dependencies = append(t.dependencies, Dependency{Name: name, Digest: sums.SHA256})
	return nil
}

// shebang returns the interpreter of a script; empty when it is none.
func shebang(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 512)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) || !strings.HasPrefix(line, "#!") {
		return "", nil
	}
	words := strings.Fields(line[2:])
	if len(words) > 1 && filepath.Base(words[0]) == "env" {
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") })
	}
	if len(words) == 0 {
		return "", fmt.Errorf("%s: its first line names no interpreter", path)
	}
	return exec.LookPath(words[0])
}

// libraries follows DT_NEEDED (System V ABI, dynamic linking) from one ELF
// file, in the order of ld.so(8): DT_RPATH or DT_RUNPATH, LD_LIBRARY_PATH, the system's folders.
func (t *tool) libraries(path string, seen map[string]bool) error {
	f, err := elf.Open(path)
	if err != nil {
		return nil // not ELF: another system's binary, whose libraries are not looked at
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil // no dynamic section: it needs none
	}
	for _, name := range needed {
		if seen[name] {
			continue
		}
		if seen[name] = true; len(seen) > maxLibraries {
			return fmt.Errorf("%s: it needs more than %d libraries", t.path, maxLibraries)
		}
		found := find(name, t.searchPath(f, path))
		switch {
		case found == "" && find(name, systemFolders()) != "":
			t.system = append(t.system, name)
		case found == "":
			t.unresolved = append(t.unresolved, name)
		case isSystem(found):
			t.system = append(t.system, name)
		default:
			if err := t.hash("library/", found); err != nil {
				return err
			}
			if err := t.libraries(found, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// searchPath are the folders in which a file's libraries are looked for before the system's.
func (t *tool) searchPath(f *elf.File, path string) []string {
	var list []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		values, _ := f.DynString(tag)
		for _, v := range values {
			list = append(list, strings.Split(v, ":")...)
		}
	}
	for _, e := range t.env {
		if v, ok := strings.CutPrefix(e, "LD_LIBRARY_PATH="); ok {
			list = append(list, strings.Split(v, ":")...)
		}
	}
	origin := filepath.Dir(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		origin = filepath.Dir(real)
	}
	for i, dir := range list {
		list[i] = strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin).Replace(dir)
	}
	return append(list, "/usr/local/lib", "/usr/local/lib64")
}

func systemFolders() []string {
	list := []string{"/lib64", "/lib", "/usr/lib64", "/usr/lib", "/lib32", "/usr/lib32"}
	for _, pattern := range []string{"/lib/*-linux-*", "/usr/lib/*-linux-*"} {
		more, _ := filepath.Glob(pattern) // only a malformed pattern fails
		list = append(list, more...)
	}
	return list
}

func isSystem(path string) bool {
	return slices.ContainsFunc([]string{"/lib/", "/lib64/", "/lib32/", "/usr/lib/", "/usr/lib64/", "/usr/lib32/"}, func(p string) bool { return strings.HasPrefix(path, p) })
}

func find(name string, folders []string) string {
	for _, dir := range folders {
		path := filepath.Join(dir, name)
		if strings.Contains(name, "/") {
			path = name
		}
		if st, err := os.Stat(path); filepath.IsAbs(path) && err == nil && st.Mode().IsRegular() {
			return filepath.Clean(path)
		}
	}
	return ""
}
