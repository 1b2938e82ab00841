package stages

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
)

func TestARunStatesWhatWentInAndWhatCameOut(t *testing.T) {
	l := newLine(t)
	made := l.mustRun(t, allRan)
	runs, results := l.recorded(t)
	if len(runs) != 3 {
		t.Fatalf("%d runs are recorded, want 3", len(runs))
	}
	for i, res := range results {
		if res.Verdict != schemas.Passed || res.ExitStatus != 0 || res.Stage != runs[i].External.Stage {
			t.Errorf("run %d: got the result %+v", i, res)
		}
	}
	if p := runs[0].External.Publisher; p == nil || p.Revision != l.Pipeline.Publisher.Revision {
		t.Errorf("the acquisition names the pin %+v", p)
	}
	if runs[1].External.Publisher != nil {
		t.Error("a stage that acquires nothing names a publisher")
	}
	if runs[1].Inputs[0].Digest != made["source"].Digest || runs[1].Subjects[0].Digest != made["small"].Digest || runs[1].Subjects[0].Name != "small.gguf" {
		t.Errorf("the quantization takes %v and makes %v", runs[1].Inputs, runs[1].Subjects)
	}
	reports, err := runs[2].Reports(l.objects.body)
	if err != nil || len(reports) != 1 {
		t.Fatalf("got %d reports, %v", len(reports), err)
	}
	if in := reports[0].Inputs; len(in) != 2 || in[0].Name != "product" || in[0].Digest != made["small"].Digest {
		t.Errorf("the report is over %v", in)
	}
	_, p := l.provenanceOf(t)
	tool := p.GetBuildDefinition().GetResolvedDependencies()[2]
	if tool.GetName() != "tool/weighmaster" || tool.GetDigest()["sha256"] != l.Builder.Digest.Encoded() {
		t.Errorf("the program is named as %v", tool)
	}
}

func TestAFailedStageIsRecordedAndStopsTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		do      func(ctx context.Context, run *Run) (*Outcome, error)
		verdict schemas.Verdict
		failure string
	}{
		"it could not run to its end": {func(_ context.Context, run *Run) (*Outcome, error) {
			if _, err := run.Output("half.gguf", text("half")); err != nil {
				return nil, err
			}
			return nil, errors.New("the tool crashed")
		}, schemas.Failed, "the tool crashed"},
		"it found the work wrong": {func(_ context.Context, run *Run) (*Outcome, error) {
			f, err := run.Output("half.gguf", text("half"))
			a := FileArtifact(f)
			return &Outcome{Output: &a, Verdict: schemas.Failed, Failure: "two tensors differ", ExitStatus: 3}, err
		}, schemas.Failed, "two tensors differ"},
		"it could not tell": {func(_ context.Context, run *Run) (*Outcome, error) {
			_, err := run.Output("half.gguf", text("half"))
			return &Outcome{Verdict: schemas.Undecided, Failure: "no reference"}, err
		}, schemas.Undecided, "no reference"},
		"it gave no verdict": {func(_ context.Context, run *Run) (*Outcome, error) {
			_, err := run.Output("half.gguf", text("half"))
			return &Outcome{}, err
		}, schemas.Failed, "the stage gave no verdict"},
		"it gave nothing": {func(_ context.Context, run *Run) (*Outcome, error) {
			_, err := run.Output("half.gguf", text("half"))
			return nil, err
		}, schemas.Failed, "the stage gave no outcome"},
		"it said passed beside a failed report": {func(_ context.Context, run *Run) (*Outcome, error) {
			_, err := run.Output("half.gguf", text("half"))
			return &Outcome{Verdict: schemas.Passed, Reports: []kernels.Report{toyReport("derive", kernels.Failed)}}, err
		}, schemas.Failed, "the stage says passed, but its kernel derive says failed"},
		"it said passed beside an undecided report": {func(_ context.Context, run *Run) (*Outcome, error) {
			_, err := run.Output("half.gguf", text("half"))
			return &Outcome{Verdict: schemas.Passed, Reports: []kernels.Report{toyReport("derive", kernels.Undecided)}}, err
		}, schemas.Failed, "its kernel derive says undecided"},
		"it measured what is no number": {func(_ context.Context, run *Run) (*Outcome, error) {
			_, err := run.Output("half.gguf", text("half"))
			r := toyReport("derive", kernels.Passed)
			r.Metric("kl_mean", "nats", math.NaN())
			return &Outcome{Verdict: schemas.Passed, Reports: []kernels.Report{r}}, err
		}, schemas.Failed, "what it found cannot be stated: report/derive: json: unsupported value: NaN"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t)
			l.product.do = c.do
			got, made, err := l.again(t)
			var stage *StageError
			if !errors.As(err, &stage) || stage.Stage != "small" || stage.Verdict != c.verdict || !strings.Contains(err.Error(), c.failure) {
				t.Fatalf("got %v, want the stage small %s with %q", err, c.verdict, c.failure)
			}
			if got != "started source, finished source, started small, finished small" || len(made) != 1 {
				t.Errorf("got %q and %d artifacts; the run must stop there", got, len(made))
			}
			_, results := l.recorded(t)
			if last := results[len(results)-1]; len(results) != 2 || last.Verdict != c.verdict || !strings.Contains(last.Failure, c.failure) {
				t.Errorf("recorded %+v", results)
			}
			if !onDisk(l.Project, "work", "small", "half.gguf") {
				t.Error("what it made is gone")
			}
			// The next run moves the candidate aside and starts anew.
			l.product.do = makes("quantize", "small.gguf", "fewer bits").do
			l.mustRun(t, "resumed source, started small, finished small, started derived, finished derived")
			if !onDisk(l.Project, "work", "small.candidate-1", "half.gguf") || onDisk(l.Project, "work", "small", "half.gguf") {
				t.Error("the candidate was not moved aside")
			}
		})
	}
}

