package gitsource

import (
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
)

const program = "int a = 1;\nint b = 2;\nint c = 3;\nint d = 4;\nint e = 5;\n"

// change is a patch of program's third line.
const change = "--- a/src/main.c\n+++ b/src/main.c\n@@ -1,5 +1,5 @@\n int a = 1;\n int b = 2;\n-int c = 3;\n+int c = 33;\n int d = 4;\n int e = 5;\n"

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		shared.Missing(t, "git is not installed")
	}
	cmd := exec.Command(path, append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t testing.TB, path, body string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

// repository makes a checkout with one commit.
func repository(t testing.TB) (dir, commit string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "upstream")
	write(t, filepath.Join(dir, "src", "main.c"), program)
	write(t, filepath.Join(dir, "README"), "words\n")
	write(t, filepath.Join(dir, ".gitignore"), "build/\n")
	write(t, filepath.Join(dir, "configure"), "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(dir, "configure"), 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "first")
	return dir, git(t, dir, "rev-parse", "HEAD")
}

// take opens, looks at and exports.
func take(t testing.TB, from, commit string) (*Tree, string, error) {
	t.Helper()
	temp := t.TempDir()
	s, err := Open(t.Context(), from, commit, filepath.Join(temp, "git"))
	if err != nil {
		return nil, "", err
	}
	if err := s.Clean(t.Context(), commit); err != nil {
		return nil, "", err
	}
	dir := filepath.Join(temp, "tree")
	tree, err := s.Export(t.Context(), commit, dir)
	return tree, dir, err
}

func refused(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("got %v, want %q in it", err, w)
		}
	}
}

func TestExportIsTheCommit(t *testing.T) {
	dir, commit := repository(t)
	write(t, filepath.Join(dir, "build", "out.o"), "ignored by the commit's own .gitignore")
	bare := filepath.Join(t.TempDir(), "bare.git")
	git(t, dir, "clone", "-q", "--bare", dir, bare)
	worktree := filepath.Join(t.TempDir(), "second")
	git(t, dir, "worktree", "add", "-q", "--detach", worktree)
	for name, from := range map[string]string{"checkout": dir, "bare": bare, "file": "file://" + dir, "worktree": worktree} {
		t.Run(name, func(t *testing.T) {
			tree, out, err := take(t, from, commit)
			if err != nil {
				t.Fatal(err)
			}
			if want := git(t, dir, "rev-parse", commit+"^{tree}"); tree.ID != want || len(tree.Files) != 4 {
				t.Errorf("tree %s with %d files, want %s with 4", tree.ID, len(tree.Files), want)
			}
			body, err := os.ReadFile(filepath.Join(out, "src", "main.c"))
			if err != nil || string(body) != program {
				t.Errorf("main.c %q, %v", body, err)
			}
			st, err := os.Stat(filepath.Join(out, "configure"))
			if err != nil || runtime.GOOS != "windows" && st.Mode().Perm()&0o100 == 0 || tree.Files["configure"].Mode != "100755" {
				t.Errorf("configure: %v, %v", st.Mode(), err)
			}
		})
	}
}

func TestWhatIsNoCleanCheckoutIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(t *testing.T, dir string)
		want string
	}{
		"a changed file":      {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "src", "main.c"), program+"int f;\n") }, `"src/main.c" is changed`},
		"a staged change":     {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "README"), "x"); git(t, dir, "add", "-A") }, `"README" is changed`},
		"an untracked file":   {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "new.c"), "x") }, `"new.c" is untracked`},
		"a file that is gone": {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "README")) }, `"README" is gone`},
		"assume-unchanged": {func(t *testing.T, dir string) {
			git(t, dir, "update-index", "--assume-unchanged", "README")
			write(t, filepath.Join(dir, "README"), "x")
		}, `"README" is changed`},
		"hidden by exclude": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".git", "info", "exclude"), "*.c\n")
			write(t, filepath.Join(dir, "new.c"), "x")
		}, `"new.c" is untracked`},
		"a commit on top": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "new.c"), "x")
			git(t, dir, "add", "-A")
			git(t, dir, "commit", "-q", "-m", "second")
		}, "want commit"},
		"no repository at all": {func(t *testing.T, dir string) { os.RemoveAll(filepath.Join(dir, ".git")) }, "it is no git repository"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, commit := repository(t)
			c.edit(t, dir)
			_, _, err := take(t, dir, commit)
			refused(t, err, c.want)
		})
	}
}

