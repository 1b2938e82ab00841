package faulttest

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weighmaster/weighmaster/ledger/internal/durable"
)

// install puts the machines in front of both file layers until the test ends.
func install(t testing.TB) {
	t.Helper()
	registerOnce.Do(register)
	machines.Lock()
	if machines.byRoot == nil {
		machines.byRoot = map[string]*Machine{}
	}
	machines.Unlock()
	t.Cleanup(durable.Use(files{}))
}

// files is the file system of durable writes.
type files struct{}

// change carries out a call that changes the disk, or lets it fail; done takes
// the change down.
func change(c class, call, path string, real func() error, done func(*Machine)) error {
	m := machineOf(path)
	if m == nil {
		return real()
	}
	kind, struck := m.strike(c, call, path)
	if struck && kind != ReportedLost {
		return &fs.PathError{Op: call, Path: path, Err: errno(kind)}
	}
	if err := real(); err != nil {
		return err
	}
	done(m)
	if struck {
		return &fs.PathError{Op: call, Path: path, Err: syscall.EIO}
	}
	return nil
}

func errno(k Kind) error {
	if k == DiskFull || k == ShortWrite {
		return syscall.ENOSPC
	}
	return syscall.EIO
}

func (files) Create(path string, perm fs.FileMode) (durable.File, error) {
	var f durable.File
	var inode int
	err := change(grow, "create", path, func() (err error) { f, err = durable.OS.Create(path, perm); return err },
		func(m *Machine) { inode = m.create(path) })
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, err
	}
	if inode == 0 {
		return f, nil
	}
	return &file{f, path, inode, machineOf(path), 0}, nil
}

func (files) Link(old, new string) error {
	return change(grow, "link", new, func() error { return os.Link(old, new) }, func(m *Machine) { m.moved("", old, new) })
}

func (files) Rename(old, new string) error {
	return change(grow, "rename", new, func() error { return os.Rename(old, new) }, func(m *Machine) { m.moved(old, old, new) })
}

// moved takes down that new is what old was, and that gone is no more.
func (m *Machine) moved(gone, old, new string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take(op{what: opName, inode: m.names[old], path: new, gone: gone})
}

func (files) Remove(path string) error {
	return change(alter, "remove", path, func() error { return os.Remove(path) }, func(m *Machine) { m.record(op{what: opName, gone: path}) })
}

func (files) Mkdir(path string, perm fs.FileMode) error {
	return change(grow, "mkdir", path, func() error { return os.Mkdir(path, perm) }, func(m *Machine) { m.record(op{what: opName, path: path}) })
}

func (files) SyncDir(dir string) error {
	m := machineOf(dir)
	if m == nil {
		return durable.OS.SyncDir(dir)
	}
	return m.sync("fsync of the folder", dir, op{what: opSyncDir, path: dir})
}

// sync makes a file or folder durable in the machine's books alone: the real
// call would cost time and prove nothing here.
func (m *Machine) sync(call, path string, o op) error {
	kind, struck := m.strike(flush, call, path)
	if struck && kind == SyncDropped {
		m.record(op{what: opDrop, inode: o.inode})
	}
	if !struck || kind == ReportedLost {
		m.record(o)
	}
	if struck {
		return &fs.PathError{Op: call, Path: filepath.Clean(path), Err: syscall.EIO}
	}
	return nil
}

// file is a durable file that is being written.
type file struct {
	durable.File
	path    string
	inode   int
	machine *Machine
	size    int64
}

func (f *file) Write(p []byte) (int, error) {
	kind, struck := f.machine.strike(grow, "write", f.path)
	if struck && kind == SilentLoss {
		// A hole stays where the data should be.
		if _, err := f.File.Write(make([]byte, len(p))); err != nil {
			return 0, err
		}
		f.machine.record(op{what: opWrite, inode: f.inode, offset: f.size, data: make([]byte, len(p))})
		f.size += int64(len(p))
		return len(p), nil
	}
	if struck && kind == ShortWrite {
		p = p[:len(p)/2]
	}
	if struck && kind != ReportedLost && kind != ShortWrite {
		return 0, &fs.PathError{Op: "write", Path: f.path, Err: errno(kind)}
	}
	n, err := f.File.Write(p)
	f.machine.record(op{what: opWrite, inode: f.inode, offset: f.size, data: p[:n]})
	f.size += int64(n)
	if struck {
		return n, &fs.PathError{Op: "write", Path: f.path, Err: errno(kind)}
	}
	return n, err
}

func (f *file) Chmod(perm fs.FileMode) error {
	return change(alter, "chmod", f.path, func() error { return f.File.Chmod(perm) }, func(*Machine) {})
}

func (f *file) Sync() error {
	return f.machine.sync("fsync", f.path, op{what: opSync, inode: f.inode})
}

func (f *file) Close() error {
	return change(alter, "close", f.path, f.File.Close, func(*Machine) {})
}
