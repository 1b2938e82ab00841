package stages

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// owner is who holds the lock, for people to read. The lock itself is the
// operating system's: it ends with the process, however that ends, so that no
// pid of another boot is ever believed.
type owner struct {
	PID     int    `json:"pid"`
	BootID  string `json:"bootId"`
	Started string `json:"started"` // RFC 3339
}

type lock struct{ f *os.File }

// LockedError says that another run holds the project.
type LockedError struct{ Path, Owner string }

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s: another run holds this project: %s; wait for it to end", e.Path, e.Owner)
}

// acquireLock takes the project's lock: one heavy job at a time.
func acquireLock(path string, now time.Time) (*lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		held, _ := os.ReadFile(path)
		f.Close()
		return nil, &LockedError{Path: path, Owner: strings.TrimSpace(string(held))}
	}
	body, err := json.Marshal(owner{PID: os.Getpid(), BootID: bootID(), Started: now.UTC().Format(time.RFC3339)})
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(append(body, '\n'), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &lock{f}, nil
}

func (l *lock) release() { l.f.Close() }

// bootID identifies the running system's boot on Linux; empty elsewhere.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
