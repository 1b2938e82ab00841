package isolation

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/weighmaster/weighmaster/schemas"
)

const (
	// UID is the user and group inside a box: nobody, who owns nothing.
	UID = 65534

	installBubblewrap = "install bubblewrap (Debian: apt-get install bubblewrap)"
	allowNamespaces   = "this user may make no namespaces: allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces, an AppArmor profile for bwrap, a container's seccomp profile), or use box: {method: landlock}"
)

// namespaces are the options that every box of bubblewrap has.
func namespaces(network bool) []string {
	args := []string{"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--disable-userns",
		"--uid", fmt.Sprint(UID), "--gid", fmt.Sprint(UID), "--hostname", "box", "--die-with-parent", "--new-session",
		// The guard needs these two to make mounts noexec, in a namespace of its own, and gives them away.
		"--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"}
	if !network {
		args = append(args, "--unshare-net")
	}
	return args
}

// bubblewrap finds out, once, where bwrap is and that it works for this user.
var bubblewrap = sync.OnceValues(func() (string, error) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return "", fmt.Errorf("%s: bwrap is not on the PATH: %s", Bubblewrap, installBubblewrap)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	args := append(namespaces(false), "--ro-bind", "/usr", "/usr")
	args = append(args, systemLinks()...)
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--", "/usr/bin/true")
	cmd := exec.Command(path, args...)
	cmd.Env = []string{}
	if out, err := cmd.CombinedOutput(); err != nil {
		words := strings.TrimSpace(string(out))
		return "", fmt.Errorf("%s: %s does not work here: %w: %s; %s", Bubblewrap, path, err, words[:min(len(words), 300)], allowNamespaces)
	}
	return path, nil
})

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
func (b *Box) bwrapArguments(self string, passwd, group int) []string {
	network := b.Admits(schemas.AdmitNetwork)
	args := append(namespaces(network), "--ro-bind", "/usr", "/usr")
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
	return append(args, "--remount-ro", "/proc", "--remount-ro", insideBase, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", b.Inside(b.profile.Dir))
}

// bwrapCommand starts bwrap, which starts this program as the guard, which
// closes the box from within and becomes the program.
func (b *Box) bwrapCommand(ctx context.Context, argv []string) (*exec.Cmd, error) {
	bwrap, err := bubblewrap()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("box: find the running binary: %w", err)
	}
	cmd := exec.CommandContext(ctx, bwrap)
	// Descriptors 3 and on: the guard's job, bwrap's arguments, two files. They are
	// anonymous, so that neither a path nor a value shows in any list of processes.
	job := guardJob{Program: b.Inside(argv[0]), Args: append([]string{b.Inside(argv[0])}, argv[1:]...), Env: b.env, Network: b.Admits(schemas.AdmitNetwork), Refuse: keyCalls}
	if !b.profile.RunsProducts {
		job.Executable, job.NoExec = b.executable(), b.writable()
	}
	args := b.bwrapArguments(self, 5, 6)
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
