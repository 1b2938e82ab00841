//go:build !unix

package postgrestest

import (
	"os"
	"syscall"
)

func give(string) error { return nil }

func unprivileged() *syscall.SysProcAttr { return nil }

const quit = syscall.SIGQUIT

func childrenOf(int) []*os.Process { return nil }
