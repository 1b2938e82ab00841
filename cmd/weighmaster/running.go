package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

// runningStage is a stage that has begun and has no end in the ledger.
type runningStage struct {
	Stage            string            `json:"stage"`
	Uses             string            `json:"uses"`
	Standing         stages.Standing   `json:"standing"`
	Why              string            `json:"why"`
	Process          schemas.ProcessID `json:"process"`
	Started          time.Time         `json:"started"`
	Updated          time.Time         `json:"updated"`
	ElapsedSeconds   float64           `json:"elapsedSeconds"`
	Message          string            `json:"message"`
	Done             int64             `json:"done"`             // bytes
	Total            int64             `json:"total"`            // bytes; 0 when unknown
	Rate             float64           `json:"rate"`             // bytes a second
	RemainingSeconds float64           `json:"remainingSeconds"` // an estimate; 0 when it cannot be told
	Sample           *schemas.Sample   `json:"sample,omitempty"` // the last one
}

// running reads what the project's stages say of themselves, held against the
// processes that there are.
func (p *project) running(now time.Time) (list []runningStage, faults []string) {
	list, faults = []runningStage{}, []string{}
	unfinished, errs := stages.ReadProgress(p.dir)
	for _, u := range unfinished {
		s := runningStage{
			Stage: u.Stage, Uses: u.Uses, Process: u.Process, Started: u.Started, Updated: u.Updated, ElapsedSeconds: u.ElapsedSeconds,
			Message: u.Message, Done: u.Done, Total: u.Total, Rate: u.Rate, Sample: u.Last,
		}
		if s.Standing, s.Why = u.Stand(now); s.Standing == stages.Running {
			s.RemainingSeconds = stages.Remaining(u.Progress).Seconds()
		}
		list = append(list, s)
	}
	for _, err := range errs {
		faults = append(faults, err.Error())
	}
	return list, faults
}

// line shows a stage that has no end yet. Only one that runs has a rate and a time left.
func (s runningStage) line() string {
	parts := []string{fmt.Sprintf("---  %-18s %-9s %s", s.Stage, s.Uses, s.Standing)}
	if s.Standing != stages.Running {
		parts[0] += ": " + s.Why
	}
	if s.Message != "" {
		parts = append(parts, s.Message)
	}
	if s.Total > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s (%.0f%%)", bytesText(s.Done), bytesText(s.Total), 100*float64(s.Done)/float64(s.Total)))
	}
	if s.Standing == stages.Running {
		if s.Rate > 0 {
			parts = append(parts, bytesText(int64(s.Rate))+"/s")
		}
		if s.RemainingSeconds > 0 {
			parts = append(parts, fmt.Sprintf("about %s left", (time.Duration(s.RemainingSeconds)*time.Second).String()))
		}
	}
	if s.Sample != nil {
		parts = append(parts, fmt.Sprintf("sampled: %s resident in %d processes, %s available, load %.1f", bytesText(s.Sample.RSS), s.Sample.Processes, bytesText(s.Sample.Available), s.Sample.Load1))
		for _, g := range s.Sample.GPUs {
			if g.Used != nil {
				parts = append(parts, fmt.Sprintf("GPU %d %s", g.Index, bytesText(*g.Used)))
			}
		}
	}
	return strings.Join(parts, ", ")
}

// watch shows the running stages again and again until none is left: on a
// terminal in place, else a line for each change, with --json a line each time.
func (a *app) watch(ctx context.Context, p *project, every time.Duration) error {
	enc := json.NewEncoder(a.out)
	_, place := terminal(a.out)
	drawn, before := 0, ""
	for {
		list, faults := p.running(time.Now())
		var lines []string
		alive := false
		for _, s := range list {
			lines = append(lines, s.line())
			alive = alive || s.Standing == stages.Running || s.Standing == stages.Stale || s.Standing == stages.Halted
		}
		text := strings.Join(append(lines, faults...), "\n")
		switch {
		case a.quiet:
		case a.json:
			if err := enc.Encode(map[string]any{"running": list, "unreadable": faults, "at": time.Now().UTC()}); err != nil {
				return err
			}
		case place: // over what was shown before
			if drawn > 0 {
				a.printf("\x1b[%dA\x1b[J", drawn)
			}
			drawn = len(lines) + len(faults)
			if drawn > 0 {
				a.printf("%s\n", text)
			}
		case text != before && text != "":
			a.printf("%s\n", text)
		}
		before = text
		if !alive {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}