func TestCommitsThatAreNone(t *testing.T) {
	dir, commit := repository(t)
	for _, name := range []string{"", "main", "HEAD", commit[:12], strings.ToUpper(commit), commit + "0", "refs/heads/main"} {
		_, _, err := take(t, dir, name)
		refused(t, err, "want a full commit id")
	}
	_, _, err := take(t, "file://"+dir, strings.Repeat("1", 40))
	refused(t, err, "is not in the repository", "missing")
	_, _, err = take(t, "file://"+dir, git(t, dir, "rev-parse", "HEAD:README"))
	refused(t, err, "got a blob, want a commit")
}

// A damaged object is found by its id, which is computed here.
func TestATamperedObjectIsFound(t *testing.T) {
	dir, commit := repository(t)
	readme, other := git(t, dir, "rev-parse", "HEAD:README"), git(t, dir, "rev-parse", "HEAD:src/main.c")
	path := func(id string) string { return filepath.Join(dir, ".git", "objects", id[:2], id[2:]) }
	body, err := os.ReadFile(path(other))
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path(readme))
	if err := os.WriteFile(path(readme), body, 0o444); err != nil {
		t.Fatal(err)
	}
	_, _, err = take(t, "file://"+dir, commit)
	refused(t, err, "README", readme)
}

// A replacement names another object for an id; it must not count.
func TestReplacedObjectsDoNotCount(t *testing.T) {
	dir, commit := repository(t)
	git(t, dir, "replace", git(t, dir, "rev-parse", "HEAD:README"), git(t, dir, "rev-parse", "HEAD:src/main.c"))
	_, out, err := take(t, "file://"+dir, commit)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := os.ReadFile(filepath.Join(out, "README")); string(body) != "words\n" {
		t.Errorf("README is %q", body)
	}
}

func TestHostileTrees(t *testing.T) {
	dir, _ := repository(t)
	blob := git(t, dir, "rev-parse", "HEAD:README")
	tree := func(mode, name, id string) string {
		raw := mode + " " + name + "\x00"
		for i := 0; i < len(id); i += 2 {
			var b byte
			for _, c := range id[i : i+2] {
				b = b<<4 | byte(strings.IndexRune("0123456789abcdef", c))
			}
			raw += string([]byte{b})
		}
		file := filepath.Join(t.TempDir(), "tree")
		if err := os.WriteFile(file, []byte(raw), 0o644); err != nil {
			t.Fatal(err)
		}
		return git(t, dir, "hash-object", "-w", "-t", "tree", "--literally", file)
	}
	for name, c := range map[string]struct{ id, want string }{
		"..":            {tree("100644", "..", blob), "leads out of the folder"},
		".git":          {tree("100644", ".git", blob), "into .git"},
		".GIT":          {tree("100644", ".GIT", blob), "into .git"},
		"a slash":       {tree("100644", "../x", blob), "leads out of the folder"},
		"a submodule":   {tree("160000", "sub", git(t, dir, "rev-parse", "HEAD")), "is a submodule"},
		"another mode":  {tree("777", "x", blob), `got mode "777"`},
		"a folder file": {tree("40000", "x", blob), "got a blob, want a tree"},
	} {
		t.Run(name, func(t *testing.T) {
			commit := git(t, dir, "commit-tree", "-m", "hostile", c.id)
			_, _, err := take(t, "file://"+dir, commit)
			refused(t, err, c.want)
		})
	}
}

