package stages

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/kernels/evaluate"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/llama"
	"github.com/weighmaster/weighmaster/kernels/token"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// reloadJob is what the child reads on its standard input.
type reloadJob struct {
	Path     string   `json:"path"`     // the delivered file
	Fixtures []byte   `json:"fixtures"` // the fixtures file
	Kind     string   `json:"kind"`
	Connect  []string `json:"connect"` // addresses to be refused
}

// reloadAnswer is what the child writes on its standard output.
type reloadAnswer struct {
	Attempts []isolation.Attempt   `json:"attempts"`
	Digest   godigest.Digest       `json:"digest"` // of the file, read again
	Size     int64                 `json:"size"`   // bytes
	Report   kernels.Report        `json:"report"` // of the evaluate kernel
	Parity   []kernels.Finding     `json:"parity"` // prompts that the file's vocabulary encodes otherwise
	Prompts  int                   `json:"prompts"`
	Control  kernels.ControlResult `json:"control"` // of the parity check
}

// boxed is a prepared child.
type boxed struct {
	cmd    *exec.Cmd
	method isolation.Method
	path   string         // of the delivered file, as the child sees it
	record map[string]any // see isolation.Box.Record; nil of a box that denies the network alone
	close  func() error
}

// box is the box of the tool stages, with the delivered file in it. Where none
// works, the child at least gets no network.
func box(ctx context.Context, path string, args ...string) (*boxed, error) {
	if runtime.GOOS == "linux" { // elsewhere the box of the tools was never run by a test
		cmd, b, err := isolation.Self(ctx, []isolation.Mount{{Name: "input/artifact", Host: path}}, args...)
		if err == nil {
			return &boxed{cmd: cmd, method: b.Method(), path: b.Inside(path), record: b.Record(), close: b.Close}, nil
		}
	}
	cmd, method, err := isolation.Command(ctx, args...)
	return &boxed{cmd: cmd, method: method, path: path, close: func() error { return nil }}, err
}

// ReloadChild is the whole of the child process: it finishes the box, reads a
// job from stdin, loads and asks the model, and answers on stdout.
func ReloadChild(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if err := isolation.Enter(); err != nil {
		return err
	}
	var job reloadJob
	if err := json.NewDecoder(io.LimitReader(stdin, 2*maxFixturesFile)).Decode(&job); err != nil {
		return fmt.Errorf("the job: %w", err)
	}
	answer := reloadAnswer{Attempts: isolation.Probe(ctx, job.Connect...), Parity: []kernels.Finding{}}
	sums, err := digest.File(ctx, job.Path)
	if err != nil {
		return err
	}
	answer.Digest, answer.Size = sums.SHA256, sums.Size
	if err := answer.ask(ctx, job); err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(answer)
}

func (a *reloadAnswer) ask(ctx context.Context, job reloadJob) error {
	fixtures, err := evaluate.ParseFixtures(job.Fixtures)
	if err != nil {
		return err
	}
	file, err := os.Open(job.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	model, err := gguf.Open(file, a.Size)
	if err != nil {
		return err
	}
	vocabulary, err := token.FromGGUF(model)
	if err != nil {
		return err
	}
	a.parity(fixtures, vocabulary.Encode)
	chosen := fixtures
	chosen.Fixtures = slices.DeleteFunc(slices.Clone(fixtures.Fixtures), func(f evaluate.Fixture) bool { return f.Kind != job.Kind })
	if len(chosen.Fixtures) == 0 {
		return fmt.Errorf("the fixtures have none of kind %q; nothing would be asked", job.Kind)
	}
	source, err := llama.OpenGGUF(model)
	if err != nil {
		return err
	}
	m, err := llama.Load(ctx, source)
	if err != nil {
		return err
	}
	_, a.Report, err = evaluate.Run(ctx, m, vocabulary, chosen, func(id uint32) (evaluate.Model, error) { return m.Against(id) })
	return err
}

// parity encodes every prompt with the file's own vocabulary.
func (a *reloadAnswer) parity(fixtures evaluate.Fixtures, encode func(text string, addSpecial bool) []uint32) {
	for _, f := range fixtures.Fixtures {
		got := encode(f.Prompt, false)
		a.Prompts++
		if x := parityFinding(f.ID, got, f.PromptIDs); x != nil && len(a.Parity) < kernels.MaxFindings {
			a.Parity = append(a.Parity, *x)
		}
	}
	first := fixtures.Fixtures[0]
	changed := slices.Clone(first.PromptIDs)
	changed[len(changed)-1]++
	a.Control = kernels.ControlResult{Name: "the last prompt id changed", Fault: faultParity, Detail: "the ids were called equal"}
	if x := parityFinding(first.ID, changed, first.PromptIDs); x != nil {
		a.Control.Red, a.Control.Detail = true, x.String()
	}
}

func parityFinding(id string, got, want []uint32) *kernels.Finding {
	if slices.Equal(got, want) {
		return nil
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	show := func(ids []uint32) string {
		if at < len(ids) {
			return fmt.Sprintf("id %d at %d of %d", ids[at], at, len(ids))
		}
		return fmt.Sprintf("%d ids", len(ids))
	}
	return &kernels.Finding{Check: "token parity", Where: "fixture " + id, Got: show(got), Want: show(want), Hint: "the file's vocabulary is not the one that the fixtures were made with"}
}
