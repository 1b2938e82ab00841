package stages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
)

const (
	maxRecord = 64 << 20 // bytes of one RECORD
	maxFaults = 5        // files that a refusal names
)

// pythonRecord is one RECORD: the files of a distribution.
type pythonRecord struct {
	distribution schemas.PythonDistribution
	files        []recorded
}

// recorded is one file that a RECORD has a digest of.
type recorded struct {
	name string // relative to site-packages
	path string // on the host
	size int64  // bytes; -1 when RECORD has none
	algo string
	sum  string // base64url without padding, as RECORD has it
	none bool   // no digest: RECORD itself, and what python compiled
}

// readDistribution reads RECORD of one dist-info folder (Recording installed projects,
// https://packaging.python.org/en/latest/specifications/recording-installed-packages/).
func readDistribution(root, packages, info string) (pythonRecord, error) {
	var r pythonRecord
	own := filepath.Base(info) + "/RECORD"
	body, err := readBounded(filepath.Join(packages, own), maxRecord)
	if err != nil {
		return r, fmt.Errorf("python package %s: %w; install it anew with pip, which writes a RECORD", strings.TrimSuffix(filepath.Base(info), ".dist-info"), err)
	}
	if r.distribution.Name, r.distribution.Version, err = metadataHeader(filepath.Join(info, "METADATA")); err != nil {
		return r, fmt.Errorf("python packages: %w", err)
	}
	if r.files, err = parseRecord(body, own); err != nil {
		return r, fmt.Errorf("python package %s %s: RECORD: %w", r.distribution.Name, r.distribution.Version, err)
	}
	r.distribution.Record = godigest.FromBytes(body)
	for i := range r.files {
		f := &r.files[i]
		f.path = filepath.Join(packages, filepath.FromSlash(f.name))
		if _, inside := under(root, f.path); !inside {
			return r, fmt.Errorf("python package %s: RECORD names %q, which is not below the environment", r.distribution.Name, f.name)
		}
		if !f.none {
			r.distribution.Files++
			r.distribution.Size += max(f.size, 0)
		}
	}
	return r, nil
}

// parseRecord reads the lines of a RECORD: path, algorithm=digest, size.
func parseRecord(body []byte, own string) ([]recorded, error) {
	reader := csv.NewReader(bytes.NewReader(body))
	reader.FieldsPerRecord = 3
	var list []recorded
	for {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		f := recorded{name: path.Clean(row[0]), size: -1}
		if row[0] == "" || path.IsAbs(row[0]) || strings.ContainsAny(row[0], "\\\x00") {
			return nil, fmt.Errorf("got the path %q, want one relative to site-packages", row[0])
		}
		if row[2] != "" {
			if f.size, err = strconv.ParseInt(row[2], 10, 64); err != nil || f.size < 0 {
				return nil, fmt.Errorf("%s: got the size %q, want a number of bytes", f.name, row[2])
			}
		}
		f.algo, f.sum, _ = strings.Cut(row[1], "=")
		switch {
		case inCache(f.name):
			f.none = true // never read, see [pythonEnvironment]
		case row[1] == "" && (f.name == own || slices.Contains([]string{own + ".jws", own + ".p7s"}, f.name)):
			f.none = true
		case row[1] == "":
			return nil, fmt.Errorf("%s has no digest: what it holds cannot be told", f.name)
		case newHash(f.algo) == nil:
			return nil, fmt.Errorf("%s: got the digest %q, want sha256, sha384 or sha512", f.name, row[1])
		}
		list = append(list, f)
	}
}

// inCache tells of a file in __pycache__, which python is told not to look at.
func inCache(name string) bool {
	return path.Base(path.Dir(name)) == "__pycache__" && strings.HasSuffix(name, ".pyc")
}

func newHash(algo string) hash.Hash {
	switch algo {
	case "sha256":
		return sha256.New()
	case "sha384":
		return sha512.New384()
	case "sha512":
		return sha512.New()
	}
	return nil
}

// check reads every file of the packages. It refuses one that is not as its
// RECORD says, and one in site-packages that no RECORD names: python would import it as well.
func (e *pythonEnvironment) check(ctx context.Context) error {
	named := map[string]bool{}
	var files []recorded
	for _, r := range e.records {
		for _, f := range r.files {
			named[f.path] = true
			if !f.none {
				files = append(files, f)
			}
		}
	}
	faults, err := e.unnamed(named)
	if err != nil {
		return err
	}
	found := make([]error, len(files))
	err = inParallel(ctx, len(files), func(i int) error {
		found[i] = files[i].check()
		return nil
	})
	if err != nil {
		return err
	}
	for i, fault := range found {
		if fault != nil {
			faults = append(faults, files[i].name+" "+fault.Error())
		}
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	more := ""
	if len(faults) > maxFaults {
		more = fmt.Sprintf(" and %d more", len(faults)-maxFaults)
	}
	return fmt.Errorf("python packages are not as they were installed: %s%s; install them anew, into a new environment", strings.Join(faults[:min(len(faults), maxFaults)], "; "), more)
}

// unnamed lists the files in site-packages that belong to no distribution.
func (e *pythonEnvironment) unnamed(named map[string]bool) ([]string, error) {
	var list []string
	err := filepath.WalkDir(e.packages, func(path string, d fs.DirEntry, err error) error {
		if err != nil || (d.IsDir() && d.Type()&fs.ModeSymlink == 0) || named[path] {
			return err
		}
		name, err := filepath.Rel(e.packages, path)
		if name = filepath.ToSlash(name); !inCache(name) {
			list = append(list, name+" is in no RECORD")
		}
		return err
	})
	return list, err
}

// check reads one file.
func (f recorded) check() error {
	st, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("is gone")
	} else if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("is no regular file: got %s", st.Mode().Type())
	}
	if f.size >= 0 && st.Size() != f.size {
		return fmt.Errorf("has %d bytes, want %d", st.Size(), f.size)
	}
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	h := newHash(f.algo)
	if _, err := io.Copy(h, file); err != nil {
		return err
	}
	if got := base64.RawURLEncoding.EncodeToString(h.Sum(nil)); got != strings.TrimRight(f.sum, "=") {
		return fmt.Errorf("has the %s %s, want %s", f.algo, got, f.sum)
	}
	return nil
}

// hashed is the size and sha256 of a file.
type hashed struct {
	size   int64
	digest godigest.Digest
}

// hashFiles takes the sha256 of many files.
func hashFiles(ctx context.Context, paths []string) ([]hashed, error) {
	list := make([]hashed, len(paths))
	err := inParallel(ctx, len(paths), func(i int) error {
		f, err := os.Open(paths[i])
		if err != nil {
			return err
		}
		defer f.Close()
		h := godigest.Canonical.Digester()
		list[i].size, err = io.Copy(h.Hash(), f)
		list[i].digest = h.Digest()
		return err
	})
	return list, err
}

// inParallel does n things on all processors and gives the first error.
func inParallel(ctx context.Context, n int, do func(i int) error) error {
	next := make(chan int)
	var group sync.WaitGroup
	var once sync.Once
	var first error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					once.Do(func() { first = err })
					cancel()
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	group.Wait()
	if first != nil {
		return first
	}
	return ctx.Err()
}
