package stages

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/machine"
)

// reads gives the only word of progress of a project.
func reads(t *testing.T, project string) Unfinished {
	t.Helper()
	list, faults := ReadProgress(project)
	if len(list) != 1 || len(faults) != 0 {
		t.Fatalf("got %d words of progress, %v", len(list), faults)
	}
	return list[0]
}

func TestARunningStageTellsWhatItDoes(t *testing.T) {
	l, _ := watchedLine(t)
	work := l.product.do
	l.product.do = func(ctx context.Context, run *Run) (*Outcome, error) {
		run.Progress("writing small.gguf", 100, 1000)
		u := reads(t, l.Project)
		if standing, why := u.Stand(l.Now()); standing != Running {
			t.Errorf("it is %s: %s", standing, why)
		}
		if u.Stage != "small" || u.Uses != "quantize" || u.Process != machine.Self() || u.Inputs["model"] == "" || u.IntervalSeconds != 5 {
			t.Errorf("got %+v", u)
		}
		for range 20 { // a sample that was just written holds a word of progress back
			time.Sleep(2 * progressThrottle)
			run.Progress("writing small.gguf", 400, 1000)
			if u = reads(t, l.Project); u.Done == 400 {
				break
			}
		}
		if u.Message != "writing small.gguf" || u.Done != 400 || u.Total != 1000 || u.Rate <= 0 || Remaining(u.Progress) <= 0 {
			t.Errorf("got %+v", u.Progress)
		}
		if u.Last == nil || u.Last.RSS < 1<<20 {
			t.Errorf("the last sample is %+v", u.Last)
		}
		return work(ctx, run)
	}
	l.mustRun(t, allRan)
	if list, faults := ReadProgress(l.Project); len(list)+len(faults) != 0 {
		t.Errorf("after the end there is %v, %v", list, faults)
	}
}

// A pid is never believed alone, and a fresh file is not either.
func TestOnlyAStageThatWroteLatelyAndIsThereRuns(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const uptime = 1000.0
	good := schemas.Progress{Process: machine.Self(), Updated: now.Add(-4 * time.Second), UpdatedUptime: uptime - 4, IntervalSeconds: 5}
	for name, c := range map[string]struct {
		change func(*schemas.Progress)
		want   Standing
		words  string
	}{
		"it is there and wrote":       {func(*schemas.Progress) {}, Running, "it runs"},
		"the pid is gone":             {func(p *schemas.Progress) { p.Process.PID = 1<<22 + 7 }, Interrupted, "no process has the pid 4194311 any more"},
		"another process has the pid": {func(p *schemas.Progress) { p.Process.Start = "3" }, Interrupted, "is another process now"},
		"another boot":                {func(p *schemas.Progress) { p.Process.BootID = "b" }, Interrupted, "the record is of another boot"},
		"another container":           {func(p *schemas.Progress) { p.Process.Namespace = "n" }, Unknown, "the record is of another container"},
		"it has not written for long": {func(p *schemas.Progress) { p.UpdatedUptime = uptime - 15.5 }, Stale, "has not written for 15.5s; it writes every 5s"},
		"the clock was set forward":   {func(p *schemas.Progress) { p.Updated = now.Add(-24 * time.Hour) }, Running, "it runs"},
		"the clock was set back":      {func(p *schemas.Progress) { p.Updated = now.Add(24 * time.Hour) }, Running, "it runs"},
		"no boot time to go by":       {func(p *schemas.Progress) { p.UpdatedUptime = 0 }, Running, "it runs"},
		"no boot time, and long ago":  {func(p *schemas.Progress) { p.UpdatedUptime, p.Updated = 0, now.Add(-time.Minute) }, Stale, "has not written for 1m0s"},
		"no boot time, in the future": {func(p *schemas.Progress) { p.UpdatedUptime, p.Updated = 0, now.Add(time.Hour) }, Stale, "has not written for"},
		"a boot time of the future":   {func(p *schemas.Progress) { p.UpdatedUptime = uptime + 500 }, Stale, "has not written for"},
	} {
		doc := good
		c.change(&doc)
		got, why := Unfinished{Progress: doc}.stand(now, uptime)
		if got != c.want || !strings.Contains(why, c.words) {
			t.Errorf("%s: got %s (%s), want %s with %q", name, got, why, c.want, c.words)
		}
	}
}

func TestAProgressThatCannotBeWrittenFailsNothing(t *testing.T) {
	l, said := watchedLine(t)
	if err := os.MkdirAll(filepath.Join(l.Project, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.Project, "work", "progress"), []byte("a file"), 0o644); err != nil {
		t.Fatal(err)
	}
	l.mustRun(t, allRan)
	for _, e := range *said {
		if e.Kind != "notice" || !strings.Contains(e.Message, "the word of progress cannot be written, the stage goes on without") {
			t.Errorf("told %+v", e)
		}
	}
	if len(*said) != 3 {
		t.Errorf("told %d times, want once a stage", len(*said))
	}
}

