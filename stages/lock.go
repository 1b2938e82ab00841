package stages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/machine"
)

// holder is who holds a lock, for people to read. The lock itself is the
// operating system's: it ends with the process, however that ends, so that no
// pid of another boot is ever believed.
type holder struct {
	schemas.ProcessID
	Since   time.Time `json:"since"`
	Project string    `json:"project"`
	Stage   string    `json:"stage,omitempty"`
}

const maxLockRecord = 64 << 10 // bytes of a lock's record that are read

type lock struct{ f *os.File }

// LockedError says that another process holds the project, or the machine.
type LockedError struct {
	Path  string
	Of    string // this project, this machine
	Owner string // the record as it is
	Who   string // the record in words, held against what runs
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s: another run holds %s: %s; %s", e.Path, e.Of, e.Who, e.Owner)
}

// NoLocksError says that a lock on this file system would mean nothing.
type NoLocksError struct{ Path, Why string }

func (e *NoLocksError) Error() string {
	return fmt.Sprintf("%s: %s, so that two runs could not be told apart; use a folder on a local disk (for the machine's lock: WEIGHMASTER_MACHINE_ROOT or --machine-root)", e.Path, e.Why)
}

var errHeld = errors.New("somebody holds the lock")

// acquireLock takes a lock at once or not at all. Left tells of a holder that
// ended without giving it back; empty when there was none.
func acquireLock(path string, h holder) (l *lock, left string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, "", err
	}
	if why := withoutLocks(filepath.Dir(path)); why != "" {
		return nil, "", &NoLocksError{path, why}
	}
	f, err := openLocked(path)
	if errors.Is(err, errHeld) {
		held := readRecord(path)
		return nil, "", &LockedError{Path: path, Of: "this project", Owner: held, Who: describe(held)}
	}
	if err != nil {
		return nil, "", err
	}
	if old := readRecord(path); old != "" {
		left = describe(old)
	}
	body, err := json.Marshal(h)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(append(body, '\n'), 0)
	}
	if err != nil {
		f.Close()
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return &lock{f}, left, nil
}

// openLocked opens and locks the file that has the name, and shows that a lock
// keeps a second one out.
func openLocked(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		f.Close()
		if errors.Is(err, errHeld) {
			return nil, err
		}
		return nil, &NoLocksError{path, fmt.Sprintf("the file system refuses locks (%v)", err)}
	}
	second, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		f.Close()
		return nil, err
	}
	defer second.Close()
	mine, err := f.Stat()
	theirs, err2 := second.Stat()
	if err := errors.Join(err, err2); err != nil {
		f.Close()
		return nil, err
	}
	if !os.SameFile(mine, theirs) { // somebody made the file anew between the two
		f.Close()
		return nil, errHeld
	}
	if err := tryLock(second); !errors.Is(err, errHeld) {
		f.Close()
		return nil, &NoLocksError{path, "the file system gives one lock to two at a time"}
	}
	return f, nil
}

// release gives the lock back. An empty record says that the holder ended by itself.
func (l *lock) release() {
	_ = l.f.Truncate(0) // a record that stays is held against what runs, never believed
	l.f.Close()
}

func readRecord(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, maxLockRecord))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(body))
}

// describe holds a record against what runs here.
func describe(record string) string {
	var h holder
	if record == "" {
		return "a process that has not yet written who it is"
	}
	if json.Unmarshal([]byte(record), &h) != nil || h.PID < 1 {
		return "its record cannot be read"
	}
	what := ""
	if h.Stage != "" {
		what = " with stage " + h.Stage
	}
	if h.Project != "" {
		what += " of " + h.Project
	}
	if !h.Since.IsZero() {
		what += " since " + h.Since.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("process %d%s: %s", h.PID, what, became(h.ProcessID))
}

// became says in words what became of a recorded process.
func became(id schemas.ProcessID) string {
	switch machine.Look(id) {
	case machine.Alive:
		return "it runs"
	case machine.Stopped:
		return fmt.Sprintf("it is stopped by a signal; let it go on (kill -CONT %d) or end it", id.PID)
	case machine.Gone:
		return fmt.Sprintf("no process has the pid %d any more", id.PID)
	case machine.OtherBoot:
		return "the record is of another boot"
	case machine.Elsewhere:
		return "the record is of another container; nothing can be told of it from here"
	}
	return fmt.Sprintf("pid %d is another process now", id.PID)
}
