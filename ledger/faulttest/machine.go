package faulttest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Kind is a kind of fault.
type Kind string

// Kinds of faults of one call.
const (
	IOError      Kind = "I/O error"                   // no effect, EIO; on reads, opens and locks too
	DiskFull     Kind = "disk full"                   // no effect, ENOSPC
	ShortWrite   Kind = "short write"                 // the first half is written, ENOSPC
	ReportedLost Kind = "persisted but reported lost" // the whole effect, EIO
	SyncDropped  Kind = "sync failed, pages dropped"  // EIO, and what was not yet synced of the file never will be
	SilentLoss   Kind = "write lost, reported well"   // no effect, success
)

// Kinds lists them.
var Kinds = []Kind{IOError, DiskFull, ShortWrite, ReportedLost, SyncDropped, SilentLoss}

// call classes.
type class int

const (
	read class = iota
	lock
	grow  // write, create, link, rename, mkdir, shared memory: needs room on the disk
	alter // truncate, delete, chmod, close
	flush // sync of a file or folder
)

// Machine is the disk below one folder.
type Machine struct {
	root string

	mu    sync.Mutex
	kind  Kind
	at    int
	seen  int
	fired string
	lying bool

	start map[string][]byte // files at the start; a folder has a nil value
	names map[string]int    // visible path → inode, 0 for a folder
	files int               // inodes given so far
	ops   []op
}

// machines are looked up by folder.
var machines struct {
	sync.Mutex
	byRoot map[string]*Machine
}

// New starts a machine over a folder. What lies there counts as durable.
// Machines exist until the test ends; while one does, no other test may write
// durable files in parallel.
func New(t testing.TB, root string) *Machine {
	t.Helper()
	install(t)
	m := &Machine{root: root, start: map[string][]byte{}, names: map[string]int{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || path == root || strings.HasSuffix(path, "-shm"):
			return err
		case d.IsDir():
			m.start[path], m.names[path] = nil, 0
			return nil
		}
		data, err := os.ReadFile(path)
		m.files++
		m.start[path], m.names[path] = append([]byte{}, data...), m.files
		m.ops = append(m.ops, op{what: opStart, inode: m.files, path: path, data: data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	machines.Lock()
	defer machines.Unlock()
	machines.byRoot[root] = m
	t.Cleanup(func() {
		machines.Lock()
		defer machines.Unlock()
		delete(machines.byRoot, root)
	})
	return m
}

// machineOf finds the machine that a path is on.
func machineOf(path string) *Machine {
	machines.Lock()
	defer machines.Unlock()
	for root, m := range machines.byRoot {
		if strings.HasPrefix(path, root+string(filepath.Separator)) || path == root {
			return m
		}
	}
	return nil
}

// TempDir is a new folder, in memory where the system has such a place.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "faulttest-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Inject lets the n-th call from now that the kind can strike fail, once.
func (m *Machine) Inject(kind Kind, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kind, m.at, m.seen, m.fired = kind, n, 0, ""
}

// IgnoreSyncs makes every sync from now on succeed without effect, as a disk
// with a volatile cache does. A loss of power must then show.
func (m *Machine) IgnoreSyncs() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lying = true
}

// Fired says which call was struck, empty if none was yet.
func (m *Machine) Fired() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fired
}

// strike says whether this call is the one, and how it is to fail.
func (m *Machine) strike(c class, call, path string) (Kind, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	can := false
	switch m.kind {
	case IOError:
		can = true
	case DiskFull:
		can = c == grow
	case ShortWrite, SilentLoss:
		can = call == "write"
	case ReportedLost:
		can = c == grow || c == alter || c == flush
	case SyncDropped:
		can = call == "fsync" // file systems that lose names stop altogether
	}
	if !can || m.fired != "" {
		return "", false
	}
	if m.seen++; m.seen != m.at {
		return "", false
	}
	m.fired = fmt.Sprintf("%s of %s", call, strings.TrimPrefix(path, m.root))
	return m.kind, true
}
