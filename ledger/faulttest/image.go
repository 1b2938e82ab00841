package faulttest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

type what int

const (
	opStart what = iota // a file that was there
	opName              // names change: those of set appear, that of gone goes
	opWrite
	opTruncate
	opSync    // of a file
	opSyncDir // of a folder
	opDrop    // what is not synced of a file is lost for good
)

// op is one change of the disk.
type op struct {
	what   what
	inode  int
	path   string // of the folder for opSyncDir; the name that appears for opName
	gone   string // the name that goes, for opName
	offset int64  // or size, for opTruncate
	data   []byte
}

// Loss is what a crash takes with it.
type Loss string

// Losses.
const (
	Kill      Loss = "process killed"                    // nothing: the system lives and writes all of it
	Power     Loss = "power lost, nothing unsynced kept" //
	PowerSome Loss = "power lost, parts kept"            // any sectors of any writes, any names
	PowerName Loss = "power lost, names but no contents" //
)

// Losses lists them.
var Losses = []Loss{Kill, Power, PowerSome, PowerName}

const sector = 512

// Point is the number of changes so far.
func (m *Machine) Point() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ops)
}

// record takes a change down, when it has been made.
func (m *Machine) record(o op) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take(o)
}

func (m *Machine) take(o op) {
	if m.lying && (o.what == opSync || o.what == opSyncDir) {
		return
	}
	o.data = slices.Clone(o.data)
	m.ops = append(m.ops, o)
	if o.what == opName {
		delete(m.names, o.gone)
		if o.path != "" {
			m.names[o.path] = o.inode
		}
	}
}

// create takes a new file down and returns its inode.
func (m *Machine) create(path string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files++
	m.take(op{what: opName, inode: m.files, path: path})
	return m.files
}

// inode finds a visible file.
func (m *Machine) inode(path string) (int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, ok := m.names[path]
	return n, ok
}

// content is a file as it is on the disk and what is only in memory.
type content struct {
	synced  []byte
	pending []op
}

func (c *content) apply(o op, keep func(sector int64) bool) {
	if o.what == opTruncate {
		if keep(o.offset / sector) {
			c.synced = resize(c.synced, o.offset)
		}
		return
	}
	for at := int64(0); at < int64(len(o.data)); {
		offset := o.offset + at
		n := min(sector-offset%sector, int64(len(o.data))-at)
		if keep(offset / sector) {
			if end := offset + n; end > int64(len(c.synced)) {
				c.synced = resize(c.synced, end)
			}
			copy(c.synced[offset:], o.data[at:at+n])
		}
		at += n
	}
}

func resize(data []byte, size int64) []byte {
	if int64(len(data)) >= size {
		return data[:size:size]
	}
	return append(data[:len(data):len(data)], make([]byte, size-int64(len(data)))...)
}

// Image lays out, in a new folder, the disk as it is found when the crash
// comes after the first point changes. Equal seeds lose the same parts.
func (m *Machine) Image(t testing.TB, point int, loss Loss, seed uint64) string {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	files, names := m.replay(m.ops[:point], loss, rand.New(rand.NewPCG(seed, 1)))
	dir := TempDir(t)
	for _, path := range slices.Sorted(maps.Keys(names)) {
		target := filepath.Join(dir, path[len(m.root):])
		if err := layOut(target, names[path], files); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func layOut(target string, inode int, files map[int]*content) error {
	if _, err := os.Stat(filepath.Dir(target)); err != nil {
		return nil // its folder was lost, and it with it
	}
	if inode == 0 {
		return os.Mkdir(target, 0o755)
	}
	return os.WriteFile(target, files[inode].synced, 0o644)
}

func (m *Machine) replay(ops []op, loss Loss, r *rand.Rand) (map[int]*content, map[string]int) {
	files, names := map[int]*content{}, map[string]int{}
	for path, data := range m.start {
		if data == nil {
			names[path] = 0
		}
	}
	file := func(inode int) *content {
		if files[inode] == nil {
			files[inode] = &content{}
		}
		return files[inode]
	}
	all := func(int64) bool { return true }
	var pending []op // changes of names that are only in memory
	rename := func(o op) {
		delete(names, o.gone)
		if o.path != "" {
			names[o.path] = o.inode
		}
	}
	in := func(o op, dir string) bool {
		return o.path != "" && filepath.Dir(o.path) == dir || o.gone != "" && filepath.Dir(o.gone) == dir
	}
	for _, o := range ops {
		switch o.what {
		case opStart:
			names[o.path] = o.inode
			file(o.inode).synced = slices.Clone(o.data)
		case opName:
			if o.inode != 0 {
				file(o.inode)
			}
			pending = append(pending, o)
		case opWrite, opTruncate:
			f := file(o.inode)
			f.pending = append(f.pending, o)
		case opSync:
			f := file(o.inode)
			for _, w := range f.pending {
				f.apply(w, all)
			}
			f.pending = nil
		case opSyncDir:
			pending = slices.DeleteFunc(pending, func(p op) bool {
				if in(p, o.path) {
					rename(p)
					return true
				}
				return false
			})
		case opDrop:
			// A killed process still sees what memory holds: only a loss of power shows it.
			if loss != Kill {
				file(o.inode).pending = nil
			}
		default:
			panic(fmt.Sprintf("faulttest: change %d", o.what))
		}
	}
	coin := func(int64) bool { return r.IntN(2) == 0 }
	for _, p := range pending {
		if loss == Kill || loss == PowerName || loss == PowerSome && coin(0) {
			rename(p)
		}
	}
	// In order of inodes, so that equal seeds give equal images.
	for _, inode := range slices.Sorted(maps.Keys(files)) {
		f := files[inode]
		for _, w := range f.pending {
			switch loss {
			case Kill:
				f.apply(w, all)
			case PowerSome:
				f.apply(w, coin)
			}
		}
	}
	return files, names
}
