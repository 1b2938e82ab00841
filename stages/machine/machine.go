// Package machine tells of the machine that a stage runs on: which process of
// which boot this is, samples of memory, processors and GPUs, the kernel's
// high-water marks, and what else was running.
//
// Samples are readings every so often and miss what happens between two of
// them. A high-water mark is kept by the kernel and misses nothing, but is of
// one process and has a scope of its own. The two are never put into one number.
package machine

import (
	"os"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// Self identifies this process among those of all boots.
func Self() schemas.ProcessID { return Of(os.Getpid()) }

// Of identifies a running process; its start is empty when there is none.
func Of(pid int) schemas.ProcessID {
	return schemas.ProcessID{BootID: BootID(), Namespace: namespace(), PID: pid, Start: processStart(pid)}
}

// State is what became of a recorded process.
type State string

const (
	Alive     State = "alive"          // it runs
	Stopped   State = "stopped"        // it is there and stopped by a signal (SIGSTOP, SIGTSTP)
	Gone      State = "gone"           // no process has its pid
	Another   State = "another"        // its pid is another process' now
	OtherBoot State = "another boot"   // the record is from before a reboot
	Elsewhere State = "another system" // the record is of another container's processes: nothing can be told from here
)

// Look tells what became of a process. A pid alone proves nothing: boot and
// start must be those of the record, and a record without them is never alive.
func Look(id schemas.ProcessID) State {
	switch {
	case id.BootID == "" && BootID() != "", id.Start == "":
		return Another
	case id.BootID != BootID():
		return OtherBoot
	case id.Namespace != namespace():
		return Elsewhere
	}
	start, stopped, found := lookup(id.PID)
	switch {
	case !found:
		return Gone
	case start != id.Start:
		return Another
	case stopped:
		return Stopped
	}
	return Alive
}

// clean makes a program's name fit to be shown and stored: printable, at most 64 bytes.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
	for len(name) > 64 {
		runes := []rune(name)
		name = string(runes[:len(runes)-1])
	}
	if name == "" {
		return "?"
	}
	return name
}
