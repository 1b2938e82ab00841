package gitsource

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/weighmaster/weighmaster/kernels/digest"
)

// Limits of what one commit may hold.
const (
	MaxBytes = 64 << 30 // of all files together
	maxDepth = 128      // folders in folders
)

// maxEntries bounds files, folders and links together: a tree can hold another
// many times over, so that a few objects unfold to more than a disk holds.
var maxEntries = 1_000_000

// Entry is one file of an exported commit.
type Entry struct {
	Mode string // as git writes it: 100644, 100755 or 120000
	Sums digest.Sums
}

// Tree is an exported commit: its tree's id and its files by path.
type Tree struct {
	Commit, ID string
	Files      map[string]Entry
}

// Export writes the files of a commit into a new folder. Commit, trees and files
// are each read by their id and hashed on the way, so the folder is that commit
// as far as SHA-1 tells (git's transfer format, object ids). Line ends are not
// changed and no filter is run. A commit with submodules is refused: their
// sources are elsewhere.
func (s *Source) Export(ctx context.Context, commit, dir string) (*Tree, error) {
	r, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	t := &Tree{Commit: commit, Files: map[string]Entry{}}
	if t.ID, err = r.treeOf(commit); err != nil {
		return nil, fmt.Errorf("commit %s is not in the repository, or damaged: %w", commit, err)
	}
	e := &exporter{ctx: ctx, r: r, root: root, tree: t, left: MaxBytes}
	return t, e.folder(t.ID, "", 0)
}

type exporter struct {
	ctx  context.Context
	r    *reader
	root *os.Root
	tree *Tree
	left int64 // bytes that may still come
	made int   // files, folders and links so far
}

func (e *exporter) folder(id, path string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("tree %s: folders are nested deeper than %d", path, maxDepth)
	}
	body, err := e.r.small(id, "tree")
	if err != nil {
		return err
	}
	entries, err := parseTree(body)
	if err != nil {
		return fmt.Errorf("%s: %w", or(path, "the root folder"), err)
	}
	for _, x := range entries {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		name := x.name
		if path != "" {
			name = path + "/" + x.name
		}
		if err := e.entry(x, name, depth); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) entry(x entry, name string, depth int) error {
	if err := digest.CheckName(name); err != nil {
		return err
	}
	if e.made++; e.made > maxEntries {
		return fmt.Errorf("got more than %d files, folders and links, want at most that many", maxEntries)
	}
	local := filepath.FromSlash(name)
	switch x.mode {
	case modeFolder:
		if err := e.root.Mkdir(local, 0o755); err != nil {
			return err
		}
		return e.folder(x.id, name, depth+1)
	case modeFile, "100664":
		return e.file(x, name, 0o644)
	case modeExecutable:
		return e.file(x, name, 0o755)
	case modeLink:
		target, err := e.r.small(x.id, "blob")
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		e.tree.Files[name] = Entry{Mode: x.mode}
		return e.root.Symlink(string(target), local)
	case modeCommit:
		return fmt.Errorf("%s is a submodule: its source is elsewhere and is not taken; name a commit without submodules", name)
	}
	return fmt.Errorf("%s: got mode %q, want a file, a folder or a link", name, x.mode)
}

func (e *exporter) file(x entry, name string, perm os.FileMode) error {
	f, err := e.root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer f.Close()
	var sums digest.Sums
	err = e.r.object(x.id, "blob", e.left, func(size int64, body io.Reader) error {
		e.left -= size
		hasher := digest.NewHasher(size)
		_, err := io.Copy(io.MultiWriter(f, hasher), body)
		sums = hasher.Sums()
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	e.tree.Files[name] = Entry{Mode: x.mode, Sums: sums}
	return f.Close()
}
