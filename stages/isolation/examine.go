package isolation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Examination is what a probe of a box found.
type Examination struct {
	Method Method
	Record map[string]any // see [Box.Record]
	Facts  map[string]string
	Tries  []Try
}

const (
	maxProbe     = 4 << 20 // bytes of a probe's questions and answers
	probeTimeout = 2 * time.Minute
)

// asked is one try as the child reads it.
type asked struct {
	Kind   string `json:"kind"`
	Target string `json:"target"`
}

// Examine opens a box of this profile and has this program try, inside it, what
// the box is to deny. What it tries is planted outside for the purpose, and is
// tried outside before and after: a refusal of what is not there proves nothing.
// Besides the profile's, the box has two more read-only mounts: the program and a source.
func Examine(ctx context.Context, p Profile) (e Examination, err error) {
	pl, err := plant()
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, pl.remove()) }()
	return examine(ctx, p, pl)
}

func examine(ctx context.Context, p Profile, pl *plants) (e Examination, err error) {
	program, err := os.Executable()
	if err != nil {
		return e, fmt.Errorf("find the running binary: %w", err)
	}
	byLandlock := Method(p.Box.Method) == Landlock || p.Box.Method == "" && boxSupported(Bubblewrap) != nil
	if os.Geteuid() == 0 && byLandlock { // its user may change, and then cannot go where root's binaries lie
		if program, err = copyProgram(program, pl.dir); err != nil {
			return e, err
		}
	}
	p.Mounts = append(append([]Mount{}, p.Mounts...),
		Mount{Name: "probe/source", Host: pl.source, Inside: insideBase + "/probe/source"}, Mount{Name: "probe/program", Host: program, Inside: insideBase + "/probe/weighmaster"})
	b, err := Open(ctx, p)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	e = Examination{Method: b.method, Record: b.Record(), Facts: b.Facts(), Tries: pl.tries(b)}
	questions := make([]asked, len(e.Tries))
	for i := range e.Tries {
		t := &e.Tries[i]
		questions[i] = asked{t.Kind, t.inside}
		if t.inside == "" {
			questions[i].Target = t.Target
			if filepath.IsAbs(t.Target) {
				questions[i].Target = b.Inside(t.Target)
			}
		}
		if t.Control {
			t.Before = t.run(ctx, t.Target)
		}
	}
	answers, err := b.ask(ctx, program, questions)
	if err != nil {
		return e, err
	}
	for i := range e.Tries {
		t := &e.Tries[i]
		if t.Inside = answers[i]; t.Control {
			t.After = t.run(ctx, t.Target)
		}
	}
	return e, nil
}

// ask runs the probe's child in the box.
func (b *Box) ask(ctx context.Context, program string, questions []asked) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	body, err := json.Marshal(questions)
	if err != nil {
		return nil, err
	}
	b.env = append(b.env, marker+"="+probeMarker)
	cmd, err := b.Command(ctx, program)
	if err != nil {
		return nil, err
	}
	var stdout, stderr bounded
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(body), &stdout, &stderr, 5*time.Second
	if err := cmd.Run(); err != nil {
		words := strings.TrimSpace(stderr.String())
		return nil, fmt.Errorf("the probe in the box (%s): %w: %s", b.method, errors.Join(err, ctx.Err()), words[:min(len(words), 1000)])
	}
	var answers []string
	if err := json.Unmarshal(stdout.Bytes(), &answers); err != nil {
		return nil, fmt.Errorf("the probe in the box (%s): its answers: %w", b.method, err)
	}
	if len(answers) != len(questions) {
		return nil, fmt.Errorf("the probe in the box (%s): got %d answers to %d questions", b.method, len(answers), len(questions))
	}
	return answers, nil
}

// bounded keeps at most maxProbe bytes, and refuses more.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxProbe {
		return 0, fmt.Errorf("more than %d bytes", maxProbe)
	}
	return b.Buffer.Write(p)
}

// probeChild tries what it is asked to and answers in the same order.
func probeChild(r io.Reader, w io.Writer) error {
	var questions []asked
	if err := json.NewDecoder(io.LimitReader(r, maxProbe)).Decode(&questions); err != nil {
		return err
	}
	answers := make([]string, len(questions))
	var waiting sync.WaitGroup
	for i, q := range questions {
		do := func() { answers[i] = Try{Kind: q.Kind}.run(context.Background(), os.ExpandEnv(q.Target)) }
		if q.Kind == "tcp" { // where it is let out, it waits for an answer
			waiting.Go(do)
		} else {
			do()
		}
	}
	waiting.Wait()
	return json.NewEncoder(w).Encode(answers)
}

func copyProgram(from, dir string) (to string, err error) {
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	to = filepath.Join(dir, "weighmaster")
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	return to, errors.Join(err, out.Close())
}
