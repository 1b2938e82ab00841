package stages

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// toy is a stage of any type that counts its runs.
type toy struct {
	uses string
	runs int
	do   func(ctx context.Context, run *Run) (*Outcome, error)
}

func (s *toy) Uses() string { return s.uses }

func (s *toy) Run(ctx context.Context, run *Run) (*Outcome, error) { s.runs++; return s.do(ctx, run) }

// makes is a toy that writes one file of the given words and of what it took.
func makes(uses, file, words string) *toy {
	return &toy{uses: uses, do: func(_ context.Context, run *Run) (*Outcome, error) {
		body := words
		for _, role := range sortedKeys(run.Inputs) {
			body += " of " + run.Inputs[role].Digest.String()
		}
		f, err := run.Output(file, text(body))
		if err != nil {
			return nil, err
		}
		a := FileArtifact(f)
		return &Outcome{Output: &a, Verdict: schemas.Passed}, nil
	}}
}

// examines is a toy that only reports.
func examines(uses string, reports ...kernels.Report) *toy {
	return &toy{uses: uses, do: func(context.Context, *Run) (*Outcome, error) {
		return &Outcome{Reports: reports, Verdict: schemas.Passed}, nil
	}}
}

func toyReport(kernel string, verdict kernels.Verdict) kernels.Report {
	r := kernels.Kernel{Name: kernel, Version: "1.0.0", Spec: "a specification"}.NewReport()
	r.Controls.Add(kernels.ControlResult{Name: "a flipped bit", Fault: "altered value", Red: true})
	r.Verdict = verdict
	return r
}

// line is a pipeline of toys over a ledger in memory: acquire → quantize, and a derive of both.
type line struct {
	*Runner
	source, product, examined *toy
	world                     *policytest.World
	bundles                   [][]byte
	objects                   *mapObjects
	events                    []string // kind and stage, without progress
	appends                   int
	lost, liedAbout           int // the append that is lost, or made and reported as lost; from 1
}

var errDisk = errors.New("the disk went away")

func newLine(t *testing.T) *line {
	t.Helper()
	l := &line{
		source: makes("acquire", "model.gguf", "weights"), product: makes("quantize", "small.gguf", "fewer bits"),
		examined: examines("derive", toyReport("derive", kernels.Passed)), world: policytest.New(t, fixtures.Policy), objects: &mapObjects{},
	}
	l.Runner = &Runner{
		Project: t.TempDir(), Signers: l.world.Signers, Objects: l.objects, Now: func() time.Time { return policytest.Now },
		Builder: Builder{Version: "test", Digest: godigest.FromString("this program")},
		Stages:  map[string]Stage{"acquire": l.source, "quantize": l.product, "derive": l.examined},
		Pipeline: schemas.Pipeline{
			Publisher: schemas.Publisher{Repository: policytest.Repository, Revision: policytest.Revision, Allow: []string{"*"}},
			Stages: []schemas.StageDecl{
				{Name: "source", Uses: "acquire", With: json.RawMessage(`{"from":"hub"}`)},
				{Name: "small", Uses: "quantize", Inputs: map[string]string{"model": "source"}, With: json.RawMessage(`{"type":"Q8_0","file":"small.gguf"}`)},
				{Name: "derived", Uses: "derive", Inputs: map[string]string{"source": "source", "product": "small"}},
			},
		},
	}
	l.Append = func(_ context.Context, bundle []byte) error {
		l.appends++
		if l.appends == l.lost {
			return errDisk
		}
		l.bundles = append(l.bundles, bundle)
		if l.appends == l.liedAbout {
			return errDisk
		}
		return nil
	}
	l.Claims = func(ctx context.Context) ([]attest.Claim, error) {
		var list []attest.Claim
		for _, b := range l.bundles {
			c, err := l.world.Verifier.Verify(ctx, b, policytest.Now)
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		}
		return list, nil
	}
	l.Observe = func(e Event) {
		if e.Kind != "progress" && e.Kind != "notice" {
			l.events = append(l.events, e.Kind+" "+e.Stage)
		}
	}
	return l
}

// again runs the line and returns what happened, in order.
func (l *line) again(t *testing.T) (string, map[string]Artifact, error) {
	t.Helper()
	l.events = nil
	made, err := l.Run(t.Context())
	return strings.Join(l.events, ", "), made, err
}

const (
	allRan     = "started source, finished source, started small, finished small, started derived, finished derived"
	allResumed = "resumed source, resumed small, resumed derived"
)

// mustRun runs the line and asserts what happened.
func (l *line) mustRun(t *testing.T, want string) map[string]Artifact {
	t.Helper()
	got, made, err := l.again(t)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	return made
}

// recorded gives the runs and results in the log.
func (l *line) recorded(t *testing.T) ([]*policy.Run, []schemas.Result) {
	t.Helper()
	claims, err := l.Claims(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	runs, faults := policy.Runs(claims)
	if len(faults) > 0 {
		t.Fatalf("claims that are no runs: %v", faults)
	}
	var results []schemas.Result
	for _, run := range runs {
		res, err := run.Result(l.objects.body)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, res)
	}
	return runs, results
}

// provenanceOf reads the predicate of the newest claim.
func (l *line) provenanceOf(t *testing.T) (attest.Claim, *provenance.Provenance) {
	t.Helper()
	claims, err := l.Claims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := claims[len(claims)-1]
	p := &provenance.Provenance{}
	if err := protojson.Unmarshal(c.Predicate(), p); err != nil {
		t.Fatal(err)
	}
	return c, p
}

func onDisk(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}
