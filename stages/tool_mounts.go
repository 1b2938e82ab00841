package stages

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// inputMounts lets every input in, read-only: a folder as its role, a file below its role.
func inputMounts(run *Run) []isolation.Mount {
	var list []isolation.Mount
	for _, role := range sortedKeys(run.Inputs) {
		a := run.Inputs[role]
		m := isolation.Mount{Name: "input/" + role, Host: a.Path, Inside: isolation.InsideInputs + role}
		if !a.Multi {
			m.Inside += "/" + filepath.Base(a.Path)
		}
		list = append(list, m)
	}
	return list
}

// rootPaths are the host paths of the folders that a box lets in to be read, in
// the order of their names: that of their bin folders on the box's PATH.
func rootPaths(run *Run, box schemas.Box) []string {
	roots := slices.DeleteFunc(slices.Clone(box.Roots), func(r schemas.BoxRoot) bool { return r.Write })
	slices.SortFunc(roots, func(a, b schemas.BoxRoot) int { return strings.Compare(a.Name, b.Name) })
	var list []string
	for _, r := range roots {
		list = append(list, below(run.Project, r.Path))
	}
	return list
}

// toolArguments puts the paths in that the box has.
func toolArguments(run *Run, c toolCommand, box *isolation.Box, roots []schemas.BoxRoot) ([]string, error) {
	pairs := []string{"{out}", box.Inside(run.Dir)}
	for role, in := range run.Inputs {
		pairs = append(pairs, "{input/"+role+"}", box.Inside(in.Path))
	}
	for _, r := range roots {
		pairs = append(pairs, "{root/"+r.Name+"}", box.Inside(r.Path))
	}
	if c.packages != "" {
		pairs = append(pairs, "{packages}", box.Inside(c.packages))
	}
	put := strings.NewReplacer(pairs...)
	args := make([]string, len(c.Args))
	for i, a := range c.Args {
		args[i] = put.Replace(a)
		for _, kind := range []string{"input", "root"} {
			if _, rest, found := strings.Cut(args[i], "{"+kind+"/"); found {
				name, _, _ := strings.Cut(rest, "}")
				return nil, fmt.Errorf("argument %d: there is no %s %q; name its stage under inputs, or the root under box", i+1, kind, name)
			}
		}
	}
	return args, nil
}

// view is what the box shows of the host, and under which paths.
type view struct {
	inside func(host string) string
	mounts []viewed
	all    bool     // nothing is hidden and nothing renamed
	path   []string // the box's PATH, as folders in it
}

type viewed struct{ name, inside, host string }

func newView(box *isolation.Box, roots []schemas.BoxRoot, mounts []isolation.Mount) view {
	v := view{all: box.Method() == isolation.None, inside: box.Inside}
	add := func(name, host string, write bool) {
		at := box.Inside(host)
		v.mounts = append(v.mounts, viewed{name, at, host})
		if strings.HasPrefix(name, "root/") && !write && isFolder(filepath.Join(host, "bin")) {
			v.path = append(v.path, filepath.Join(at, "bin"))
		}
	}
	for _, m := range mounts {
		add(m.Name, m.Host, m.Write)
	}
	for _, r := range roots {
		add("root/"+r.Name, r.Path, r.Write)
	}
	slices.Sort(v.path)
	v.path = append(v.path, boxPath...)
	return v
}

func isFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// host gives the host path behind a path in the box. What no mount covers keeps
// its path: it is the system's, or has to be let in at that path.
func (v view) host(inside string) string {
	best, path := -1, inside
	for _, m := range v.mounts {
		if rest, ok := under(m.inside, inside); ok && len(m.inside) > best {
			best, path = len(m.inside), filepath.Join(m.host, rest)
		}
	}
	return path
}

// name is a host file as a record may call it: by its mount, by its path where
// it is the system's, else by its base name. No path of the machine is in it.
func (v view) name(host string) string {
	best, name := -1, filepath.Base(host)
	for _, m := range v.mounts {
		if rest, ok := under(m.host, host); ok && len(m.host) > best {
			best, name = len(m.host), "{"+m.name+"}"
			if rest != "" {
				name += "/" + filepath.ToSlash(rest)
			}
		}
	}
	if best < 0 && slices.ContainsFunc(systemTop, func(dir string) bool { _, ok := under(dir, host); return ok }) {
		return host
	}
	return name
}

// shows tells whether there is something at a path in the box without a further mount.
func (v view) shows(inside string) bool {
	if v.all {
		return true
	}
	for _, dir := range systemTop {
		if _, ok := under(dir, inside); ok {
			return true
		}
	}
	return slices.ContainsFunc(v.mounts, func(m viewed) bool {
		_, ok := under(m.inside, inside)
		return ok
	})
}

// systemTop are the folders of the system that every box shows.
var systemTop = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// under gives the rest of a path below a folder, or of the folder itself.
func under(folder, path string) (rest string, ok bool) {
	folder, path = filepath.Clean(folder), filepath.Clean(path)
	if folder == path {
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(folder, string(filepath.Separator))+string(filepath.Separator))
}
