package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// readEvidence reads what --evidence names: a package, a project with its
// ledger, or loose bundles.
func (a *app) readEvidence(ctx context.Context, opt verifyOptions) (*evidence.Package, error) {
	paths := opt.Evidence
	if len(paths) == 0 {
		paths = []string{opt.File + packageSuffix}
	}
	var bundles [][]byte
	for _, path := range paths {
		kind, err := evidenceKind(path, "name the evidence with --evidence")
		if err != nil {
			return nil, err
		}
		if kind != kindBundles && (len(paths) > 1 || opt.Objects != "" || opt.WithoutLog) {
			return nil, usage("--evidence %s is %s: it stands alone, and --objects and --without-log are for loose bundles", path, kind)
		}
		switch kind {
		case kindProject:
			return a.packageOfProject(ctx, path, opt.File)
		case kindPackage:
			return readPackage(path)
		}
		more, err := readBundles(path)
		if err != nil {
			return nil, err
		}
		bundles = append(bundles, more...)
	}
	objects, err := readObjects(opt.Objects)
	if err != nil {
		return nil, err
	}
	return evidence.Loose(bundles, objects), nil
}

const (
	kindProject = "a project folder"
	kindPackage = "an evidence package"
	kindBundles = "a file of bundles"
)

// evidenceKind tells from what lies at a path, never from its name; do is what
// a caller who named nothing of the kind is to do.
func evidenceKind(path, do string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", usage("%v; %s", err, do)
	case err != nil:
		return "", err
	case info.IsDir() && exists(filepath.Join(path, pipelineFile)):
		return kindProject, nil
	case !info.Mode().IsRegular():
		return "", usage("%s: neither a file nor a project folder (with %s); %s", path, pipelineFile, do)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var magic [2]byte
	if n, err := io.ReadFull(f, magic[:]); err != nil && n == 0 && !errors.Is(err, io.EOF) {
		return "", err
	}
	if string(magic[:]) == "PK" {
		return kindPackage, nil
	}
	return kindBundles, nil
}

// readPackage reads an evidence package. One that is malformed was checked and is false.
func readPackage(path string) (*evidence.Package, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	pkg, err := evidence.Read(f, info.Size())
	if err != nil {
		return nil, &exitError{exitFalse, err}
	}
	return pkg, nil
}

func readBundles(path string) ([][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	bundles, err := evidence.ReadBundles(path, f)
	if err != nil {
		return nil, &exitError{exitFalse, err}
	}
	return bundles, nil
}

// packageOfProject collects a file's evidence from a project's ledger without
// writing it: as an export does, or all that there is where the policy wants the whole log.
func (a *app) packageOfProject(ctx context.Context, dir, file string) (*evidence.Package, error) {
	there := *a
	there.project = dir
	p, err := there.open(ctx, false)
	if err != nil {
		return nil, err
	}
	defer p.close()
	sums, err := digest.File(ctx, file)
	if err != nil {
		return nil, err
	}
	doc, _, err := p.readPolicy()
	if err != nil {
		return nil, err
	}
	collect := p.collect
	if doc.Standing != nil && doc.Standing.WholeLog {
		collect = p.collectAll
	}
	pkg, err := collect(ctx, evidence.File{Name: filepath.Base(file), Size: sums.Size, Digest: sums.SHA256})
	if err != nil {
		return nil, fmt.Errorf("evidence of %s in %s: %w", file, dir, err)
	}
	return pkg, nil
}

// readObjects reads every file below a folder as an evidence object, within the limits of a package.
func readObjects(dir string) ([][]byte, error) {
	if dir == "" {
		return nil, nil
	}
	var objects [][]byte
	total := int64(0)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if total += info.Size(); info.Size() > evidence.MaxMember || total > evidence.MaxTotal || len(objects) == evidence.MaxMembers {
			return usage("--objects: %s: the folder is larger than evidence may be (%d bytes an object, %d bytes and %d objects in all); name a folder of evidence objects alone", path, evidence.MaxMember, evidence.MaxTotal, evidence.MaxMembers)
		}
		body, err := os.ReadFile(path)
		objects = append(objects, body)
		return err
	})
	if err != nil {
		var wrong *exitError
		if errors.As(err, &wrong) {
			return nil, err
		}
		return nil, usage("--objects: %v", err)
	}
	return objects, nil
}
