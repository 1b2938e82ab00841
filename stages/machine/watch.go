package machine

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
)

// Interval is the time between two samples.
const Interval = 5 * time.Second

// pulse is the time between two looks at what this process has started.
const pulse = time.Second

// Notify is told of every sample and, more often, of what this process has
// started by then; the sample is nil where there is only that.
type Notify func(s *schemas.Sample, tools []schemas.ToolProcess)

// Label says what samples are.
const Label = "readings at intervals: the largest is a sampled maximum and may miss peaks; resident sizes count shared pages once for each process"

const (
	maxSamples   = 10_000 // listed; from then on every second one is dropped
	maxHighWater = 20     // processes whose mark is listed
)

// Watch takes a sample now, one at every interval and one at its end.
type Watch struct {
	interval time.Duration
	notify   Notify
	now      func() time.Time
	look     func(ctx context.Context, gpuUsers bool) reading
	mark     func(pid int) int64 // VmHWM of a process

	began    time.Time // with its monotonic reading
	self     int
	reset    bool  // this process' own mark began anew with the run
	children int64 // the children's mark before it
	cancel   context.CancelFunc
	done     chan struct{}

	mu      sync.Mutex
	doc     schemas.Samples
	account *account
	start   schemas.Present
	tools   map[string]toolMark
}

// toolMark is the last look at a tool's high-water mark.
type toolMark struct {
	name  string
	bytes int64
}

// Start begins to watch, in the background. Notify may be nil. Stop must be called.
func Start(interval time.Duration, now func() time.Time, notify Notify) *Watch {
	w := newWatch(interval, now, notify)
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go w.run(ctx)
	return w
}

func newWatch(interval time.Duration, now func() time.Time, notify Notify) *Watch {
	self := os.Getpid()
	return &Watch{
		interval: interval, notify: notify, now: now, look: read, mark: highWater,
		began: time.Now(), self: self, reset: resetHighWater(), children: childrenHighWater(), done: make(chan struct{}),
		doc: schemas.Samples{Schema: schemas.SamplesURI, Label: Label, IntervalSeconds: interval.Seconds(), Every: 1, GPU: absent,
			Samples: []schemas.Sample{}, HighWater: []schemas.HighWater{}, Unreadable: []string{}},
		account: newAccount(self), tools: map[string]toolMark{},
	}
}

func (w *Watch) run(ctx context.Context) {
	defer close(w.done)
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	beat := time.NewTicker(pulse)
	defer beat.Stop()
	w.take(ctx, true, time.Since(w.began).Seconds())
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.take(ctx, false, time.Since(w.began).Seconds())
		case <-beat.C:
			if list, err := processes(); err == nil && w.notify != nil {
				w.notify(nil, started(list, tree(list, w.self), w.self))
			}
		}
	}
}

const maxTools = 100 // that are told

// started is what a process has started and what runs of it.
func started(list []process, ours map[int]bool, self int) []schemas.ToolProcess {
	tools := []schemas.ToolProcess{}
	boot, ns := BootID(), namespace()
	for _, p := range list {
		if ours[p.pid] && p.pid != self && len(tools) < maxTools {
			tools = append(tools, schemas.ToolProcess{ProcessID: schemas.ProcessID{BootID: boot, Namespace: ns, PID: p.pid, Start: p.start}, Name: clean(p.name)})
		}
	}
	return tools
}

// Stop takes the last sample and gives everything.
func (w *Watch) Stop() (schemas.Samples, schemas.Receipt) {
	w.cancel()
	<-w.done
	return w.finish(time.Since(w.began).Seconds())
}

func (w *Watch) finish(seconds float64) (schemas.Samples, schemas.Receipt) {
	end := w.take(context.Background(), true, seconds)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doc.HighWater = w.marks()
	return w.doc, schemas.Receipt{
		Schema: schemas.ReceiptURI, RSSThreshold: RSSThreshold, LoadThreshold: LoadThreshold, Start: w.start, End: end, During: w.account.all(),
	}
}

// take makes one sample.
func (w *Watch) take(ctx context.Context, receipt bool, seconds float64) schemas.Present {
	r := w.look(ctx, receipt)
	w.mu.Lock()
	present := w.account.present(r, w.now(), seconds)
	s := schemas.Sample{Seconds: seconds, Available: r.available, Load1: r.load1, GPUs: r.gpus}
	ours := tree(r.processes, w.self)
	for _, p := range r.processes {
		if !ours[p.pid] {
			continue
		}
		s.RSS += p.rss
		s.Processes++
		if p.pid == w.self {
			continue
		}
		if len(w.tools) < maxSamples {
			w.tools[p.key()] = toolMark{clean(p.name), max(w.tools[p.key()].bytes, w.mark(p.pid))}
		}
	}
	if w.doc.Count == 0 {
		w.start = present
	}
	w.add(s, r)
	w.mu.Unlock()
	if w.notify != nil {
		w.notify(&s, started(r.processes, ours, w.self))
	}
	return present
}

func (w *Watch) add(s schemas.Sample, r reading) {
	d := &w.doc
	d.GPU = r.gpuSource
	for _, f := range r.faults {
		if !slices.Contains(d.Unreadable, f) && len(d.Unreadable) < 20 {
			d.Unreadable = append(d.Unreadable, f)
		}
	}
	var gpu int64
	for _, g := range s.GPUs {
		if g.Used != nil {
			gpu += *g.Used
		}
	}
	m := &d.Maxima
	if d.Count == 0 || s.Available < m.Available {
		m.Available = s.Available
	}
	m.RSS, m.Load1, m.GPUUsed = max(m.RSS, s.RSS), max(m.Load1, s.Load1), max(m.GPUUsed, gpu)
	if d.Count%d.Every == 0 {
		d.Samples = append(d.Samples, s)
	}
	d.Count++
	if len(d.Samples) >= maxSamples {
		kept := d.Samples[:0]
		for i := 0; i < len(d.Samples); i += 2 {
			kept = append(kept, d.Samples[i])
		}
		d.Samples, d.Every = kept, 2*d.Every
	}
}

// marks are the kernel's high-water marks of the run.
func (w *Watch) marks() []schemas.HighWater {
	list := []schemas.HighWater{}
	own := w.mark(w.self)
	if own > 0 {
		scope := "this program since it started"
		if w.reset {
			scope = "this program during the run"
		}
		list = append(list, schemas.HighWater{Of: "weighmaster", Source: "VmHWM", Bytes: own, Scope: scope})
	}
	// Linux counts what a child shared with this program before its exec: a mark
	// that is no larger than ours says nothing of the child.
	if after := childrenHighWater(); after > w.children && after > own {
		list = append(list, schemas.HighWater{Of: "largest child", Source: "ru_maxrss of RUSAGE_CHILDREN", Bytes: after, Scope: "the largest process that ended during the run"})
	}
	byName := map[string]int64{}
	for _, t := range w.tools {
		byName[t.name] = max(byName[t.name], t.bytes)
	}
	var tools []schemas.HighWater
	for name, bytes := range byName {
		if bytes > 0 {
			tools = append(tools, schemas.HighWater{Of: name, Source: "VmHWM", Bytes: bytes, Scope: "a process of the run up to its last sample"})
		}
	}
	slices.SortFunc(tools, func(a, b schemas.HighWater) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Of, b.Of))
	})
	return append(list, tools[:min(len(tools), maxHighWater)]...)
}
