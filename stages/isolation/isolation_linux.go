package isolation

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"sync"
	"syscall"

	seccomp "github.com/elastic/go-seccomp-bpf"
)

func supported(m Method) error {
	switch m {
	case Namespace:
		_, err := idRange()
		return err
	case Seccomp:
		if !seccomp.Supported() {
			return fmt.Errorf("%s: the kernel has none", Seccomp)
		}
		return nil
	case None:
		return nil
	}
	return fmt.Errorf("%s: %w", m, errNotHere)
}

func confine(cmd *exec.Cmd, m Method) {
	if m != Namespace {
		return
	}
	if size, err := idRange(); err == nil {
		cmd.SysProcAttr = newNamespaces(size)
	}
}

// idRange finds out, once, with how many mapped ids a user namespace can be
// made here. Root maps all of them and so keeps its way with files of others;
// anybody else, and root in a container, maps itself alone. Some systems refuse
// any (a container's seccomp profile, AppArmor).
var idRange = sync.OnceValues(func() (int, error) {
	var last error
	for _, size := range []int{math.MaxInt32, 1} {
		if size > 1 && os.Geteuid() != 0 {
			continue
		}
		// The path runs through a file, so that a child that got its namespaces
		// ends in ENOTDIR, and one that did not ends in what refused them.
		cmd := exec.Cmd{Path: "/proc/self/exe/none", Args: []string{"none"}, SysProcAttr: newNamespaces(size)}
		if last = cmd.Run(); errors.Is(last, syscall.ENOTDIR) {
			return size, nil
		}
	}
	return 0, fmt.Errorf("%s: %w", Namespace, last)
})

func newNamespaces(size int) *syscall.SysProcAttr {
	uid, gid := os.Geteuid(), os.Getegid()
	if size > 1 {
		uid, gid = 0, 0
	}
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: size}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: size}},
	}
}
