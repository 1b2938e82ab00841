package stages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// maxLog is how many bytes are kept of each stream: its first and its last half.
const maxLog = 1 << 20

// limited ends a command's context after its time; no time is no limit.
func limited(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout > 0 {
		return context.WithTimeout(ctx, timeout)
	}
	return context.WithCancel(ctx)
}

// execute runs a command that was prepared with the context limit, which ends
// before ctx does when the command has a time. The words say in which way it failed.
func execute(ctx, limit context.Context, cmd *exec.Cmd, timeout time.Duration) (toolResult, string) {
	stdout, stderr := &headTail{limit: maxLog}, &headTail{limit: maxLog}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, 5*time.Second
	ownGroup(cmd)
	started := ownMaxRSS()
	err := cmd.Start()
	var peak int64
	if err == nil {
		stop := watchPeak(cmd.Process.Pid)
		err = cmd.Wait()
		peak = stop()
	}
	endGroup(cmd)
	res := toolResult{Stdout: stdout.bytes(), Stderr: stderr.bytes(), ExitStatus: -1, MaxRSS: peak}
	if cmd.ProcessState != nil {
		res.ExitStatus = cmd.ProcessState.ExitCode()
		if mark := maxRSS(cmd.ProcessState); mark > started { // else it may be this process's, from the fork
			res.MaxRSS = max(res.MaxRSS, mark)
		}
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return res, ""
	case ctx.Err() != nil:
		return res, "the command was stopped: " + ctx.Err().Error()
	case limit.Err() != nil:
		return res, fmt.Sprintf("the command ran longer than %s and was stopped", timeout)
	case errors.As(err, &exit):
		words := exit.ProcessState.String()
		if s := res.ExitStatus - 128; s > 0 && s < 65 {
			words += fmt.Sprintf(" (as after signal %d)", s)
		}
		return res, fmt.Sprintf("the command ended with %s: %s", words, lastLine(res.Stderr))
	case errors.Is(err, exec.ErrWaitDelay):
		return res, "the command ended and left processes behind that held its output open; they were stopped"
	}
	return res, "the command could not be run: " + err.Error()
}

// putLogs keeps both streams as private evidence: they can name what a machine holds.
func putLogs(ctx context.Context, run *Run, out *Outcome, command string, res toolResult) error {
	prefix := "log/"
	if command != "" {
		prefix += command + "."
	}
	for _, l := range []struct {
		name string
		body []byte
	}{{prefix + "stderr", res.Stderr}, {prefix + "stdout", res.Stdout}} {
		digest, size, err := run.Objects.Put(ctx, "text/plain", false, bytes.NewReader(l.body))
		if err != nil {
			return fmt.Errorf("store %s: %w", l.name, err)
		}
		out.Evidence = append(out.Evidence, Evidence{Name: l.name, Digest: digest, MediaType: "text/plain", Size: size})
	}
	slices.SortStableFunc(out.Evidence, func(a, b Evidence) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func lastLine(log []byte) string {
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	last := lines[len(lines)-1]
	return last[:min(len(last), 300)]
}

// headTail keeps the first and the last half of limit bytes, so that a talkative
// process neither blocks nor fills the memory, and its last words are there.
type headTail struct {
	limit      int
	head, tail []byte // tail is a ring once it is full
	at         int    // where the ring goes on
	left       int64  // bytes that were dropped
}

func (b *headTail) Write(p []byte) (int, error) {
	n := len(p)
	take := min(len(p), b.limit/2-len(b.head))
	b.head = append(b.head, p[:take]...)
	p = p[take:]
	room := b.limit - b.limit/2
	take = min(len(p), room-len(b.tail))
	b.tail = append(b.tail, p[:take]...)
	p = p[take:]
	b.left += int64(len(p))
	if len(p) > room {
		p = p[len(p)-room:]
	}
	for len(p) > 0 {
		c := copy(b.tail[b.at:], p)
		p, b.at = p[c:], (b.at+c)%room
	}
	return n, nil
}

func (b *headTail) bytes() []byte {
	if b.left == 0 {
		return append(slices.Clone(b.head), b.tail...)
	}
	mark := fmt.Sprintf("\n[%d bytes left out]\n", b.left)
	return slices.Concat(b.head, []byte(mark), b.tail[b.at:], b.tail[:b.at])
}
