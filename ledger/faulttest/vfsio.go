package faulttest

import (
	"path/filepath"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// code is the result code of a fault.
func code(k Kind, otherwise int32) int32 {
	if k == DiskFull || k == ShortWrite {
		return sqlite3.SQLITE_FULL
	}
	return otherwise
}

func vfsDelete(tls *libc.TLS, _, name uintptr, syncDir int32) int32 {
	path := libc.GoString(name)
	m := machineOf(path)
	if m == nil {
		return fn[deleteMethod](&under.FxDelete)(tls, self(), name, syncDir)
	}
	kind, struck := m.strike(alter, "delete", path)
	if struck && kind != ReportedLost {
		return sqlite3.SQLITE_IOERR_DELETE
	}
	rc := fn[deleteMethod](&under.FxDelete)(tls, self(), name, 0)
	if rc == sqlite3.SQLITE_OK {
		m.record(op{what: opName, gone: path})
		if syncDir != 0 {
			m.record(op{what: opSyncDir, path: filepath.Dir(path)})
		}
	}
	if struck {
		return sqlite3.SQLITE_IOERR_DELETE
	}
	return rc
}

func vfsAccess(tls *libc.TLS, _, name uintptr, flags int32, out uintptr) int32 {
	if m := machineOf(libc.GoString(name)); m != nil {
		if _, struck := m.strike(read, "access", libc.GoString(name)); struck {
			return sqlite3.SQLITE_IOERR_ACCESS
		}
	}
	return fn[accessMethod](&under.FxAccess)(tls, self(), name, flags, out)
}

func ioClose(tls *libc.TLS, file uintptr) int32 {
	p := pageOf(file)
	pages.Lock()
	delete(pages.open, file)
	pages.Unlock()
	return fn[closeMethod](&p.methods.FxClose)(tls, file)
}

func ioRead(tls *libc.TLS, file, buffer uintptr, n int32, offset int64) int32 {
	p := pageOf(file)
	if _, struck := p.machine.strike(read, "read", p.path); struck {
		return sqlite3.SQLITE_IOERR_READ
	}
	return fn[transferMethod](&p.methods.FxRead)(tls, file, buffer, n, offset)
}

func ioWrite(tls *libc.TLS, file, buffer uintptr, n int32, offset int64) int32 {
	p := pageOf(file)
	kind, struck := p.machine.strike(grow, "write", p.path)
	switch {
	case struck && kind == SilentLoss:
		return sqlite3.SQLITE_OK
	case struck && kind == ShortWrite:
		n /= 2
	case struck && kind != ReportedLost:
		return code(kind, sqlite3.SQLITE_IOERR_WRITE)
	}
	rc := fn[transferMethod](&p.methods.FxWrite)(tls, file, buffer, n, offset)
	if rc == sqlite3.SQLITE_OK {
		p.machine.record(op{what: opWrite, inode: p.inode, offset: offset, data: unsafe.Slice(at[byte](buffer), n)})
	}
	if struck {
		return code(kind, sqlite3.SQLITE_IOERR_WRITE)
	}
	return rc
}

func ioTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	p := pageOf(file)
	kind, struck := p.machine.strike(alter, "truncate", p.path)
	if struck && kind != ReportedLost {
		return sqlite3.SQLITE_IOERR_TRUNCATE
	}
	rc := fn[truncateMethod](&p.methods.FxTruncate)(tls, file, size)
	if rc == sqlite3.SQLITE_OK {
		p.machine.record(op{what: opTruncate, inode: p.inode, offset: size})
	}
	if struck {
		return sqlite3.SQLITE_IOERR_TRUNCATE
	}
	return rc
}

func ioSync(_ *libc.TLS, file uintptr, _ int32) int32 {
	p := pageOf(file)
	if p.machine.sync("fsync", p.path, op{what: opSync, inode: p.inode}) != nil {
		return sqlite3.SQLITE_IOERR_FSYNC
	}
	if p.fresh {
		// The default VFS syncs the folder with the first sync of a journal.
		p.fresh = false
		p.machine.record(op{what: opSyncDir, path: filepath.Dir(p.path)})
	}
	return sqlite3.SQLITE_OK
}

func ioFileSize(tls *libc.TLS, file, out uintptr) int32 {
	p := pageOf(file)
	if _, struck := p.machine.strike(read, "size", p.path); struck {
		return sqlite3.SQLITE_IOERR_FSTAT
	}
	return fn[sizeMethod](&p.methods.FxFileSize)(tls, file, out)
}

func ioLock(tls *libc.TLS, file uintptr, level int32) int32 {
	p := pageOf(file)
	if _, struck := p.machine.strike(lock, "lock", p.path); struck {
		return sqlite3.SQLITE_IOERR_LOCK
	}
	return fn[intMethod](&p.methods.FxLock)(tls, file, level)
}

func ioShmMap(tls *libc.TLS, file uintptr, page, size, extend int32, out uintptr) int32 {
	p := pageOf(file)
	if _, struck := p.machine.strike(grow, "shared memory", p.path); struck {
		*at[uintptr](out) = 0
		return sqlite3.SQLITE_IOERR_SHMMAP
	}
	return fn[shmMapMethod](&p.methods.FxShmMap)(tls, file, page, size, extend, out)
}

func ioShmLock(tls *libc.TLS, file uintptr, offset, n, flags int32) int32 {
	p := pageOf(file)
	if flags&sqlite3.SQLITE_SHM_LOCK != 0 {
		if _, struck := p.machine.strike(lock, "shared memory lock", p.path); struck {
			return sqlite3.SQLITE_IOERR_SHMLOCK
		}
	}
	return fn[shmLockMethod](&p.methods.FxShmLock)(tls, file, offset, n, flags)
}
