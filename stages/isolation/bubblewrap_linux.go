package isolation

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weighmaster/weighmaster/schemas"
)

const (
	installBubblewrap = "install bubblewrap (Debian: apt-get install bubblewrap)"
	allowNamespaces   = "this user may make no namespaces: allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces, an AppArmor profile for bwrap, a container's seccomp profile), or use box: {method: landlock}"
)

// maker is a bwrap that works here.
type maker struct {
	path string
	// noExec: the guard can make mounts noexec. Some systems (AppArmor's profile for
	// bwrap) leave no capability in the box; then Landlock alone denies execution.
	noExec bool
}

// namespaces are the options that every box of bubblewrap has.
func (m maker) namespaces(network bool) []string {
	args := []string{"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--disable-userns",
		"--uid", fmt.Sprint(UID), "--gid", fmt.Sprint(UID), "--hostname", "box", "--die-with-parent", "--new-session", "--cap-drop", "ALL"}
	if m.noExec { // the guard does it in a namespace of its own, and gives them away
		args = append(args, "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP")
	}
	if !network {
		args = append(args, "--unshare-net")
	}
	return args
}

// bubblewrap finds out, once, where bwrap is and that it works for this user.
var bubblewrap = sync.OnceValues(findBubblewrap)

func findBubblewrap() (maker, error) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return maker{}, fmt.Errorf("%s: bwrap is not on the PATH: %s", Bubblewrap, installBubblewrap)
	}
	if path, err = filepath.Abs(path); err != nil {
		return maker{}, err
	}
	if err := ownedByRoot(path); err != nil {
		return maker{}, fmt.Errorf("%s: %w: whoever may change it decides what a box is; %s", Bubblewrap, err, installBubblewrap)
	}
	var words string
	for _, m := range []maker{{path, true}, {path, false}} {
		if _, none := landlockABI(); none != nil && !m.noExec {
			break
		}
		if words, err = m.trial(); err == nil {
			return m, nil
		}
	}
	return maker{}, fmt.Errorf("%s: %s does not work here: %w: %s; %s", Bubblewrap, path, err, words[:min(len(words), 300)], allowNamespaces)
}

// ownedByRoot refuses a program that another user than root may change or
// replace: a bwrap that comes first on the PATH could show the probes a box and
// the tools none.
var ownedByRoot = func(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for _, p := range []string{real, filepath.Dir(real)} {
		var st unix.Stat_t
		if err := unix.Stat(p, &st); err != nil {
			return &fs.PathError{Op: "stat", Path: p, Err: err}
		}
		if st.Uid != 0 || st.Mode&0o022 != 0 {
			return fmt.Errorf("%s belongs to user %d, with mode %o, want root's and writable by nobody else", p, st.Uid, st.Mode&0o7777)
		}
	}
	return nil
}

