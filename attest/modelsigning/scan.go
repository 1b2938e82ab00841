package modelsigning

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// Model is a model as it lies on a disk.
type Model struct {
	Name      string     `json:"name"`      // of the folder or file
	Single    bool       `json:"single"`    // one file, without a folder
	ShardSize int64      `json:"shardSize"` // bytes; 0: a file is one resource
	Resources []Resource `json:"resources"` // in code point order of their names
	Left      []string   `json:"left"`      // what was left out, of that which exists
}

// FileError says that a model holds what no signature can cover.
type FileError struct {
	Name string // path from the model
	Got  string
	Want string
	Hint string // or empty
}

func (e *FileError) Error() string {
	s := fmt.Sprintf("%s: got %s, want %s", e.Name, e.Got, e.Want)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Scan reads a model, a folder or one file, and gives its resources: one a file,
// or with shardSize > 0 (bytes) one a shard. A file without bytes is a resource
// in either way.
//
// Leave names files and folders, by their path from the model, that are not
// read. Symbolic links, pipes, devices, names that are not plain, and a folder
// without files are *FileError. Nothing outside the folder is opened.
func Scan(ctx context.Context, model string, shardSize int64, leave []string) (Model, error) {
	abs, err := filepath.Abs(model)
	if err != nil {
		return Model{}, err
	}
	m := Model{Name: filepath.Base(abs), ShardSize: shardSize, Left: []string{}}
	info, err := os.Stat(model)
	if err != nil {
		return Model{}, err
	}
	s := scan{ctx: ctx, shardSize: shardSize, leave: leave}
	if m.Single = info.Mode().IsRegular(); m.Single {
		s.fsys = os.DirFS(filepath.Dir(abs))
		m.Resources, err = s.hash(m.Name)
		return m, err
	}
	root, err := os.OpenRoot(model)
	if err != nil {
		return Model{}, err
	}
	defer root.Close()
	s.fsys = root.FS()
	if err := fs.WalkDir(s.fsys, ".", s.visit); err != nil {
		return Model{}, err
	}
	if len(s.names) == 0 {
		return Model{}, &FileError{Name: m.Name, Got: "no files", Want: "at least one", Hint: "a signature over nothing proves nothing"}
	}
	m.Resources, err = s.hashAll()
	m.Left = append(m.Left, s.left...)
	return m, err
}

type scan struct {
	ctx       context.Context
	fsys      fs.FS
	shardSize int64
	leave     []string
	names     []string
	left      []string
}

func (s *scan) visit(name string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case name != "." && slices.Contains(s.leave, name):
		s.left = append(s.left, name)
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	case entry.IsDir():
		return nil
	case entry.Type()&fs.ModeSymlink != 0:
		return &FileError{name, "a symbolic link", "a regular file", "put the file itself there; what a link leads to differs from place to place"}
	case !entry.Type().IsRegular():
		return &FileError{Name: name, Got: "a " + entry.Type().String(), Want: "a regular file"}
	}
	if err := checkName(name); err != nil {
		return &FileError{Name: strconv.Quote(name), Got: "that name", Want: err.Error()}
	}
	if len(s.names) == MaxResources {
		return fmt.Errorf("got more than %d files, want fewer", MaxResources)
	}
	s.names = append(s.names, name)
	return nil
}

func (s *scan) hashAll() ([]Resource, error) {
	each := make([][]Resource, len(s.names))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range s.names {
		group.Go(func() (err error) {
			each[i], err = s.hash(name)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	list := slices.Concat(each...)
	if len(list) > MaxResources {
		return nil, fmt.Errorf("got %d shards, want at most %d; use larger shards", len(list), MaxResources)
	}
	slices.SortFunc(list, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// hash reads one file. Memory does not grow with it, except for its shards' digests.
func (s *scan) hash(name string) ([]Resource, error) {
	f, err := s.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if s.shardSize == 0 {
		sum := sha256.New()
		if _, err := io.Copy(sum, reader{s.ctx, f}); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return []Resource{{name, godigest.NewDigest(godigest.SHA256, sum)}}, nil
	}
	var list []Resource
	for start := int64(0); ; start += s.shardSize {
		sum := sha256.New()
		n, err := io.CopyN(sum, reader{s.ctx, f}, s.shardSize)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if n > 0 || start == 0 {
			list = append(list, Resource{shardName(name, start, start+n), godigest.NewDigest(godigest.SHA256, sum)})
		}
		if n < s.shardSize {
			return list, nil
		}
		if len(list) > MaxResources {
			return nil, fmt.Errorf("%s: got more than %d shards, want fewer; use larger shards", name, MaxResources)
		}
	}
}

// reader stops between blocks when the context ends.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
