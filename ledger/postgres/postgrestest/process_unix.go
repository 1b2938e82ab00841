//go:build unix

package postgrestest

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is whom to run the server as, which refuses to be run by root.
func account() (uid, gid int, err error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return 0, 0, err
		}
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(u.Gid)
	return uid, gid, err
}

// give lets the server's account own a folder.
func give(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := account()
	if err != nil {
		return err
	}
	return os.Chown(dir, uid, gid)
}

func unprivileged() *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := account()
	if err != nil {
		return nil // give has said so
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// quit is the signal for an immediate end.
const quit = syscall.SIGQUIT

// childrenOf lists the children of a process, on systems that have /proc.
// PostgreSQL gives each a session of its own, so no group holds them.
func childrenOf(pid int) []*os.Process {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	var found []*os.Process
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(text)) {
			id, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			if p, err := os.FindProcess(id); err == nil {
				found = append(found, p)
			}
		}
	}
	return found
}
