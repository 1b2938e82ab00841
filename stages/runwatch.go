package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/machine"
)

// Names of the evidence about the machine. It is private: it tells what else somebody runs.
const (
	samplesName = "samples/machine"
	receiptName = "receipt/machine"
)

// runWatch is a stage's run as it is watched. Without an interval nothing is.
type runWatch struct {
	r     *Runner
	rec   record
	file  *progressFile
	watch *machine.Watch
}

func (r *Runner) watch(rec record) *runWatch {
	w := &runWatch{r: r, rec: rec}
	if r.Interval <= 0 {
		return w
	}
	w.file = newProgress(r.Project, rec, r.Interval, r.Now, func(err error) { w.event(Event{Kind: "notice", Message: err.Error()}) })
	w.watch = machine.Start(r.Interval, r.Now, func(s *schemas.Sample, tools []schemas.ToolProcess) {
		w.file.sampled(s, tools)
		if s != nil {
			w.event(Event{Kind: "sample", Sample: s})
		}
	})
	return w
}

func (w *runWatch) event(e Event) {
	e.Stage, e.Uses = w.rec.decl.Name, w.rec.decl.Uses
	w.r.observe(e)
}

// progress is what the stage is handed as [Run.Progress].
func (w *runWatch) progress(message string, done, total int64) {
	if w.file != nil {
		w.file.say(message, done, total)
	}
	w.event(Event{Kind: "progress", Message: message, Done: done, Total: total})
}

// stop takes the last sample and adds samples, receipt and facts to what the stage gave.
func (w *runWatch) stop(ctx context.Context, o *Outcome) {
	if w.watch == nil {
		return
	}
	samples, receipt := w.watch.Stop()
	ctx = context.WithoutCancel(ctx)
	of, err := w.put(ctx, samplesName, samples, map[string]any{"label": machine.Label, "intervalSeconds": samples.IntervalSeconds, "count": samples.Count})
	if err == nil {
		o.Evidence = append(o.Evidence, of)
		of, err = w.put(ctx, receiptName, receipt, map[string]any{"os": runtime.GOOS, "arch": runtime.GOARCH, "cpus": receipt.Start.CPUs, "memory": receipt.Start.Memory})
	}
	if err != nil { // the record will fail as well, or a policy that asks for the facts will
		w.event(Event{Kind: "notice", Message: err.Error()})
		return
	}
	o.Evidence = append(o.Evidence, of)
	if o.Facts == nil {
		o.Facts = map[string]string{}
	}
	for name, value := range machine.Facts(samples, receipt) {
		o.Facts[name] = value
	}
}

func (w *runWatch) put(ctx context.Context, name string, doc any, notes map[string]any) (Evidence, error) {
	body, err := json.Marshal(doc)
	if err == nil {
		body, err = jsoncanonicalizer.Transform(body)
	}
	if err != nil {
		return Evidence{}, fmt.Errorf("%s: %w", name, err)
	}
	digest, size, err := w.r.Objects.Put(ctx, "application/json", false, bytes.NewReader(body))
	if err != nil {
		return Evidence{}, fmt.Errorf("store %s: %w", name, err)
	}
	return Evidence{Name: name, Digest: digest, MediaType: "application/json", Size: size, Notes: notes}, nil
}

// forget removes the word of progress of a run that the ledger has.
func (w *runWatch) forget() {
	if w.file != nil {
		w.file.end()
	}
}
