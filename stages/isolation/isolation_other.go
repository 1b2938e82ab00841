//go:build !linux

package isolation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

func supported(m Method) error {
	switch {
	case m == None:
		return nil
	case m == Sandbox && runtime.GOOS == "darwin":
		return sandboxInstalled()
	}
	return fmt.Errorf("%s: %w", m, errNotHere)
}

func confine(cmd *exec.Cmd, m Method) {
	if m == Sandbox {
		cmd.Args = append([]string{sandboxExec, "-p", "(version 1)(allow default)(deny network*)", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = sandboxExec
	}
}

func enterSeccomp() error {
	return errors.New("enter the box: a seccomp filter was asked for, which this operating system does not have; the process must not go on")
}

func sandboxInstalled() error {
	if _, err := os.Stat(sandboxExec); err != nil {
		return fmt.Errorf("%s: %w", Sandbox, err)
	}
	return nil
}
