package isolation

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/weighmaster/weighmaster/schemas"
)

// landlockSystem are files of the machine beside the system's folders that
// programs open. Landlock has no private /proc, /tmp or /etc: a box made by it shows these as they are.
var landlockSystem = []string{"/etc/passwd", "/etc/group", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/filesystems",
	"/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/osrelease"}

var landlockDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// prepareLandlock looks at the kernel's version and hands the writable folder over where it can.
func (b *Box) prepareLandlock() error {
	version, err := landlockABI()
	if err != nil {
		return err
	}
	b.record["landlock"] = version
	b.record["weaker"] = weakness[Landlock]
	if os.Geteuid() != 0 {
		return nil
	}
	if why := b.keepsRoot(); why != "" {
		b.record["uidStays"] = why
		return nil
	}
	for _, m := range b.mounts {
		if m.Write {
			if err := b.handOver(m.real); err != nil {
				return err
			}
		}
	}
	if err := b.handOver(b.private); err != nil {
		return err
	}
	b.handed = true
	b.record["uid"] = UID
	return nil
}

// keepsRoot tells why the program cannot become another user; empty when it can.
func (b *Box) keepsRoot() string {
	writable := 0
	for _, m := range b.mounts {
		if m.Write {
			writable++
		}
		for at := m.real; ; at = filepath.Dir(at) {
			st, err := os.Stat(at)
			if err != nil || st.Mode().Perm()&0o005 != 0o005 && st.IsDir() || st.Mode().Perm()&0o004 == 0 && !st.IsDir() {
				return "mount " + m.Name + " cannot be reached by other users"
			}
			if filepath.Dir(at) == at {
				break
			}
		}
	}
	if writable != 1 {
		return fmt.Sprintf("%d mounts are writable; one folder alone is handed over", writable)
	}
	return ""
}

// handOver gives a folder to the box's user until the box is closed.
func (b *Box) handOver(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("box: %w", err)
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("box: %s: its owner is not known", dir)
	}
	give := func(uid, gid int) error {
		return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, uid, gid)
		})
	}
	// Before the folder itself goes, which runs as the first cleanup that was added.
	b.cleanups = append([]func() error{func() error { return give(int(owner.Uid), int(owner.Gid)) }}, b.cleanups...)
	if err := give(UID, UID); err != nil {
		return fmt.Errorf("box: hand %s over to user %d: %w", dir, UID, err)
	}
	return nil
}

// landlockCommand starts this program as the guard, which restricts itself and becomes the program.
func (b *Box) landlockCommand(ctx context.Context, argv []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("box: find the running binary: %w", err)
	}
	network := b.Admits(schemas.AdmitNetwork)
	job := guardJob{Program: argv[0], Args: argv, Env: b.env, Dir: b.profile.Dir, Network: network,
		Refuse: append(append([]string{}, keyCalls...), processCalls...), Executable: b.executable(),
		Files: &fileRules{Read: append(append(append([]string{}, b.system...), systemFiles...), landlockSystem...), Write: []string{b.private}, Devices: landlockDevices}}
	job.Files.Read = append(job.Files.Read, processorFiles...)
	if network {
		job.Files.Read = append(job.Files.Read, networkFiles...)
		job.Families = networkFamilies
	} else {
		job.Refuse = append(job.Refuse, socketCalls...)
	}
	for _, m := range b.mounts {
		if m.Write {
			job.Files.Write = append(job.Files.Write, m.real)
		} else {
			job.Files.Read = append(job.Files.Read, m.real)
		}
	}
	if b.handed {
		job.UID = UID
	}
	if b.profile.RunsProducts {
		job.Executable = append(job.Executable, job.Files.Write...)
	}
	if b.Admits(schemas.AdmitGPU) {
		job.Files.Devices = append(append([]string{}, landlockDevices...), graphicsNodes()...)
		job.Files.Read = append(job.Files.Read, graphicsFiles()...)
	}
	if b.profile.adjust != nil {
		b.profile.adjust(nil, &job)
	}
	cmd := exec.CommandContext(ctx, self)
	if err := b.attach(cmd, "job", job.encode()); err != nil {
		return nil, err
	}
	cmd.Env, cmd.Dir = []string{marker + "=" + guardMarker}, "/"
	return cmd, nil
}
