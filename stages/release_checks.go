package stages

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
)

// checkTime bounds one check.
const checkTime = time.Minute

// checked is one check that was run, for the private record. What it printed is
// not kept: it may hold anything.
type checked struct {
	Command  []string  `json:"command"`
	At       time.Time `json:"at"`
	Exit     int       `json:"exitStatus"`
	OK       bool      `json:"ok"`
	position int
}

// runChecks runs the commands that must agree, until the first that does not.
func runChecks(ctx context.Context, run *Run, commands [][]string) []checked {
	var list []checked
	for i, argv := range commands {
		run.say(fmt.Sprintf("check %d of %d", i+1, len(commands)))
		limit, cancel := limited(ctx, checkTime)
		cmd := exec.CommandContext(limit, argv[0], argv[1:]...)
		cmd.Dir = run.Project
		c := checked{Command: argv, At: run.Now().UTC(), position: i + 1}
		res, failure := execute(ctx, limit, cmd, checkTime)
		cancel()
		c.Exit, c.OK = res.ExitStatus, failure == "" && res.ExitStatus == 0
		if list = append(list, c); !c.OK {
			break
		}
	}
	return list
}

func failedChecks(list []checked) []string {
	var open []string
	for _, c := range list {
		if !c.OK {
			open = append(open, fmt.Sprintf("check %d of the machine's file ended with exit status %d, want 0: a job or a transfer may still run on the machine", c.position, c.Exit))
		}
	}
	return open
}

// busyTags names the machine's tags by which somebody says that he works there.
func busyTags(m schemas.Compute, seen RentalState) []string {
	var open []string
	for name, value := range seen.Tags {
		if value != "" && slices.ContainsFunc(m.BusyTags, func(t string) bool { return strings.EqualFold(t, name) }) {
			open = append(open, fmt.Sprintf("the machine's tag %q says that somebody works there", name))
		}
	}
	slices.Sort(open)
	return open
}
