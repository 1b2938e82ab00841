package stages

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFileSystemsOfSeveralMachinesHoldNoLock(t *testing.T) {
	for magic, want := range map[int64]string{
		0x6969: "it lies on NFS", 0xFF534D42: "SMB", -0xACB2BE: "SMB", 0xFE534D42: "SMB", 0x517B: "SMB", 0x00c36400: "several machines",
		0xEF53: "", 0x01021994: "", 0x794c7630: "", 0x9123683E: "", 0x58465342: "", 0x2FC12FC1: "", // ext4, tmpfs, overlayfs, btrfs, XFS, ZFS
	} {
		if got := sharedFileSystem(magic); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%#x: got %q, want %q", magic, got, want)
		}
	}
}

func TestALockThatCannotBeTakenNamesWhatToDo(t *testing.T) {
	err := &NoLocksError{"/nfs/p/work/lock", sharedFileSystem(0x6969)}
	if want := "/nfs/p/work/lock: it lies on NFS, so that two runs could not be told apart; use a folder on a local disk (for the machine's lock: WEIGHMASTER_MACHINE_ROOT or --machine-root)"; err.Error() != want {
		t.Errorf("got %s", err)
	}
}

// A holder that was stopped still holds, and that is said.
func TestAStoppedHolderIsNamedAsStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	child, _ := holding(t, path)
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(child.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("it did not stop: %v", err)
	}
	_, _, err := acquireLock(path, holder{})
	var locked *LockedError
	if !errors.As(err, &locked) || !strings.Contains(locked.Who, "it is stopped by a signal; let it go on (kill -CONT ") {
		t.Errorf("got %v, want a refusal that says that the holder is stopped", err)
	}
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, _, err = acquireLock(path, holder{}); !errors.As(err, &locked) || !strings.HasSuffix(locked.Who, ": it runs") {
		t.Errorf("got %v, want that it runs", err)
	}
}

// The file is not writable for whom it is not: no lock is better than a wrong one.
func TestALockThatIsNotOursIsRefused(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, _, err := acquireLock(path, holder{}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v", err)
	}
}