// A repository can ask git to run commands in many ways. None of them runs.
func TestAHostileRepositoryRunsNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands of this test are those of Unix")
	}
	dir, _ := repository(t)
	ran := filepath.Join(t.TempDir(), "ran")
	command := filepath.Join(t.TempDir(), "command")
	write(t, command, "#!/bin/sh\necho \"$0 $*\" >> "+ran+"\ncat\n")
	if err := os.Chmod(command, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, ".gitattributes"), "* filter=evil diff=evil\n")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "attributes")
	commit := git(t, dir, "rev-parse", "HEAD")
	for _, key := range []string{"filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv", "diff.external", "core.fsmonitor", "core.sshCommand",
		"core.pager", "core.editor", "core.askPass", "credential.helper", "alias.cat-file", "gpg.program", "uploadpack.packObjectsHook", "core.alternateRefsCommand"} {
		value := command
		if strings.HasPrefix(key, "alias.") || key == "credential.helper" {
			value = "!" + command
		}
		git(t, dir, "config", key, value)
	}
	git(t, dir, "config", "extensions.partialClone", "origin")
	git(t, dir, "config", "core.repositoryFormatVersion", "1")
	git(t, dir, "config", "remote.origin.url", "ext::"+command)
	git(t, dir, "config", "protocol.ext.allow", "always")
	for _, hook := range []string{"post-checkout", "pre-applypatch", "applypatch-msg", "post-index-change", "fsmonitor-watchman"} {
		write(t, filepath.Join(dir, ".git", "hooks", hook), "#!/bin/sh\necho hook >> "+ran+"\n")
		_ = os.Chmod(filepath.Join(dir, ".git", "hooks", hook), 0o755)
	}
	os.Remove(ran)
	tree, out, err := take(t, dir, commit)
	if err != nil {
		t.Fatal(err)
	}
	patch := filepath.Join(t.TempDir(), "p.patch")
	write(t, patch, change)
	if err := Apply(t.Context(), tree, out, patch); err != nil {
		t.Fatal(err)
	}
	// An object that is nowhere would be fetched from the promisor remote.
	_, _, err = take(t, "file://"+dir, strings.Repeat("2", 40))
	refused(t, err, "missing")
	if body, err := os.ReadFile(ran); err == nil {
		t.Errorf("the repository ran commands:\n%s", body)
	}
	// The control: with git's own ways the same repository does run them.
	cmd := exec.Command("git", "-C", dir, "status")
	_ = cmd.Run()
	if _, err := os.Stat(ran); err != nil {
		t.Error("the trap is none: plain git status ran nothing either")
	}
}