func TestSamplesReceiptAndFactsAreInTheRecord(t *testing.T) {
	l, _ := watchedLine(t)
	l.mustRun(t, allRan)
	runs, results := l.recorded(t)
	for i, res := range results {
		for _, name := range []string{schemas.FactSampledPeakRSS, schemas.FactOthersRunning, schemas.FactModelServers} {
			if res.Facts[name] == "" {
				t.Errorf("%s: no fact %s in %v", runs[i].External.Stage, name, res.Facts)
			}
		}
	}
	c, p := l.provenanceOf(t)
	seen := 0
	for _, b := range p.GetRunDetails().GetByproducts() {
		uri := map[string]string{samplesName: schemas.SamplesURI, receiptName: schemas.ReceiptURI}[b.GetName()]
		if uri == "" {
			continue
		}
		seen++
		if err := schemas.Validate(uri, l.objects.body[godigest.NewDigestFromEncoded(godigest.SHA256, b.GetDigest()["sha256"])]); err != nil {
			t.Error(err)
		}
		if b.GetName() == samplesName {
			notes := b.GetAnnotations().AsMap()
			if label, _ := notes["label"].(string); !strings.Contains(label, "sampled maximum and may miss peaks") || notes["intervalSeconds"] != 5.0 || notes["count"] != 2.0 {
				t.Errorf("the samples are noted as %v", notes)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d of samples and receipt are byproducts", seen)
	}
	for _, s := range c.Statement().GetSubject() {
		if s.GetName() == samplesName || s.GetName() == receiptName {
			t.Errorf("the Statement is about %s, which is about the machine", s.GetName())
		}
	}
	l.mustRun(t, allResumed)
}

// Facts of the machine are the runner's: a stage cannot say that it was alone.
func TestAStageCannotSayItselfWhatElseRan(t *testing.T) {
	l, _ := watchedLine(t)
	l.examined.do = func(context.Context, *Run) (*Outcome, error) {
		return &Outcome{Verdict: schemas.Passed, Facts: map[string]string{schemas.FactSampledPeakRSS: "1", schemas.FactOthersRunning: "-1"}}, nil
	}
	l.mustRun(t, allRan)
	_, results := l.recorded(t)
	if f := results[2].Facts; f[schemas.FactSampledPeakRSS] == "1" || f[schemas.FactOthersRunning] == "-1" {
		t.Errorf("got the facts %v", f)
	}
}

func TestAStoppedRunSaysWhy(t *testing.T) {
	l := newLine(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	l.product.do = func(ctx context.Context, _ *Run) (*Outcome, error) {
		cancel(errors.New("stopped by a signal (interrupt)"))
		return &Outcome{Verdict: schemas.Failed, Failure: "the command was stopped: context canceled", ExitStatus: -1}, nil
	}
	l.KeepGoing = true // which a stop overrides
	_, err := l.Run(ctx)
	var stage *StageError
	if !errors.As(err, &stage) || !stage.Stopped || stage.Failure != "stopped by a signal (interrupt): the command was stopped: context canceled" {
		t.Fatalf("got %v", err)
	}
	if _, results := l.recorded(t); len(results) != 2 || results[1].Failure != stage.Failure {
		t.Errorf("recorded %+v", results)
	}
	if record := readRecord(filepath.Join(l.Project, "work", lockName)); record != "" {
		t.Errorf("the lock was not given back: %s", record)
	}
	if _, err := l.Run(ctx); err == nil || !strings.Contains(err.Error(), "stopped before stage source: stopped by a signal (interrupt); run again to go on") {
		t.Errorf("got %v, want that nothing more begins", err)
	}
}

// The clock jumps while a stage runs: no Statement says that it ended before it began.
func TestTheClockMayJump(t *testing.T) {
	for name, c := range map[string]struct {
		jump  time.Duration
		moved bool
	}{"back by a day": {-24 * time.Hour, true}, "forward by a day": {24 * time.Hour, true}, "back to 1970": {-56 * 365 * 24 * time.Hour, true}, "not": {50 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			l, _ := watchedLine(t)
			var jumped atomic.Int64 // samples ask for the time as well
			l.Now = func() time.Time { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(jumped.Load())) }
			work := l.examined.do
			l.examined.do = func(ctx context.Context, run *Run) (*Outcome, error) {
				jumped.Store(int64(c.jump))
				return work(ctx, run)
			}
			l.mustRun(t, allRan)
			_, p := l.provenanceOf(t)
			m := p.GetRunDetails().GetMetadata()
			if m.GetFinishedOn().AsTime().Before(m.GetStartedOn().AsTime()) {
				t.Errorf("it ended at %s and began at %s", m.GetFinishedOn().AsTime(), m.GetStartedOn().AsTime())
			}
			moved, told := p.GetBuildDefinition().GetInternalParameters().AsMap()["clockMovedSeconds"].(float64)
			if told != c.moved || told && (moved-c.jump.Seconds() > 60 || c.jump.Seconds()-moved > 60) {
				t.Errorf("told %v: %v seconds", told, moved)
			}
			l.mustRun(t, allResumed)
		})
	}
}

func FuzzProgress(f *testing.F) {
	doc := schemas.Progress{Schema: schemas.ProgressURI, Stage: "s", Uses: "u", Invocation: strings.Repeat("0", 32), Declaration: strings.Repeat("0", 64), Inputs: map[string]string{},
		Process: schemas.ProcessID{PID: 1}, Tools: []schemas.ToolProcess{{Name: "x"}}, IntervalSeconds: 5, Last: &schemas.Sample{}}
	doc.Tools[0].PID = 4
	body, err := json.Marshal(doc)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"stage":"s"}`))
	f.Add([]byte(strings.Replace(string(body), `"intervalSeconds":5`, `"intervalSeconds":1e300`, 1)))
	f.Fuzz(func(t *testing.T, body []byte) {
		path := filepath.Join(t.TempDir(), "s.json")
		if err := os.WriteFile(path, body, 0o644); err != nil {
			t.Fatal(err)
		}
		var u Unfinished
		if readProgress(path, &u.Progress) != nil {
			return
		}
		if standing, why := u.Stand(time.Now()); standing == "" || why == "" {
			t.Errorf("it stands as %q (%s)", standing, why)
		}
		_ = u.lastWord()
		_ = Remaining(u.Progress)
	})
}
