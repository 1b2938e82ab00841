package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/weighmaster/weighmaster/stages/machine"
)

// stoppedError is why a context ended: a signal asked for it.
type stoppedError struct{ signal os.Signal }

func (e *stoppedError) Error() string { return "stopped by a signal (" + e.signal.String() + ")" }

// stoppable gives a context that the first SIGINT, SIGTERM or SIGHUP ends, so
// that the stage's tools are stopped, its failure is recorded and its locks are
// given back. The second ends the program and its tools at once. A SIGHUP that
// was ignored from the start (nohup) stays ignored.
func stoppable(parent context.Context, say io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		select {
		case s := <-signals:
			cancel(&stoppedError{s})
			fmt.Fprintf(say, "weighmaster: %s: ending in order; once more ends at once\n", s)
		case <-ctx.Done():
			return
		}
		s := <-signals
		machine.EndChildren()
		code := 1
		if n, ok := s.(syscall.Signal); ok {
			code = 128 + int(n)
		}
		os.Exit(code)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(context.Canceled)
	}
}
