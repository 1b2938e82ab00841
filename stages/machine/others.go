package machine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
)

// From these thresholds on another process is listed. A model server is listed at any size.
const (
	RSSThreshold  int64   = 512 << 20 // bytes
	LoadThreshold float64 = 0.5       // processors
)

const (
	plainProcess = "process"
	modelServer  = "model server"
)

const maxListed = 200 // others that one list holds; the largest are kept

// account follows the processes from reading to reading.
type account struct {
	self    int
	servers map[string]bool    // interpreters by pid and start: is it a model server?
	used    map[string]float64 // processor seconds at the reading before
	at      float64            // seconds, of the reading before
	during  map[string]schemas.OtherProcess
	first   bool
	command func(pid int) string
}

func newAccount(self int) *account {
	return &account{self: self, servers: map[string]bool{}, used: map[string]float64{}, during: map[string]schemas.OtherProcess{}, first: true, command: commandLine}
}

// others lists who is no part of the run and above a threshold. Seconds is the
// moment, by a clock that is never set.
func (a *account) others(list []process, seconds float64) []schemas.OtherProcess {
	ours := tree(list, a.self)
	used := make(map[string]float64, len(list))
	found := []schemas.OtherProcess{}
	for _, p := range list {
		if ours[p.pid] || p.kernel {
			continue
		}
		key := p.key()
		used[key] = p.cpu
		o := schemas.OtherProcess{Name: clean(p.name), Kind: a.kind(p), RSS: p.rss, Load: a.load(p, seconds)}
		if o.Kind == plainProcess && o.RSS < RSSThreshold && o.Load < LoadThreshold {
			continue
		}
		found = append(found, o)
		a.saw(key, o)
	}
	a.used, a.at, a.first = used, seconds, false
	return largest(found)
}

// load is the mean of processors that a process used since the reading before,
// or since it began.
func (a *account) load(p process, seconds float64) float64 {
	before, known := a.used[p.key()]
	span := seconds - a.at
	if !known {
		before = 0
		if a.first || p.age < span {
			span = p.age
		}
	}
	if span < 0.05 || p.cpu < before {
		return 0 // too short to tell: processor times come in hundredths
	}
	return (p.cpu - before) / span
}

func (a *account) kind(p process) string {
	if servers[p.name] {
		return modelServer
	}
	if !strings.HasPrefix(strings.ToLower(p.name), "python") && !strings.HasPrefix(p.name, "node") {
		return plainProcess
	}
	key := p.key()
	server, known := a.servers[key]
	if !known && len(a.servers) < 10_000 {
		line := a.command(p.pid)
		server = slices.ContainsFunc(interpreted, func(w string) bool { return strings.Contains(line, w) })
		a.servers[key] = server
	}
	if server {
		return modelServer
	}
	return plainProcess
}

// saw keeps the largest reading of a process.
func (a *account) saw(key string, o schemas.OtherProcess) {
	old, known := a.during[key]
	if !known && len(a.during) >= 10_000 {
		return
	}
	o.RSS, o.Load, o.Count = max(o.RSS, old.RSS), max(o.Load, old.Load), old.Count+1
	a.during[key] = o
}

// all are the others of every reading.
func (a *account) all() []schemas.OtherProcess {
	list := []schemas.OtherProcess{}
	for _, o := range a.during {
		list = append(list, o)
	}
	return largest(list)
}

func largest(list []schemas.OtherProcess) []schemas.OtherProcess {
	slices.SortFunc(list, func(a, b schemas.OtherProcess) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.RSS, a.RSS), cmp.Compare(b.Load, a.Load), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), maxListed)]
}

// gpuPresent counts the processes of others on GPUs.
func gpuPresent(r reading, self int) schemas.GPUPresent {
	g := schemas.GPUPresent{Source: r.gpuSource}
	ours := tree(r.processes, self)
	for _, p := range r.gpuUsers {
		if !ours[p.pid] {
			g.Processes++
			g.Used += p.used
		}
	}
	return g
}

func (a *account) present(r reading, now time.Time, seconds float64) schemas.Present {
	return schemas.Present{At: now.UTC(), Memory: r.memory, Available: r.available, Load1: r.load1, CPUs: r.cpus, Others: a.others(r.processes, seconds), GPU: gpuPresent(r, a.self)}
}
