package faulttest

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// The VFS is the default one with some of its methods replaced. It becomes the
// default of the process, so the ledger opens its database as it always does.
// https://sqlite.org/vfs.html says what each method must do.

var registerOnce sync.Once

// under is the VFS that does the work.
var under *sqlite3.Tsqlite3_vfs

// pages are the open database files of machines, by the address of SQLite's
// file object, and the method tables in front of the real ones.
var pages struct {
	sync.Mutex
	open   map[uintptr]*page
	tables map[uintptr]uintptr
}

// page is one open file.
type page struct {
	methods *sqlite3.Tsqlite3_io_methods // the real ones
	machine *Machine
	path    string
	inode   int
	fresh   bool // a journal, whose name is made durable with its first sync
}

// at reads an address that SQLite gave as a pointer. What lies there was not
// allocated by Go.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// fn reads a method, set writes one.
func fn[F any](method *uintptr) F     { return *(*F)(unsafe.Pointer(method)) }
func set[F any](method *uintptr, f F) { *(*F)(unsafe.Pointer(method)) = f }

// raw allocates memory that Go does not move.
func raw[T any](tls *libc.TLS) (uintptr, *T) {
	var v T
	p := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(v)))
	if p == 0 {
		panic("faulttest: out of memory")
	}
	return p, at[T](p)
}

func register() {
	tls := libc.NewTLS() // lives as long as the process
	pages.open, pages.tables = map[uintptr]*page{}, map[uintptr]uintptr{}
	under = at[sqlite3.Tsqlite3_vfs](sqlite3.Xsqlite3_vfs_find(tls, 0))
	address, vfs := raw[sqlite3.Tsqlite3_vfs](tls)
	*vfs = *under
	name, err := libc.CString("faulttest")
	if err != nil {
		panic(err)
	}
	vfs.FzName, vfs.FpNext = name, 0
	set(&vfs.FxOpen, vfsOpen)
	set(&vfs.FxDelete, vfsDelete)
	set(&vfs.FxAccess, vfsAccess)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, address, 1); rc != sqlite3.SQLITE_OK {
		panic(fmt.Sprintf("faulttest: register the VFS: %d", rc))
	}
}

type (
	openMethod     = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	deleteMethod   = func(tls *libc.TLS, vfs, name uintptr, syncDir int32) int32
	accessMethod   = func(tls *libc.TLS, vfs, name uintptr, flags int32, out uintptr) int32
	closeMethod    = func(tls *libc.TLS, file uintptr) int32
	transferMethod = func(tls *libc.TLS, file, buffer uintptr, n int32, offset int64) int32
	truncateMethod = func(tls *libc.TLS, file uintptr, size int64) int32
	intMethod      = func(tls *libc.TLS, file uintptr, n int32) int32
	sizeMethod     = func(tls *libc.TLS, file, out uintptr) int32
	shmMapMethod   = func(tls *libc.TLS, file uintptr, page, size, extend int32, out uintptr) int32
	shmLockMethod  = func(tls *libc.TLS, file uintptr, offset, n, flags int32) int32
)

func self() uintptr { return uintptr(unsafe.Pointer(under)) }

func vfsOpen(tls *libc.TLS, _, name, file uintptr, flags int32, out uintptr) int32 {
	open := fn[openMethod](&under.FxOpen)
	if name == 0 {
		return open(tls, self(), name, file, flags, out)
	}
	path := libc.GoString(name)
	m := machineOf(path)
	if m == nil {
		return open(tls, self(), name, file, flags, out)
	}
	c := read
	if _, err := os.Stat(path); err != nil {
		c = grow
	}
	// As in the default VFS, which does not ask whether the file was there.
	fresh := flags&sqlite3.SQLITE_OPEN_CREATE != 0 && flags&(sqlite3.SQLITE_OPEN_WAL|sqlite3.SQLITE_OPEN_MAIN_JOURNAL) != 0
	kind, struck := m.strike(c, "open", path)
	if struck && kind != ReportedLost {
		at[sqlite3.Tsqlite3_file](file).FpMethods = 0
		return sqlite3.SQLITE_CANTOPEN
	}
	if rc := open(tls, self(), name, file, flags, out); rc != sqlite3.SQLITE_OK {
		return rc
	}
	p := &page{machine: m, path: path, fresh: fresh}
	if p.inode, _ = m.inode(path); p.inode == 0 {
		p.inode = m.create(path)
	}
	f := at[sqlite3.Tsqlite3_file](file)
	p.methods = at[sqlite3.Tsqlite3_io_methods](f.FpMethods)
	pages.Lock()
	defer pages.Unlock()
	table, ok := pages.tables[f.FpMethods]
	if !ok {
		table = methodTable(tls, p.methods)
		pages.tables[f.FpMethods] = table
	}
	pages.open[file] = p
	f.FpMethods = table
	if struck {
		// xClose is called all the same, as the methods are set.
		return sqlite3.SQLITE_CANTOPEN
	}
	return sqlite3.SQLITE_OK
}

func methodTable(tls *libc.TLS, real *sqlite3.Tsqlite3_io_methods) uintptr {
	address, t := raw[sqlite3.Tsqlite3_io_methods](tls)
	*t = *real
	set(&t.FxClose, ioClose)
	set(&t.FxRead, ioRead)
	set(&t.FxWrite, ioWrite)
	set(&t.FxTruncate, ioTruncate)
	set(&t.FxSync, ioSync)
	set(&t.FxFileSize, ioFileSize)
	set(&t.FxLock, ioLock)
	set(&t.FxShmMap, ioShmMap)
	set(&t.FxShmLock, ioShmLock)
	return address
}

func pageOf(file uintptr) *page {
	pages.Lock()
	defer pages.Unlock()
	return pages.open[file]
}
