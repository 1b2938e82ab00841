//go:build !unix

package stages

import (
	"os"
	"os/exec"
)

// ownGroup: without process groups the command alone is killed.
func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func endGroup(*exec.Cmd) {}

func maxRSS(*os.ProcessState) int64 { return 0 }

func ownMaxRSS() int64 { return 0 }

func linkCount(os.FileInfo) uint64 { return 1 }