func TestPatches(t *testing.T) {
	applied := strings.Replace(program, "c = 3", "c = 33", 1)
	for name, c := range map[string]struct{ patch, want string }{
		"good":               {change, ""},
		"a new file":         {"--- /dev/null\n+++ b/src/new.c\n@@ -0,0 +1 @@\n+x\n", ""},
		"for another commit": {strings.Replace(change, " int b = 2;\n", " int b = 0;\n", 1), "src/main.c, hunk @@ -1,5 +1,5 @@"},
		"a file not there":   {strings.ReplaceAll(change, "main.c", "other.c"), "src/other.c: No such file"},
		"applied already":    {strings.NewReplacer("-int c = 3;", "-int c = 2;", "+int c = 33;", "+int c = 3;").Replace(change), "applied already"},
		"outside":            {strings.ReplaceAll(change, "src/main.c", "../main.c"), "outside of the source"},
		"absolute":           {"--- /dev/null\n+++ b//etc/x\n@@ -0,0 +1 @@\n+x\n", "outside of the source"},
		"into .git":          {"--- /dev/null\n+++ b/.git/config\n@@ -0,0 +1 @@\n+x\n", ".git"},
		"into .GIT":          {"--- /dev/null\n+++ b/sub/.GIT/config\n@@ -0,0 +1 @@\n+x\n", ".git"},
		"a new link":         {"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n", "a link or a submodule"},
		"by a link":          {"--- /dev/null\n+++ b/link/x\n@@ -0,0 +1 @@\n+x\n", "by the link link"},
		"a submodule":        {"diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject commit " + strings.Repeat("1", 40) + "\n", "a link or a submodule"},
		"no patch":           {"words\n", "cannot be read as one"},
		"an empty file":      {"", "cannot be read as one"},
		"cut off":            {change[:len(change)-20], "cannot be read as one"},
		"half of it applies": {change + strings.ReplaceAll(change, "main.c", "other.c"), "other.c"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := repository(t)
			if err := os.Symlink("src", filepath.Join(dir, "link")); err != nil {
				shared.Missing(t, "symbolic links: %v", err)
			}
			git(t, dir, "add", "-A")
			git(t, dir, "commit", "-q", "-m", "a link")
			tree, out, err := take(t, dir, git(t, dir, "rev-parse", "HEAD"))
			if err != nil {
				t.Fatal(err)
			}
			// The export lies inside a repository, as a project's folder can.
			git(t, filepath.Dir(out), "init", "-q")
			patch := filepath.Join(t.TempDir(), "p.patch")
			write(t, patch, c.patch)
			err = Apply(t.Context(), tree, out, patch)
			body, _ := os.ReadFile(filepath.Join(out, "src", "main.c"))
			if c.want != "" {
				refused(t, err, c.want)
				if string(body) != program {
					t.Errorf("refused, and yet changed: %s", body)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if name == "good" && string(body) != applied {
				t.Errorf("got %s", body)
			}
		})
	}
}

func TestURLsThatAreRefused(t *testing.T) {
	for from, want := range map[string]string{
		"http://example.org/x.git":             "want https://",
		"ssh://git@example.org/x":              "want https://",
		"ext://sh":                             "want https://",
		"git://example.org/x":                  "want https://",
		"https://user:secret@example.org/x":    "got a user",
		"https://example.org/x?token=secret":   "got a user, a query",
		"https:///x":                           "want https://",
		"ext::sh -c 'touch /tmp/x' % %":        "no such file",
		"--upload-pack=touch":                  "no such file",
		"git@example.org:owner/repository.git": "no such file",
	} {
		_, _, err := take(t, from, strings.Repeat("a", 40))
		refused(t, err, want)
		if err != nil && strings.Contains(err.Error(), "secret@") {
			t.Errorf("the password is in %v", err)
		}
	}
}

// TestFetch takes a commit from a real server over https.
func TestFetch(t *testing.T) {
	out, err := exec.Command("git", "--exec-path").Output()
	backend := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	if _, statErr := os.Stat(backend); err != nil || statErr != nil {
		shared.Missing(t, "git-http-backend is not installed")
	}
	dir, commit := repository(t)
	write(t, filepath.Join(dir, "README"), "more words\n")
	git(t, dir, "commit", "-q", "-a", "-m", "second")
	root := t.TempDir()
	git(t, dir, "clone", "-q", "--bare", dir, filepath.Join(root, "up.git"))
	server := httptest.NewTLSServer(&cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1"}})
	defer server.Close()
	pem := filepath.Join(t.TempDir(), "ca.pem")
	write(t, pem, pemOf(server))
	url := server.URL + "/up.git"
	t.Run("a server that nobody vouches for", func(t *testing.T) {
		_, _, err := take(t, url, commit)
		refused(t, err, "certificate")
	})
	t.Setenv("GIT_SSL_CAINFO", pem)
	for _, single := range []string{"false", "true"} { // whether the server gives out single commits
		git(t, filepath.Join(root, "up.git"), "config", "uploadpack.allowAnySHA1InWant", single)
		tree, out, err := take(t, url, commit)
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := os.ReadFile(filepath.Join(out, "README")); string(body) != "words\n" || len(tree.Files) != 4 {
			t.Errorf("README is %q of %d files", body, len(tree.Files))
		}
	}
	_, _, err = take(t, url, strings.Repeat("3", 40))
	refused(t, err, "is not in the repository")
}

func FuzzTree(f *testing.F) {
	f.Add([]byte("100644 a\x00" + strings.Repeat("x", 20)))
	f.Add([]byte("40000 ..\x00" + strings.Repeat("x", 20)))
	f.Add([]byte("100644 a"))
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := parseTree(body)
		for _, e := range list {
			if err == nil && (e.name == "" || e.name == ".." || strings.ContainsAny(e.name, "/\x00") || len(e.id) != 40) {
				t.Errorf("accepted %+v", e)
			}
		}
	})
}
