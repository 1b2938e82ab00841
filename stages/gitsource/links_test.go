package gitsource

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
)

// withLink is a repository that has a link, exported.
func withLink(t *testing.T) (*Tree, string) {
	t.Helper()
	dir, _ := repository(t)
	if err := os.Symlink("src/main.c", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "a link")
	tree, out, err := take(t, dir, git(t, dir, "rev-parse", "HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	return tree, out
}

// A link that a patch makes leads wherever it wants; each of these spells it
// in a way that git takes and that names no mode of a link in its usual form.
func TestAPatchMakesNoLinkInAnySpelling(t *testing.T) {
	const target = "--- /dev/null\n+++ b/evil\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n"
	const retarget = "@@ -1 +1 @@\n-src/main.c\n\\ No newline at end of file\n+/etc/passwd\n\\ No newline at end of file\n"
	for name, patch := range map[string]string{
		"a mode with a leading zero":      "diff --git a/evil b/evil\nnew file mode 0120000\n" + target,
		"a mode with a space after it":    "diff --git a/evil b/evil\nnew file mode 120000 \n" + target,
		"a mode with a tab after it":      "diff --git a/evil b/evil\nnew file mode 120000\t\n" + target,
		"a link copied under a new name":  "diff --git a/link b/evil\nsimilarity index 100%\ncopy from link\ncopy to evil\n",
		"a link renamed":                  "diff --git a/link b/evil\nsimilarity index 100%\nrename from link\nrename to evil\n",
		"a link copied and led elsewhere": "diff --git a/link b/evil\nsimilarity index 50%\ncopy from link\ncopy to evil\n--- a/link\n+++ b/evil\n" + retarget,
		"a link deleted":                  "diff --git a/link b/link\ndeleted file mode 0120000\n--- a/link\n+++ /dev/null\n@@ -1 +0,0 @@\n-src/main.c\n\\ No newline at end of file\n",
	} {
		t.Run(name, func(t *testing.T) {
			tree, dir := withLink(t)
			file := filepath.Join(t.TempDir(), "p.diff")
			write(t, file, patch)
			err := Apply(t.Context(), tree, dir, file)
			if err == nil || !strings.Contains(err.Error(), "link") {
				to, _ := os.Readlink(filepath.Join(dir, "evil"))
				t.Errorf("got %v, and a link to %q; want a refusal that names the link", err, to)
			}
			if _, err := os.Lstat(filepath.Join(dir, "evil")); err == nil {
				t.Error("the patch left something behind")
			}
		})
	}
}

// TestATreeThatMultipliesItselfIsCut: a few hundred bytes of objects that unfold to more folders, or links, than a disk holds.
func TestATreeThatMultipliesItselfIsCut(t *testing.T) {
	for name, leaf := range map[string]string{"empty folders": "", "links": "120000 blob %s\tx\n"} {
		t.Run(name, func(t *testing.T) {
			dir, _ := repository(t)
			blob := strings.TrimSpace(gitIn(t, dir, "x", "hash-object", "-w", "--stdin"))
			if leaf != "" {
				leaf = fmt.Sprintf(leaf, blob)
			}
			id := strings.TrimSpace(gitIn(t, dir, leaf, "mktree"))
			for range 3 {
				var list strings.Builder
				for i := range 30 {
					fmt.Fprintf(&list, "040000 tree %s\td%02d\n", id, i)
				}
				id = strings.TrimSpace(gitIn(t, dir, list.String(), "mktree"))
			}
			commit := git(t, dir, "commit-tree", "-m", "bomb", id)
			old := maxEntries
			maxEntries = 1000
			defer func() { maxEntries = old }()
			_, _, err := take(t, "file://"+dir, commit)
			if err == nil || !strings.Contains(err.Error(), "more than 1000 files, folders and links") {
				t.Errorf("got %v, want a refusal by number", err)
			}
		})
	}
}

// gitIn runs git with a standard input.
func gitIn(t *testing.T, dir, in string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		shared.Missing(t, "git is not installed")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}