func TestWhatALyingStageDecidedIsNotStated(t *testing.T) {
	l := newLine(t)
	l.product.do = func(context.Context, *Run) (*Outcome, error) {
		s, err := attest.NewStatement([]*attest.ResourceDescriptor{{Name: "small.gguf", Digest: sha256Set(godigest.FromString("x"))}}, "https://example.com/accepted/v1", mustStruct(t))
		return &Outcome{Verdict: schemas.Passed, Reports: []kernels.Report{toyReport("derive", kernels.Failed)}, Statements: []*attest.Statement{s}}, err
	}
	if _, _, err := l.again(t); err == nil {
		t.Fatal("got no error")
	}
	if len(l.bundles) != 2 {
		t.Errorf("%d Statements are recorded, want the two runs alone", len(l.bundles))
	}
}

func TestACancelledRunIsRecorded(t *testing.T) {
	l := newLine(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.product.do = func(ctx context.Context, _ *Run) (*Outcome, error) {
		cancel()
		return nil, ctx.Err()
	}
	_, err := l.Run(ctx)
	var stage *StageError
	if !errors.As(err, &stage) || stage.Failure != context.Canceled.Error() {
		t.Fatalf("got %v, want that the stage was cancelled", err)
	}
	if _, results := l.recorded(t); len(results) != 2 || results[1].Failure != context.Canceled.Error() || results[1].ExitStatus != 1 {
		t.Errorf("recorded %+v", results)
	}
}

func TestTwoReportsOfOneKernelHaveNamesOfTheirOwn(t *testing.T) {
	l := newLine(t)
	second := toyReport("derive", kernels.Passed)
	second.Metric("tensors_differing", "tensors", 0)
	l.examined.do = examines("derive", toyReport("derive", kernels.Passed), second, toyReport("derive-2", kernels.Passed), toyReport("derive", kernels.Passed)).do
	l.mustRun(t, allRan)
	c, p := l.provenanceOf(t)
	var subjects, byproducts []string
	for _, s := range c.Statement().GetSubject() {
		subjects = append(subjects, s.GetName())
	}
	for _, b := range p.GetRunDetails().GetByproducts() {
		byproducts = append(byproducts, b.GetName())
	}
	want := []string{"report/derive", "report/derive-3", "report/derive-2", "report/derive-4", "result"}
	if !slices.Equal(subjects, want) || !slices.Equal(byproducts, want) {
		t.Errorf("got the subjects %v and the byproducts %v, want %v", subjects, byproducts, want)
	}
	runs, _ := l.recorded(t)
	if reports, err := runs[2].Reports(l.objects.body); err != nil || len(reports) != 4 {
		t.Errorf("%d reports are read back, %v; want 4", len(reports), err)
	}
	l.mustRun(t, allResumed)
}

func TestOnlyRunsWhatIsNamed(t *testing.T) {
	l := newLine(t)
	l.Only = []string{"small"}
	got, _, err := l.again(t)
	if err == nil || !strings.Contains(err.Error(), "stage source (acquire) is not complete") || got != "" {
		t.Fatalf("got %q, %v; want that the source is missing", got, err)
	}
	l.Only = []string{"source"}
	l.mustRun(t, "started source, finished source")
	l.Only = []string{"small"}
	l.mustRun(t, "resumed source, started small, finished small")
	l.mustRun(t, "resumed source, resumed small")
	l.Only = []string{"largest"}
	if _, _, err := l.again(t); err == nil || !strings.Contains(err.Error(), `it has no stage "largest"`) {
		t.Errorf("got %v, want that there is no such stage", err)
	}
	if l.examined.runs != 0 {
		t.Error("a stage that was not named ran")
	}
}

func TestInputsAreHashedAgain(t *testing.T) {
	l := newLine(t)
	l.product.do = func(_ context.Context, run *Run) (*Outcome, error) {
		// The source's file changes while the run is on.
		path := filepath.Join(l.Project, "work", "source", "model.gguf")
		if err := errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, []byte("other"), 0o644)); err != nil {
			return nil, err
		}
		return makes("quantize", "small.gguf", "x").do(t.Context(), run)
	}
	if _, _, err := l.again(t); err == nil || !strings.Contains(err.Error(), "stage derived: input source from stage source") || !strings.Contains(err.Error(), "changed since it was made: got sha256:") {
		t.Errorf("got %v, want that the source changed", err)
	}
	if l.examined.runs != 0 {
		t.Error("the stage ran on bytes that nobody made")
	}
}

func TestWhatCannotRunIsRefusedBeforeItRuns(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(*line)
		words string
	}{
		"an unknown stage type":                 {func(l *line) { delete(l.Stages, "acquire") }, `uses "acquire", which is no stage type; known are derive, quantize`},
		"a signer without a key":                {func(l *line) { l.Pipeline.Stages[0].Signer = "nobody" }, `its signer "nobody" has no key in keys/`},
		"parameters that do not fit the schema": {func(l *line) { l.Pipeline.Stages[0].With = []byte(`{"from":"hub","also":1}`) }, "stage source: parameters: stage/acquire/v1"},
	} {
		l := newLine(t)
		c.do(l)
		if got, _, err := l.again(t); err == nil || !strings.Contains(err.Error(), c.words) || got != "" {
			t.Errorf("%s: got %q, %v; want a refusal with %q", name, got, err, c.words)
		}
	}
}
