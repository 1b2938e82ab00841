package stages

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func heavyLine(t *testing.T, root string) (*line, *[]Event) {
	l, said := watchedLine(t)
	l.MachineRoot = root
	return l, said
}

func TestTwoProjectsDoNotRunHeavyStagesAtOnce(t *testing.T) {
	root := t.TempDir()
	a, _ := heavyLine(t, root)
	b, said := heavyLine(t, root)
	began, goOn := make(chan struct{}), make(chan struct{})
	inside := 0
	work := a.product.do
	a.product.do = func(ctx context.Context, run *Run) (*Outcome, error) {
		inside++
		close(began)
		<-goOn
		inside--
		return work(ctx, run)
	}
	b.product.do = func(ctx context.Context, run *Run) (*Outcome, error) {
		if inside != 0 {
			t.Error("two heavy stages run at once")
		}
		return work(ctx, run)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := a.Run(t.Context())
		ended <- err
	}()
	<-began
	b.NoWait = true
	_, _, err := b.again(t)
	var locked *LockedError
	if !errors.As(err, &locked) || !strings.Contains(err.Error(), "another run holds this machine: process") || !strings.Contains(err.Error(), "with stage small of "+a.Project) {
		t.Fatalf("got %v, want a refusal that names the holder's stage and project", err)
	}
	if b.source.runs != 1 || b.product.runs != 0 {
		t.Errorf("%d light and %d heavy stages ran; a light one waits for nobody", b.source.runs, b.product.runs)
	}
	b.NoWait = false
	old := b.Observe
	b.Observe = func(e Event) {
		if e.Kind == "waiting" {
			close(goOn)
		}
		old(e)
	}
	b.mustRun(t, "resumed source, started small, finished small, started derived, finished derived")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(*said) != 1 || (*said)[0].Kind != "waiting" || (*said)[0].Stage != "small" || !strings.Contains((*said)[0].Message, "waiting for process") {
		t.Errorf("told %+v", *said)
	}
}

func TestWaitingForTheMachineCanBeStopped(t *testing.T) {
	root := t.TempDir()
	holding(t, filepath.Join(root, heavyName))
	l, _ := heavyLine(t, root)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped by a signal")
	old := l.Observe
	l.Observe = func(e Event) {
		if e.Kind == "waiting" {
			cancel(stop)
		}
		old(e)
	}
	_, err := l.Run(ctx)
	var locked *LockedError
	if !errors.Is(err, stop) || !errors.As(err, &locked) {
		t.Errorf("got %v, want that it stopped while it waited", err)
	}
	if runs, _ := l.recorded(t); len(runs) != 1 {
		t.Errorf("%d runs are recorded; a stage that never began is none", len(runs))
	}
}

// The machine's last holder died under its stage: the next one is told and goes on.
func TestAHeavyJobThatDiedIsTold(t *testing.T) {
	root := t.TempDir()
	child, _ := holding(t, filepath.Join(root, heavyName))
	_ = child.Process.Kill()
	_ = child.Wait()
	l, said := heavyLine(t, root)
	l.mustRun(t, allRan)
	if len(*said) != 1 || !strings.Contains((*said)[0].Message, fmt.Sprintf("the last heavy job of this machine did not end by itself: process %d with stage q8 of /another/project", child.Process.Pid)) {
		t.Errorf("told %+v", *said)
	}
}
