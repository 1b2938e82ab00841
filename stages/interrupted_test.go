package stages

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/machine"
)

// watchedLine is a line whose stages are watched, and what it was told besides the stages' course.
func watchedLine(t *testing.T) (*line, *[]Event) {
	l := newLine(t)
	l.Interval = machine.Interval
	var said []Event
	l.Observe = func(e Event) {
		switch e.Kind {
		case "progress", "sample":
		case "started", "finished", "resumed", "skipped":
			l.events = append(l.events, e.Kind+" "+e.Stage)
		default:
			said = append(said, e)
		}
	}
	return l, &said
}

// left is the word of progress that a run of the stage small leaves when it is killed.
func left(t *testing.T, l *line, change func(*schemas.Progress)) string {
	t.Helper()
	l.mustRun(t, allRan)
	if err := os.RemoveAll(filepath.Join(l.Project, "work", "small")); err != nil {
		t.Fatal(err)
	}
	decl := l.Pipeline.Stages[1]
	claims, err := l.Claims(t.Context())
	if err != nil || len(claims) != 3 {
		t.Fatal(err, len(claims))
	}
	source, err := readFile(t.Context(), "model.gguf", filepath.Join(l.Project, "work", "source", "model.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	id := machine.Self()
	id.PID, id.Start = 1<<22+5, "77"
	doc := schemas.Progress{
		Schema: schemas.ProgressURI, Stage: "small", Uses: "quantize", Invocation: strings.Repeat("0a", 16), Declaration: declarationDigest(l.external(decl)),
		Inputs: map[string]string{"model": source.Sums.SHA256.String()}, Process: id, Tools: []schemas.ToolProcess{}, Started: time.Date(2026, 3, 1, 1, 0, 0, 0, time.UTC),
		Updated: time.Date(2026, 3, 1, 1, 2, 3, 0, time.UTC), IntervalSeconds: 5,
	}
	if change != nil {
		change(&doc)
	}
	body, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	path := progressPath(l.Project, "small")
	if err := errors.Join(os.WriteFile(path, body, 0o644), os.MkdirAll(filepath.Join(l.Project, "work", "small"), 0o755),
		os.WriteFile(filepath.Join(l.Project, "work", "small", "small.gguf.partial"), []byte("half"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return path
}

const smallRunsAgain = "resumed source, started small, finished small, resumed derived"

func TestAnInterruptedRunIsToldRecordedAndItsPartialsKept(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*schemas.Progress)
		words  string
	}{
		"its process is gone":         {nil, "no process has the pid 4194309 any more"},
		"the machine was rebooted":    {func(p *schemas.Progress) { p.Process.BootID = "b00t" }, "the record is of another boot"},
		"its pid is another's now":    {func(p *schemas.Progress) { p.Process.PID = os.Getpid() }, "is another process now"},
		"it was in another container": {func(p *schemas.Progress) { p.Process.Namespace = "pid:[1]" }, "the record is of another container"},
		"its tool is another boot's": {func(p *schemas.Progress) {
			p.Tools = []schemas.ToolProcess{{ProcessID: schemas.ProcessID{BootID: "b", PID: os.Getpid(), Start: "1"}, Name: "x"}}
		}, "no process has the pid"},
		"the clock went back under it": {func(p *schemas.Progress) { p.Updated = p.Started.Add(-time.Hour) }, "no process has the pid"},
	} {
		t.Run(name, func(t *testing.T) {
			l, said := watchedLine(t)
			path := left(t, l, c.change)
			l.mustRun(t, smallRunsAgain)
			if len(*said) != 1 || (*said)[0].Kind != "interrupted" || (*said)[0].Stage != "small" || !strings.Contains((*said)[0].Message, c.words) {
				t.Errorf("it was told %+v, want one interruption with %q", *said, c.words)
			}
			runs, results := l.recorded(t)
			if len(runs) != 5 || results[3].Verdict != schemas.Failed || !strings.HasPrefix(results[3].Failure, "interrupted: its run of 2026-03-01T01:00:00Z ended without a record") || !strings.Contains(results[3].Failure, c.words) {
				t.Errorf("recorded %d runs, the fourth %+v", len(runs), results[3])
			}
			if runs[3].Finished.Before(time.Date(2026, 3, 1, 1, 0, 0, 0, time.UTC)) {
				t.Errorf("it ended at %s, before it began", runs[3].Finished)
			}
			if !onDisk(l.Project, "work", "small.candidate-1", "small.gguf.partial") || onDisk(path) {
				t.Error("the partial file was not kept as a candidate, or the word of progress stayed")
			}
			l.mustRun(t, allResumed)
		})
	}
}

func TestAnInterruptionThatTheLedgerKnowsIsNotRecordedAgain(t *testing.T) {
	l, _ := watchedLine(t)
	left(t, l, func(p *schemas.Progress) {
		_, prov := l.provenanceOf(t)
		p.Invocation = prov.GetRunDetails().GetMetadata().GetInvocationId()
	})
	l.mustRun(t, smallRunsAgain)
	if runs, _ := l.recorded(t); len(runs) != 4 {
		t.Errorf("%d runs are recorded, want 4", len(runs))
	}
}

func TestAnInterruptionOfAnotherDeclarationIsOnlyTold(t *testing.T) {
	for name, change := range map[string]func(*schemas.Progress){
		"declared otherwise": func(p *schemas.Progress) { p.Declaration = strings.Repeat("00", 32) },
		"on other inputs":    func(p *schemas.Progress) { p.Inputs["model"] = "sha256:" + strings.Repeat("00", 32) },
		"of another type":    func(p *schemas.Progress) { p.Uses = "convert" },
	} {
		l, said := watchedLine(t)
		left(t, l, change)
		l.mustRun(t, smallRunsAgain)
		if runs, _ := l.recorded(t); len(runs) != 4 || len(*said) != 1 {
			t.Errorf("%s: %d runs are recorded, want 4; told %v", name, len(runs), *said)
		}
	}
}

func TestAWordOfProgressThatCannotBeReadStopsNothing(t *testing.T) {
	for name, body := range map[string]string{"cut": `{"schema":`, "empty": "", "of another stage": `{"stage":"x"}`, "too long": strings.Repeat(" ", maxProgressFile) + "{}"} {
		l, said := watchedLine(t)
		path := left(t, l, nil)
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
		l.mustRun(t, smallRunsAgain)
		if len(*said) != 1 || (*said)[0].Kind != "notice" || !strings.Contains((*said)[0].Message, "it tells nothing and can be removed") {
			t.Errorf("%s: told %+v", name, *said)
		}
	}
}

// The wrapper was killed, its tool goes on: a second copy is not started beside it.
func TestNothingStartsBesideAToolThatWasLeftBehind(t *testing.T) {
	tool := exec.Command("sleep", "600")
	if err := tool.Start(); err != nil {
		t.Fatalf("start sleep: %v", err)
	}
	defer func() {
		_ = tool.Process.Kill()
		_ = tool.Wait()
	}()
	l, _ := watchedLine(t)
	left(t, l, func(p *schemas.Progress) {
		id := machine.Of(tool.Process.Pid)
		p.Tools = []schemas.ToolProcess{{ProcessID: id, Name: "llama-quantize"}}
	})
	got, _, err := l.again(t)
	var busy *BusyError
	if !errors.As(err, &busy) || got != "" || !strings.Contains(err.Error(), "a program that it started is still there: llama-quantize, process") {
		t.Fatalf("got %q, %v; want a refusal that names the tool", got, err)
	}
	_ = tool.Process.Kill()
	_ = tool.Wait()
	l.mustRun(t, smallRunsAgain)
}

// Somebody removed the lock's file while a run was on.
func TestNothingStartsBesideARunWhoseLockWasRemoved(t *testing.T) {
	other := exec.Command("sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatalf("start sleep: %v", err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	l, _ := watchedLine(t)
	left(t, l, func(p *schemas.Progress) { p.Process = machine.Of(other.Process.Pid) })
	if got, _, err := l.again(t); err == nil || got != "" || !strings.Contains(err.Error(), "though it does not hold lock") {
		t.Errorf("got %q, %v; want a refusal", got, err)
	}
}