// trial runs a program that does nothing in a box that holds nothing.
func (m maker) trial() (words string, err error) {
	b := &Box{method: Bubblewrap, system: systemPaths()}
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd, err := b.bwrapCommand(ctx, m, []string{"/usr/bin/true"})
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// systemTop are the folders of programs and libraries. Where they are links into /usr they stay links.
var systemTop = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

func systemLinks() []string {
	var args []string
	for _, dir := range systemTop {
		if to, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", to, dir)
		} else if _, err := os.Stat(dir); err == nil {
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	return args
}

// systemPaths are the folders of the system that a box shows, read-only.
func systemPaths() []string {
	list := []string{"/usr"}
	for _, dir := range systemTop {
		if _, err := os.Stat(dir); err == nil {
			list = append(list, dir)
		}
	}
	return list
}

// systemFiles are the files of /etc that programs need and that hold nothing of this machine's own.
var systemFiles = []string{"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime", "/etc/os-release", "/etc/mime.types", "/etc/protocols", "/etc/services"}

// networkFiles are let in with the network.
var networkFiles = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/ca-certificates.conf"}

// processorFiles tell a program how many processors and memory nodes there are.
var processorFiles = []string{"/sys/devices/system/cpu", "/sys/devices/system/node"}

// bwrapArguments lay out the box. The program follows them.
func (b *Box) bwrapArguments(m maker, self string, passwd, group int) []string {
	network := b.Admits(schemas.AdmitNetwork)
	args := append(m.namespaces(network), "--ro-bind", "/usr", "/usr")
	args = append(args, systemLinks()...)
	files := append(append([]string{}, systemFiles...), processorFiles...)
	if network {
		files = append(files, networkFiles...)
	}
	for _, f := range files {
		args = append(args, "--ro-bind-try", f, f)
	}
	args = append(args, "--ro-bind-data", fmt.Sprint(passwd), "/etc/passwd", "--ro-bind-data", fmt.Sprint(group), "/etc/group",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--tmpfs", insideBase, "--tmpfs", insideHome,
		"--ro-bind", self, guardPath)
	for i := len(b.mounts) - 1; i >= 0; i-- { // the shortest first
		m := b.mounts[i]
		how := "--ro-bind"
		if m.Write {
			how = "--bind"
		}
		args = append(args, how, m.real, m.Inside)
	}
	if b.Admits(schemas.AdmitGPU) {
		for _, n := range graphicsNodes() {
			args = append(args, "--dev-bind-try", n, n)
		}
		for _, f := range graphicsFiles() {
			args = append(args, "--ro-bind-try", f, f)
		}
	}
	dir := insideHome
	if b.profile.Dir != "" {
		dir = b.Inside(b.profile.Dir)
	}
	return append(args, "--remount-ro", "/proc", "--remount-ro", insideBase, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", dir)
}

// bwrapCommand starts bwrap, which starts this program as the guard, which
// closes the box from within and becomes the program.
func (b *Box) bwrapCommand(ctx context.Context, m maker, argv []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("box: find the running binary: %w", err)
	}
	cmd := exec.CommandContext(ctx, m.path)
	// Descriptors 3 and on: the guard's job, bwrap's arguments, two files. They are
	// anonymous, so that neither a path nor a value shows in any list of processes.
	job := guardJob{Program: b.Inside(argv[0]), Args: append([]string{b.Inside(argv[0])}, argv[1:]...), Env: b.env, Network: b.Admits(schemas.AdmitNetwork), Refuse: keyCalls, Families: boxFamilies}
	if !b.profile.RunsProducts {
		job.Executable = b.executable()
		if m.noExec {
			job.NoExec = b.writable()
		}
	}
	args := b.bwrapArguments(m, self, 5, 6)
	if b.profile.adjust != nil {
		args = b.profile.adjust(args, &job)
	}
	if err := b.attach(cmd, "job", job.encode()); err != nil {
		return nil, err
	}
	if err := b.attach(cmd, "args", []byte(strings.Join(args, "\x00")+"\x00")); err != nil {
		return nil, err
	}
	if err := b.attach(cmd, "passwd", fmt.Appendf(nil, "nobody:x:%d:%d:nobody:%s:/usr/sbin/nologin\n", UID, UID, insideHome)); err != nil {
		return nil, err
	}
	if err := b.attach(cmd, "group", fmt.Appendf(nil, "nogroup:x:%d:\n", UID)); err != nil {
		return nil, err
	}
	cmd.Args = append(cmd.Args, "--args", "4", "--", guardPath)
	cmd.Env = []string{marker + "=" + guardMarker}
	cmd.Dir = "/"
	return cmd, nil
}

// executable are the places in the box below which programs may be run: the
// system's folders and the mounts that are not writable.
func (b *Box) executable() []string {
	list := append([]string{}, b.system...)
	for _, m := range b.mounts {
		if !m.Write {
			list = append(list, b.Inside(m.Host))
		}
	}
	return list
}

// writable are the places in the box below which a program may write.
func (b *Box) writable() []string {
	list := []string{"/tmp", "/var/tmp", "/dev/shm", insideHome}
	for _, m := range b.mounts {
		if m.Write {
			list = append(list, m.Inside)
		}
	}
	return list
}
