//go:build !linux

package isolation

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
)

func boxSupported(m Method) error {
	switch {
	case m == None:
		return nil
	case m == Sandbox && runtime.GOOS == "darwin":
		return sandboxInstalled()
	}
	return fmt.Errorf("%s: %w", m, errNotHere)
}

func (b *Box) prepare() error {
	if b.method == Sandbox {
		b.record["weaker"], b.handed = weakness[Sandbox], false
	}
	return nil
}

func (b *Box) guarded(context.Context, []string) (*exec.Cmd, error) {
	return nil, fmt.Errorf("box: %s: %w", b.method, errNotHere)
}

func systemPaths() []string {
	if runtime.GOOS == "darwin" {
		return macSystem
	}
	return nil
}

func enterGuard() error {
	return errors.New("enter the box: a guard was asked for, which this operating system does not have; the program was not started")
}
