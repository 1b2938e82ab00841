package kernels

import (
	"context"
	"fmt"
	"strings"
)

// Limit is a border of what a kernel does, in one sentence, with the probe that
// shows it: an input beyond the border is refused by name, or, where the border
// is something that the kernel does not look at, passes unseen. A limit that no
// probe shows is a limit problem, see [Kernel.Check].
type Limit struct {
	What string
	// Probe tries the limit on a built-in input. Its error says how the kernel behaved
	// otherwise than What says; nil means that the limit is as stated.
	Probe func(ctx context.Context) error
}

// Unseen is the outcome of probing what a kernel does not look at: its report has to pass.
func Unseen(r Report, err error) error {
	if err == nil && r.Verdict != Passed {
		err = fmt.Errorf("got verdict %s %v, want it to pass unseen", r.Verdict, r.Findings)
	}
	return err
}

// Refuses is the outcome of probing what a kernel does not cover: an error, or
// a failed report, has to name it in these words.
func Refuses(r Report, err error, words string) error {
	said := fmt.Sprint(r.Findings)
	if err != nil {
		said = err.Error()
	}
	if (err == nil && r.Verdict == Passed) || !strings.Contains(said, words) {
		return fmt.Errorf("got verdict %q, %s, want a refusal that says %q", r.Verdict, said, words)
	}
	return nil
}
