package main

import (
	"errors"
	"fmt"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

// Exit codes.
const (
	exitHolds       = 0 // accepted, or what was claimed holds
	exitFalse       = 1 // checked and false
	exitUndecided   = 2 // could not be checked: missing evidence, wrong usage, I/O
	exitContradicts = 3 // the ledger contradicts itself
)

// exitError ends the program with a code. Without an inner error the answer has
// been printed already and nothing more is said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage is an error of the caller's: exit code 2.
func usage(format string, args ...any) error {
	return &exitError{exitUndecided, fmt.Errorf(format, args...)}
}

// answered turns a printed verdict into an exit code.
func answered(v schemas.Verdict) error {
	switch v {
	case schemas.Passed:
		return nil
	case schemas.Failed:
		return &exitError{code: exitFalse}
	}
	return &exitError{code: exitUndecided}
}

func exitCode(err error) int {
	var exit *exitError
	var stage *stages.StageError
	var lied *ledger.Contradiction
	var edited *ledger.EntryError
	switch {
	case err == nil:
		return exitHolds
	case errors.As(err, &lied), errors.As(err, &edited):
		return exitContradicts
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &stage):
		if stage.Verdict == schemas.Failed && !stage.Stopped {
			return exitFalse
		}
	}
	return exitUndecided
}
