package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/digest"
)

var (
	ownMode = regexp.MustCompile(`(?m)^(?:new file mode|old mode|new mode|deleted file mode|index [0-9a-f]+\.\.[0-9a-f]+) (120000|160000)\r?$`)
	failed  = regexp.MustCompile(`(?m)^error: patch failed: (.+):([0-9]+)$`)
)

// Apply applies a patch in a folder that Export made. The patch is a file
// outside of it. It refuses a patch that was applied already, one that does not
// apply as a whole (naming file and hunk), and one that touches a link, a
// submodule, .git or anything outside the folder. Nothing is changed then, but
// by a patch that makes a link in a way that shows only afterwards: such links
// are removed again, and the folder is not to be used.
func Apply(ctx context.Context, t *Tree, dir, patch string) error {
	body, err := os.ReadFile(patch)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	// Were an enclosing repository found, git would skip what lies outside of this folder without a word.
	apply := func(args ...string) ([]byte, error) {
		args = append(append([]string{"apply", "--whitespace=nowarn"}, args...), patch)
		return call{dir: real, ceiling: filepath.Dir(real), args: args}.run(ctx)
	}
	if m := ownMode.FindSubmatch(body); m != nil {
		return fmt.Errorf("patch: it makes or changes a link or a submodule (mode %s), want plain files only", m[1])
	}
	listed, err := apply("--numstat", "-z")
	if err != nil {
		return fmt.Errorf("patch: it cannot be read as one: %w", err)
	}
	if err := checkTouched(t, string(listed)); err != nil {
		return err
	}
	if _, err := apply("--check"); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, reverse := apply("--check", "--reverse"); reverse == nil {
			return errors.New("patch: it is applied already: the commit has its changes (git apply --reverse --check); take the commit before it, or leave the patch away")
		}
		return fmt.Errorf("patch: it does not apply to commit %s: %w; it was made for another commit", t.Commit, refusal(err, string(body)))
	}
	before, err := links(real)
	if err != nil {
		return err
	}
	if _, err := apply(); err != nil {
		return err
	}
	return sameLinks(real, before)
}

// links are the symbolic links below a folder with what they lead to.
func links(dir string) (map[string]string, error) {
	list := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink == 0 {
			return err
		}
		list[path], err = os.Readlink(path)
		return err
	})
	return list, err
}

// sameLinks refuses a folder in which a patch made or changed a link. Git reads
// modes in more spellings than one, and copies or renames a link without naming
// its mode, so what is there afterwards counts.
func sameLinks(dir string, before map[string]string) error {
	now, err := links(dir)
	if err != nil {
		return err
	}
	var fault error
	for path, to := range now {
		if was, ok := before[path]; ok && was == to {
			continue
		}
		name, _ := filepath.Rel(dir, path)
		fault = fmt.Errorf("patch: it makes or changes the link %s, want plain files only", name)
		if err := os.Remove(path); err != nil {
			return errors.Join(fault, err)
		}
	}
	for path := range before {
		if _, ok := now[path]; !ok && fault == nil {
			name, _ := filepath.Rel(dir, path)
			fault = fmt.Errorf("patch: it removes or replaces the link %s, want plain files only", name)
		}
	}
	return fault
}

// checkTouched looks at the names that a patch changes: added, deleted and name, each ended by NUL.
func checkTouched(t *Tree, listed string) error {
	if listed == "" {
		return errors.New("patch: it changes nothing")
	}
	for _, line := range strings.Split(strings.TrimSuffix(listed, "\x00"), "\x00") {
		fields := strings.SplitN(line, "\t", 3)
		name := fields[len(fields)-1]
		if err := digest.CheckName(name); err != nil {
			return fmt.Errorf("patch: it touches a path outside of the source: %w", err)
		}
		parts := strings.Split(name, "/")
		for i, part := range parts {
			if err := checkElement(part); err != nil {
				return fmt.Errorf("patch: it touches %s: %w", name, err)
			}
			if above := strings.Join(parts[:i+1], "/"); t.Files[above].Mode == modeLink {
				return fmt.Errorf("patch: it touches %s by the link %s, want plain files only", name, above)
			}
		}
	}
	return nil
}

// refusal names the file and the hunk in which a patch does not apply.
func refusal(err error, patch string) error {
	var git *gitError
	if !errors.As(err, &git) {
		return err
	}
	m := failed.FindStringSubmatch(git.said)
	if m == nil {
		return errors.New(strings.ReplaceAll(strings.TrimPrefix(git.said, "error: "), "\nerror: ", "; "))
	}
	return fmt.Errorf("%s, hunk %s", m[1], hunk(patch, m[1], m[2]))
}

// hunk finds the header of a file's hunk that starts at a line.
func hunk(patch, file, line string) string {
	current := ""
	for _, l := range strings.Split(patch, "\n") {
		switch {
		case strings.HasPrefix(l, "--- "), strings.HasPrefix(l, "+++ "):
			name := strings.TrimSuffix(l[4:], "\r")
			if _, short, ok := strings.Cut(name, "/"); ok && name != os.DevNull {
				current = short
			}
		case current == file && strings.HasPrefix(l, "@@ -"+line) && strings.IndexAny(l[len("@@ -"+line):], ", ") == 0:
			return strings.TrimSpace(l)
		}
	}
	return "at line " + line
}
