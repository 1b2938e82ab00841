package machine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// clockTicks is the unit of processor times in /proc, per second: USER_HZ is 100
// on every architecture that Linux exports it for (proc(5), time(7)).
const clockTicks = 100

// BootID identifies the running system's boot.
var BootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

var namespace = sync.OnceValue(func() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
})

// Uptime is the time since the boot in seconds, sleep included, by a clock that
// nobody can set (CLOCK_BOOTTIME). Zero where there is none.
func Uptime() float64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return float64(ts.Sec) + float64(ts.Nsec)/1e9
}

func processStart(pid int) string {
	start, _, _ := lookup(pid)
	return start
}

func lookup(pid int) (start string, stopped, found bool) {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false, false
	}
	p, err := parseStat(body)
	if err != nil || p.zombie {
		return "", false, false
	}
	return p.start, p.stopped, true
}

// processes reads every process that /proc shows. One that ends meanwhile is left out.
func processes() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	now := Uptime()
	var list []process
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		body, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		p, err := parseStat(body)
		if err != nil || p.zombie {
			continue
		}
		p.age = now - float64(p.ticks)/clockTicks
		list = append(list, p.process)
	}
	return list, nil
}

// stat is a line of /proc/<pid>/stat.
type stat struct {
	process
	ticks  uint64 // since the boot, when it began
	zombie bool   // it has ended and waits for its parent to see that
}

// parseStat reads /proc/<pid>/stat (proc_pid_stat(5)). The name in parentheses
// may hold anything, also parentheses and spaces: the last one ends it.
func parseStat(line []byte) (stat, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("/proc/<pid>/stat: got no name in parentheses")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:open])))
	fields := strings.Fields(string(line[end+1:]))
	if err != nil || pid < 1 || len(fields) < 22 { // field 3 is fields[0]
		return stat{}, fmt.Errorf("/proc/<pid>/stat: got %d fields after the name, want at least 22", len(fields))
	}
	number := func(field int) uint64 {
		n, bad := strconv.ParseUint(fields[field-3], 10, 63)
		if bad != nil {
			err = fmt.Errorf("/proc/<pid>/stat: field %d: got %q, want a number", field, fields[field-3])
		}
		return n
	}
	s := stat{process: process{pid: pid, name: string(line[open+1 : end]), stopped: fields[0] == "T" || fields[0] == "t"}}
	s.zombie = fields[0] == "Z" || fields[0] == "X"
	s.parent = int(number(4))
	s.cpu = float64(number(14)+number(15)) / clockTicks
	s.ticks = number(22)
	s.start = strconv.FormatUint(s.ticks, 10)
	pages := number(24)
	s.rss = int64(min(pages, 1<<40)) * int64(os.Getpagesize())
	s.kernel = pid == 2 || s.parent == 2
	return s, err
}

// highWater reads VmHWM of a process, in bytes (proc_pid_status(5)); 0 when it tells none.
func highWater(pid int) int64 {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return parseHighWater(string(body))
}

func parseHighWater(status string) int64 {
	for line := range strings.Lines(status) {
		rest, ok := strings.CutPrefix(line, "VmHWM:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 53)
		if err != nil || kib < 0 {
			return 0
		}
		return kib << 10
	}
	return 0
}

// resetHighWater lets this process' mark begin anew (proc_pid_clear_refs(5)).
func resetHighWater() bool {
	return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil
}

// childrenHighWater is ru_maxrss of the children that ended so far, in bytes (getrusage(2): kibibytes on Linux).
func childrenHighWater() int64 {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &ru) != nil {
		return 0
	}
	return ru.Maxrss << 10
}

// commandLine is what a process was started with. It is looked at, never kept.
func commandLine(pid int) string {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(body[:min(len(body), 4096)]), "\x00", " ")
}
