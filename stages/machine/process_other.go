//go:build !linux

package machine

import (
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/host"
	gopsutil "github.com/shirou/gopsutil/v4/process"
)

// BootID identifies the running system's boot, by its time where the system has no better name.
var BootID = sync.OnceValue(func() string {
	at, err := host.BootTime()
	if err != nil {
		return ""
	}
	return "boot at " + strconv.FormatUint(at, 10)
})

func namespace() string { return "" }

// Uptime is the time since the boot in seconds by a clock that nobody can set. Zero where there is none.
func Uptime() float64 { return 0 }

func processStart(pid int) string {
	start, _, _ := lookup(pid)
	return start
}

func lookup(pid int) (start string, stopped, found bool) {
	if pid < 1 || pid > math.MaxInt32 {
		return "", false, false
	}
	p, err := gopsutil.NewProcess(int32(pid))
	if err != nil {
		return "", false, false
	}
	at, err := p.CreateTime()
	if err != nil {
		return "", false, false
	}
	states, err := p.Status()
	if err == nil {
		for _, s := range states {
			if s == gopsutil.Zombie {
				return "", false, false
			}
			stopped = stopped || s == gopsutil.Stop
		}
	}
	return strconv.FormatInt(at, 10), stopped, true
}

func processes() ([]process, error) {
	all, err := gopsutil.Processes()
	if err != nil {
		return nil, err
	}
	var list []process
	for _, one := range all {
		at, err := one.CreateTime()
		if err != nil {
			continue // it ended meanwhile, or is not ours to look at
		}
		p := process{pid: int(one.Pid), start: strconv.FormatInt(at, 10), age: time.Since(time.UnixMilli(at)).Seconds()}
		if parent, err := one.Ppid(); err == nil {
			p.parent = int(parent)
		}
		if p.name, err = one.Name(); err != nil {
			continue
		}
		if mem, err := one.MemoryInfo(); err == nil && mem != nil {
			p.rss = int64(min(mem.RSS, math.MaxInt64))
		}
		if times, err := one.Times(); err == nil && times != nil {
			p.cpu = times.User + times.System
		}
		list = append(list, p)
	}
	return list, nil
}

func highWater(int) int64 { return 0 }

func resetHighWater() bool { return false }

func commandLine(pid int) string {
	p, err := gopsutil.NewProcess(int32(pid))
	if err != nil {
		return ""
	}
	line, err := p.Cmdline()
	if err != nil {
		return ""
	}
	return line
}
