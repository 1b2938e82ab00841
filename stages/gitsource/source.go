package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Source is a repository, opened for reading one commit of it.
type Source struct {
	Name string // its last path element, without .git
	URL  string // where it was fetched from; empty for one on this machine
	own  string // our bare repository, which borrows or holds its objects
	tree string // the working tree; empty when there is none to look at
	head string // the commit that the working tree is said to be at
}

// Open opens a repository for one commit. From is a checkout or a bare
// repository on this machine (a path, or file:// for its objects alone), or an
// https URL, from which the commit is fetched. Scratch is a folder that does
// not exist yet; our own repository is made there, and may be removed after use.
func Open(ctx context.Context, from, commit, scratch string) (*Source, error) {
	if err := CheckCommit(commit); err != nil {
		return nil, err
	}
	if _, err := (call{args: []string{"init", "--quiet", "--bare", "--object-format=sha1", scratch}}).run(ctx); err != nil {
		return nil, err
	}
	s := &Source{own: scratch, Name: sourceName(from)}
	path, isURL := strings.CutPrefix(from, "file://")
	if scheme, _, found := strings.Cut(from, "://"); found && scheme != "file" {
		return s, s.fetch(ctx, from, commit)
	}
	return s, s.borrow(ctx, path, !isURL)
}

func sourceName(from string) string {
	name := strings.TrimRight(from, `/\`)
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	if name = strings.TrimSuffix(name, ".git"); name == "" {
		return "source"
	}
	return name
}

// borrow reads the objects of a repository on this machine as an alternate of
// our own, so that its configuration is never the one that holds.
func (s *Source) borrow(ctx context.Context, path string, lookAtTree bool) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	gitDir := filepath.Join(path, ".git")
	worktree := true
	if _, err := os.Lstat(gitDir); errors.Is(err, fs.ErrNotExist) {
		gitDir, worktree = path, false
	}
	out, err := call{gitDir: gitDir, dir: path, args: []string{"rev-parse", "--git-common-dir"}}.run(ctx)
	if err != nil {
		return fmt.Errorf("source %s: it is no git repository: %w", path, err)
	}
	common := strings.TrimSuffix(string(out), "\n")
	if !filepath.IsAbs(common) {
		common = filepath.Join(path, common)
	}
	objects := filepath.Join(common, "objects")
	if strings.ContainsAny(objects, "\n\r") {
		return fmt.Errorf("source %q: got a line end in its path, want none", path)
	}
	if err := os.WriteFile(filepath.Join(s.own, "objects", "info", "alternates"), []byte(filepath.ToSlash(objects)+"\n"), 0o644); err != nil {
		return err
	}
	if !worktree || !lookAtTree {
		return nil
	}
	s.tree = path
	out, err = call{gitDir: gitDir, dir: path, args: []string{"rev-parse", "--verify", "HEAD"}}.run(ctx)
	if err != nil {
		return fmt.Errorf("source %s: at which commit it is cannot be told: %w", path, err)
	}
	s.head = strings.TrimSpace(string(out))
	return nil
}

// fetch gets one commit, or where the server does not give out single commits, all branches and tags.
func (s *Source) fetch(ctx context.Context, from, commit string) error {
	u, err := url.Parse(from)
	switch {
	case err != nil:
		return fmt.Errorf("source: %w", err)
	case u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("source %s: got %s, want https://, file:// or a path; other protocols run commands or prove no server", u.Redacted(), u.Scheme)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("source %s: got a user, a query or a fragment, want none: the address is recorded in public", u.Redacted())
	}
	s.URL = from
	fetch := func(refs ...string) error {
		args := append([]string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--no-write-fetch-head"}, refs...)
		_, err := call{gitDir: s.own, dir: s.own, protocols: "https", args: args}.run(ctx)
		return err
	}
	single := fetch("--depth=1", "--", from, commit)
	if single == nil {
		return nil
	}
	if err := fetch("--", from, "+refs/heads/*:refs/fetched/heads/*", "+refs/tags/*:refs/fetched/tags/*"); err != nil {
		return fmt.Errorf("source %s: %w", from, errors.Join(single, err))
	}
	return nil
}

// Clean refuses a working tree that is at another commit, or that is not that
// commit to the byte: a file changed, gone, or there besides. Files that the
// commit's own .gitignore files name do not count. A source without a working
// tree is always clean.
func (s *Source) Clean(ctx context.Context, commit string) error {
	if s.tree == "" {
		return nil
	}
	if s.head != commit {
		return fmt.Errorf("source %s: got a checkout at %s, want commit %s; check it out, or name the repository as file:// to take the commit without a checkout", s.tree, s.head, commit)
	}
	// Our repository is made to be at the commit, so that status speaks of the working tree alone.
	if err := os.WriteFile(filepath.Join(s.own, "HEAD"), []byte(commit+"\n"), 0o644); err != nil {
		return err
	}
	index := filepath.Join(s.own, "index")
	own := call{gitDir: s.own, workTree: s.tree, index: index, dir: s.tree}
	own.args = []string{"read-tree", commit}
	if _, err := own.run(ctx); err != nil {
		return fmt.Errorf("source %s: %w", s.tree, err)
	}
	own.args = []string{"status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=all", "--no-renames"}
	out, err := own.run(ctx)
	if err != nil {
		return fmt.Errorf("source %s: %w", s.tree, err)
	}
	if len(out) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	return fmt.Errorf("source %s: its working tree is not clean: %s; commit, stash or remove that, or name the repository as file:// to take the commit without a checkout", s.tree, describe(lines))
}

func describe(status []string) string {
	words := map[string]string{"??": "untracked", " M": "changed", " D": "gone", " T": "of another kind"}
	var list []string
	for _, line := range status[:min(len(status), 5)] {
		if len(line) > 3 {
			list = append(list, fmt.Sprintf("%q is %s", line[3:], or(words[line[:2]], line[:2])))
		}
	}
	if more := len(status) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}
