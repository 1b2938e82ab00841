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
		b.record["weaker"] = weakness[Sandbox]
	}
	return nil
}

func (b *Box) command(ctx context.Context, argv []string) (*exec.Cmd, error) {
	if b.method == Sandbox {
		return b.sandboxCommand(ctx, argv)
	}
	return b.openCommand(ctx, argv)
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
