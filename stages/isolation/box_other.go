//go:build !linux

package isolation

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

func boxSupported(m Method) error {
	if m == None {
		return nil
	}
	return fmt.Errorf("%s: %w", m, errNotHere)
}

func (b *Box) prepare() error { return nil }

func (b *Box) command(ctx context.Context, argv []string) (*exec.Cmd, error) {
	return b.openCommand(ctx, argv)
}

func systemPaths() []string { return nil }

func enterGuard() error {
	return errors.New("enter the box: a guard was asked for, which this operating system does not have; the program was not started")
}
