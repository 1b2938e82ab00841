package stages

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// loaded is one ELF file in the chain of those that load it.
type loaded struct {
	path   string // in the box
	file   *elf.File
	loader *loaded
}

// libraries follows DT_NEEDED (System V ABI, dynamic linking) breadth first from
// one ELF file, as ld.so(8) does. A file that is not ELF is another system's
// program, whose libraries are not looked at.
func (p *program) libraries(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	first := &loaded{path: p.view.inside(path), file: f}
	open := []*elf.File{f}
	defer func() {
		for _, f := range open {
			f.Close()
		}
	}()
	if err := p.interpreter(f); err != nil {
		return err
	}
	seen := map[string]bool{}
	for queue := []*loaded{first}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		needed, err := at.file.ImportedLibraries()
		if err != nil {
			continue // no dynamic section: it needs none
		}
		for _, name := range needed {
			if seen[name] {
				continue
			}
			if seen[name] = true; len(seen) > maxLibraries {
				return fmt.Errorf("%s: it needs more than %d libraries", path, maxLibraries)
			}
			found, f, err := p.findLibrary(name, at)
			if err != nil {
				return err
			}
			if f != nil {
				open = append(open, f)
				queue = append(queue, &loaded{path: found, file: f, loader: at})
			}
		}
	}
	return nil
}

// interpreter hashes the dynamic loader that the program names, where it is not the system's.
func (p *program) interpreter(f *elf.File) error {
	for _, segment := range f.Progs {
		if segment.Type != elf.PT_INTERP || segment.Filesz == 0 || segment.Filesz > 4096 {
			continue
		}
		body := make([]byte, segment.Filesz)
		if _, err := segment.ReadAt(body, 0); err != nil {
			return fmt.Errorf("the program's loader: %w", err)
		}
		inside := strings.TrimRight(string(body), "\x00")
		if isSystem(inside) {
			p.system = appendNew(p.system, filepath.Base(inside))
			return nil
		}
		real, err := filepath.EvalSymlinks(p.view.host(inside))
		if err != nil {
			return fmt.Errorf("the program's loader: %w", err)
		}
		return p.hash("library/", real, inside)
	}
	return nil
}

// findLibrary resolves one needed name. The file is given when it is to be followed.
func (p *program) findLibrary(name string, at *loaded) (string, *elf.File, error) {
	folders, err := p.searchPath(at)
	if err != nil {
		return "", nil, err
	}
	candidates := []string{p.absolute(name)}
	if !strings.Contains(name, "/") {
		candidates = nil
		for _, dir := range folders {
			if err := p.refuseVariants(dir); err != nil {
				return "", nil, err
			}
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	for _, inside := range candidates {
		path := p.view.host(inside)
		f, ok := openSameClass(path, at.file)
		if !ok {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err == nil && isSystem(inside) && isSystem(real) {
			f.Close()
			p.system = appendNew(p.system, name)
			return "", nil, nil
		}
		if err == nil {
			err = p.hash("library/", real, inside)
		}
		if err != nil {
			f.Close()
			return "", nil, err
		}
		return inside, f, nil
	}
	p.unresolved = appendNew(p.unresolved, name)
	return "", nil, nil
}

// searchPath are the folders, in the box, in which a file's libraries are looked for: DT_RPATH
// of the file and of those that load it where the file has no DT_RUNPATH, then
// LD_LIBRARY_PATH, then DT_RUNPATH, then the system's.
func (p *program) searchPath(at *loaded) ([]string, error) {
	var list []string
	take := func(l *loaded, entries []string) error {
		for _, dir := range strings.Split(strings.Join(entries, ":"), ":") {
			dir = strings.NewReplacer("${ORIGIN}", filepath.Dir(l.path), "$ORIGIN", filepath.Dir(l.path)).Replace(dir)
			if strings.Contains(dir, "$") {
				return fmt.Errorf("%s: its library path %q names what only the loader knows; link it with $ORIGIN or an absolute path", filepath.Base(l.path), dir)
			}
			list = append(list, p.absolute(dir))
		}
		return nil
	}
	runpath, _ := at.file.DynString(elf.DT_RUNPATH)
	if len(runpath) == 0 {
		for l := at; l != nil; l = l.loader {
			rpath, _ := l.file.DynString(elf.DT_RPATH)
			if len(rpath) == 0 {
				continue
			}
			if err := take(l, rpath); err != nil {
				return nil, err
			}
		}
	}
	for _, dir := range p.library {
		list = append(list, p.absolute(dir))
	}
	if len(runpath) > 0 {
		if err := take(at, runpath); err != nil {
			return nil, err
		}
	}
	return append(append(list, "/usr/local/lib", "/usr/local/lib64"), systemFolders()...), nil
}

// absolute is a path that the loader opens: an empty or relative one is below the working directory.
func (p *program) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(p.view.inside(p.dir), path)
}

// variants are subfolders that ld.so prefers when the processor has what they are named after.
var variants = []string{"glibc-hwcaps", "tls", "x86_64", "haswell", "xeon_phi", "avx512_1"}

func (p *program) refuseVariants(dir string) error {
	if isSystem(dir) {
		return nil
	}
	for _, v := range variants {
		if st, err := os.Stat(filepath.Join(p.view.host(dir), v)); err == nil && st.IsDir() {
			return fmt.Errorf("library folder %s has a subfolder %s: which file is loaded depends on the processor; take that subfolder away", dir, v)
		}
	}
	return nil
}

// openSameClass opens a library that the loader would take: one of another machine or word size is passed over.
func openSameClass(path string, like *elf.File) (*elf.File, bool) {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return nil, false
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil, false
	}
	if f.Class != like.Class || f.Machine != like.Machine {
		f.Close()
		return nil, false
	}
	return f, true
}

func systemFolders() []string {
	list := []string{"/lib64", "/lib", "/usr/lib64", "/usr/lib", "/lib32", "/usr/lib32"}
	for _, pattern := range []string{"/lib/*-linux-*", "/usr/lib/*-linux-*"} {
		more, _ := filepath.Glob(pattern) // only a malformed pattern fails
		list = append(list, more...)
	}
	return list
}

// isSystem tells of a library, or a folder of them, whether the operating system brings it.
func isSystem(path string) bool {
	return slices.ContainsFunc([]string{"/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64", "/usr/lib32"}, func(dir string) bool {
		_, ok := under(dir, path)
		return ok
	})
}

func appendNew(list []string, name string) []string {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}
