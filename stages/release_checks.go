package stages

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/azure"
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
func busyTags(m schemas.Compute, o azure.Observation) []string {
	var open []string
	for name, value := range o.Tags {
		if value != "" && slices.ContainsFunc(m.BusyTags, func(t string) bool { return strings.EqualFold(t, name) }) {
			open = append(open, fmt.Sprintf("the machine's tag %q says that somebody works there", name))
		}
	}
	slices.Sort(open)
	return open
}

// dmiUUID is the firmware's identity of the machine that this runs on, where it may be read (Linux, as root).
func dmiUUID() string {
	b, err := os.ReadFile("/sys/class/dmi/id/product_uuid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// sameUUID compares a firmware's identity with Azure's: SMBIOS keeps the first
// three fields in little-endian order, and guests show them either way.
func sameUUID(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return strings.EqualFold(a, b) || strings.EqualFold(swapped(a), b)
}

func swapped(uuid string) string {
	raw, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(raw) != 16 {
		return ""
	}
	slices.Reverse(raw[0:4])
	slices.Reverse(raw[4:6])
	slices.Reverse(raw[6:8])
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[0:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}
