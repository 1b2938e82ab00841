package isolation

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Where a box of bubblewrap, which renames what it lets in, has its parts: absolute paths; those of inputs and roots end with a slash.
const (
	InsideInputs = insideBase + "/in/"   // and the role
	InsideOut    = insideBase + "/out"   // the stage's own folder
	InsideRoots  = insideBase + "/root/" // and the root's name
)

// Folders of the box as bubblewrap makes it.
const (
	insideBase = "/work"
	insideHome = insideBase + "/home"
	guardPath  = insideBase + "/guard"
)

// place checks the mounts and gives each its place.
func (b *Box) place() error {
	list := slices.Clone(b.profile.Mounts)
	for _, r := range b.profile.Box.Roots {
		list = append(list, Mount{Name: "root/" + r.Name, Host: r.Path, Write: r.Write})
	}
	b.system = systemPaths()
	for _, m := range list {
		p, err := placeOne(m)
		if err != nil {
			return err
		}
		b.mounts = append(b.mounts, p)
	}
	// The longest path first: it decides what a file's place is.
	slices.SortStableFunc(b.mounts, func(x, y placed) int { return cmp.Compare(len(y.real), len(x.real)) })
	if err := b.refuse(); err != nil {
		return err
	}
	if b.method == None || b.profile.Dir == "" {
		return nil
	}
	for _, m := range b.mounts {
		if _, ok := within(filepath.Clean(b.profile.Dir), m.Host); ok && m.Write {
			return nil
		}
		if _, ok := within(filepath.Clean(b.profile.Dir), m.real); ok && m.Write {
			return nil
		}
	}
	return fmt.Errorf("box: the working directory %q lies below no writable mount", b.profile.Dir)
}

func placeOne(m Mount) (placed, error) {
	fail := func(format string, args ...any) (placed, error) {
		return placed{}, fmt.Errorf("box: mount %s: %s", m.Name, fmt.Sprintf(format, args...))
	}
	if m.Name == "" || !filepath.IsLocal(m.Name) {
		return placed{}, fmt.Errorf("box: mount %q: got no name of the form role or role/name", m.Name)
	}
	if !filepath.IsAbs(m.Host) {
		return fail("got the path %q, want an absolute one", m.Host)
	}
	m.Host = filepath.Clean(m.Host)
	real, err := filepath.EvalSymlinks(m.Host)
	if err != nil {
		return fail("%v", err)
	}
	st, err := os.Stat(real)
	if err != nil {
		return fail("%v", err)
	}
	if !st.IsDir() && !st.Mode().IsRegular() {
		return fail("%s is a %s, want a folder or a regular file", m.Host, st.Mode().Type())
	}
	if m.Inside == "" {
		m.Inside = insideOf(m, st.IsDir())
	}
	if !filepath.IsAbs(m.Inside) || filepath.Clean(m.Inside) != m.Inside {
		return fail("got the place %q, want an absolute and clean path", m.Inside)
	}
	return placed{Mount: m, real: real, dir: st.IsDir()}, nil
}

func insideOf(m Mount, dir bool) string {
	role, rest, _ := strings.Cut(m.Name, "/")
	switch {
	case role == "input":
		if !dir {
			return filepath.Join(InsideInputs, rest, filepath.Base(m.Host))
		}
		return filepath.Join(InsideInputs, rest)
	case m.Name == "out" || role == "root":
		return filepath.Join(insideBase, m.Name)
	}
	return m.Host
}

// shows tells whether a program lies where the box has it.
func (b *Box) shows(program string) error {
	if b.method == None {
		return nil
	}
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return fmt.Errorf("box: program: %w", err)
	}
	for _, path := range []string{filepath.Clean(program), real} {
		found := false
		for _, s := range b.system {
			_, ok := within(path, s)
			found = found || ok
		}
		for _, m := range b.mounts {
			_, host := within(path, m.Host)
			_, under := within(path, m.real)
			if host || under {
				if m.Write && !b.profile.RunsProducts {
					return fmt.Errorf("box: program %s lies below the writable mount %s, where nothing may be run", program, m.Name)
				}
				found = true
			}
		}
		if !found {
			return fmt.Errorf("box: program %s is not in the box; it lies neither in a folder of the system nor below a mount: let its folder in under box.roots", path)
		}
	}
	return nil
}

// within gives path relative to base, when it is base or lies below it. Both are clean.
func within(path, base string) (string, bool) {
	if path == base {
		return "", true
	}
	if base != string(filepath.Separator) {
		base += string(filepath.Separator)
	}
	return strings.CutPrefix(path, base)
}
