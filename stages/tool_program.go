package stages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// program is what a command resolved to: the files that will run, as the box
// sees them, each with its digest.
type program struct {
	path         string // absolute, on the host
	dependencies []Dependency
	hashed       map[string]godigest.Digest // by host path
	order        []string                   // the host paths, as they were hashed
	further      []isolation.Mount          // of them, what the box does not show yet, at the path that is asked for
	system       []string                   // libraries that the operating system brings: named, not hashed
	unresolved   []string                   // libraries that were not found

	ctx     context.Context
	view    view
	dir     string   // the working directory on the host
	library []string // LD_LIBRARY_PATH
	watch   watched
}

const (
	maxInterpreters = 4
	maxLibraries    = 500
)

func resolveProgram(ctx context.Context, c toolCommand, dir string, v view, watch watched) (*program, error) {
	p := &program{hashed: map[string]godigest.Digest{}, system: []string{}, unresolved: []string{}, ctx: ctx, view: v, dir: dir, watch: watch}
	for _, e := range c.Env {
		if list, ok := strings.CutPrefix(e, "LD_LIBRARY_PATH="); ok {
			p.library = strings.Split(list, ":")
		}
	}
	real, err := filepath.EvalSymlinks(c.Program)
	if err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	p.path = real
	if v.shows(v.inside(c.Program)) { // the name by which it is called tells some programs what to be
		p.path = c.Program
	}
	return p, p.add(real, p.path, 0)
}

// add hashes a program, called by a host path, and what it needs to run: an interpreter for a script, libraries for an ELF file.
func (p *program) add(path, called string, depth int) error {
	if err := p.hash("tool/", path, p.view.inside(called)); err != nil {
		return err
	}
	interpreter, err := shebang(path)
	if err != nil {
		return err
	}
	if interpreter == nil {
		return p.libraries(path)
	}
	if depth >= maxInterpreters {
		return fmt.Errorf("%s: its interpreter cannot be resolved: more than %d lead to one another", path, maxInterpreters)
	}
	for _, name := range interpreter { // env(1) runs as well
		found, err := lookInBox(name, p.view)
		if err != nil {
			return fmt.Errorf("%s: its interpreter: %w", path, err)
		}
		real, err := filepath.EvalSymlinks(found)
		if err != nil {
			return fmt.Errorf("%s: its interpreter: %w", path, err)
		}
		if err := p.add(real, found, depth+1); err != nil { // found is the host's: the system's, or below a mount
			return err
		}
	}
	return nil
}

// hash takes the digest of a file that will run. Inside is the path in the box by which it is found.
func (p *program) hash(role, path, inside string) error {
	if _, done := p.hashed[path]; done {
		return nil
	}
	if err := errors.Join(p.watch.add(path), p.watch.add(p.view.host(inside))); err != nil {
		return err
	}
	sums, err := digest.File(p.ctx, path)
	if err != nil {
		return err
	}
	p.hashed[path], p.order = sums.SHA256, append(p.order, path)
	if !p.view.shows(inside) {
		p.further = append(p.further, isolation.Mount{Name: "file/" + filepath.Base(path), Host: path, Inside: inside})
	}
	name := role + filepath.Base(inside)
	if slices.ContainsFunc(p.dependencies, func(d Dependency) bool { return d.Name == name && d.Digest != sums.SHA256 }) {
		name += "@" + sums.SHA256.Encoded()[:12]
	}
	p.dependencies = append(p.dependencies, Dependency{Name: name, Digest: sums.SHA256})
	return nil
}

// rehash reads the files that ran again.
func (p *program) rehash(ctx context.Context) error {
	for _, path := range p.order {
		sums, err := digest.File(ctx, path)
		if err != nil {
			return fmt.Errorf("%s, hashed before the command ran: %w", filepath.Base(path), err)
		}
		if sums.SHA256 != p.hashed[path] {
			return fmt.Errorf("%s changed between being hashed and having run: got %s, want %s", filepath.Base(path), sums.SHA256, p.hashed[path])
		}
	}
	return nil
}

// boxPath is the end of a box's PATH; bin of each root that is not writable comes before it.
var boxPath = []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"}

// findTool resolves a command to an absolute host path: a bare name in bin of
// the roots and then on the box's own PATH, anything with a slash below the project.
func findTool(project, name string, roots []string) (string, error) {
	if strings.ContainsAny(name, `/\`) {
		path, err := exec.LookPath(below(project, name))
		if err != nil {
			return "", fmt.Errorf("command: %w", err)
		}
		return filepath.Abs(path)
	}
	folders := []string{}
	for _, root := range roots {
		folders = append(folders, filepath.Join(root, "bin"))
	}
	if path := firstIn(append(folders, boxPath...), name); path != "" {
		return path, nil
	}
	if runtime.GOOS == "windows" {
		return exec.LookPath(name)
	}
	return "", fmt.Errorf("command: %q: executable file not found in %s, nor in bin of a root; name it by its path, or let its folder in under box.roots", name, strings.Join(boxPath, ":"))
}

func firstIn(folders []string, name string) string {
	for _, dir := range folders {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// lookInBox finds an interpreter as the box does, and gives its host path.
func lookInBox(name string, v view) (string, error) {
	if strings.Contains(name, "/") {
		return exec.LookPath(v.host(name))
	}
	folders := []string{}
	for _, dir := range v.path {
		folders = append(folders, v.host(dir))
	}
	if path := firstIn(folders, name); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("%q: executable file not found on the box's PATH", name)
}

// shebang returns the interpreters of a script, as its first line names them; nil when it is none.
func shebang(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 512)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) || !strings.HasPrefix(line, "#!") {
		return nil, nil
	}
	words := strings.Fields(line[2:])
	if len(words) == 0 {
		return nil, fmt.Errorf("%s: its first line names no interpreter", path)
	}
	if filepath.Base(words[0]) != "env" {
		return words[:1], nil
	}
	named := slices.DeleteFunc(slices.Clone(words[1:]), func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") })
	if len(named) == 0 {
		return nil, fmt.Errorf("%s: its first line names no interpreter", path)
	}
	return []string{words[0], named[0]}, nil
}
