package gitsource

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// reader asks one git process for objects, one after another.
type reader struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (s *Source) reader(ctx context.Context) (*reader, error) {
	cmd, err := call{gitDir: s.own, dir: s.own, args: []string{"cat-file", "--batch"}}.command(ctx)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return &reader{cmd, in, bufio.NewReaderSize(out, 1<<16)}, nil
}

func (r *reader) close() {
	r.in.Close()
	_, _ = io.Copy(io.Discard, r.out)
	_ = r.cmd.Wait() // every object was checked by its id: how git ends says nothing
}

// object gives an object's bytes to take, which must read them all. The id is
// computed over what was read (git's object format: type, size in decimal, NUL, bytes).
func (r *reader) object(id, kind string, limit int64, take func(size int64, body io.Reader) error) error {
	if _, err := fmt.Fprintln(r.in, id); err != nil {
		return fmt.Errorf("object %s: %w", id, err)
	}
	line, err := r.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("object %s: %w", id, err)
	}
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return fmt.Errorf("object %s: git says %q", id, strings.TrimSpace(line))
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	switch {
	case err != nil || size < 0:
		return fmt.Errorf("object %s: got size %q", id, fields[2])
	case fields[1] != kind:
		return fmt.Errorf("object %s: got a %s, want a %s", id, fields[1], kind)
	case size > limit:
		return fmt.Errorf("object %s: got %d bytes, want at most %d", id, size, limit)
	}
	hash := sha1.New()
	fmt.Fprintf(hash, "%s %d\x00", kind, size)
	body := &io.LimitedReader{R: io.TeeReader(r.out, hash), N: size}
	if err := take(size, body); err != nil {
		return err
	}
	if body.N != 0 {
		return fmt.Errorf("object %s: %d bytes are missing", id, body.N)
	}
	if _, err := r.out.Discard(1); err != nil { // the line end after an object
		return fmt.Errorf("object %s: %w", id, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != id {
		return fmt.Errorf("object %s: its bytes have the id %s: the repository is damaged or was tampered with", id, got)
	}
	return nil
}

func (r *reader) small(id, kind string) (body []byte, err error) {
	err = r.object(id, kind, maxComplex, func(_ int64, in io.Reader) error {
		var err error
		body, err = io.ReadAll(in)
		return err
	})
	return body, err
}

// treeOf gives the tree of a commit.
func (r *reader) treeOf(commit string) (string, error) {
	body, err := r.small(commit, "commit")
	if err != nil {
		return "", err
	}
	line, _, _ := bytes.Cut(body, []byte("\n"))
	tree, ok := strings.CutPrefix(string(line), "tree ")
	if !ok || !commitForm.MatchString(tree) {
		return "", fmt.Errorf("commit %s: its first line names no tree", commit)
	}
	return tree, nil
}

// entry is one line of a tree.
type entry struct{ mode, name, id string }

// Modes of git's trees.
const (
	modeFile, modeExecutable, modeLink, modeFolder, modeCommit = "100644", "100755", "120000", "40000", "160000"
)

// parseTree reads a tree object: mode, space, name, NUL, 20 bytes of id, repeated.
func parseTree(body []byte) ([]entry, error) {
	var list []entry
	seen := map[string]bool{}
	for len(body) > 0 {
		head, rest, found := bytes.Cut(body, []byte{0})
		mode, name, ok := strings.Cut(string(head), " ")
		if !found || !ok || len(rest) < sha1.Size {
			return nil, errors.New("tree: it is cut off")
		}
		if err := checkElement(name); err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, fmt.Errorf("tree: %q is there twice", name)
		}
		seen[name] = true
		list = append(list, entry{mode, name, hex.EncodeToString(rest[:sha1.Size])})
		body = rest[sha1.Size:]
	}
	return list, nil
}

// checkElement refuses a name that could lead out of a folder or into a repository's own.
func checkElement(name string) error {
	lower := strings.ToLower(name)
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") || lower == ".git" || lower == "git~1" {
		return fmt.Errorf("tree: got the name %q, which leads out of the folder or into .git", name)
	}
	return nil
}
