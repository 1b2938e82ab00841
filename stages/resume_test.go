package stages

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

func mustStruct(t *testing.T) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(map[string]any{"said": true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatTheLedgerProvesIsNotRunAgain(t *testing.T) {
	l := newLine(t)
	first := l.mustRun(t, allRan)
	second := l.mustRun(t, allResumed)
	if len(l.bundles) != 3 || l.source.runs+l.product.runs+l.examined.runs != 3 {
		t.Errorf("%d Statements after %d runs, want 3 after 3", len(l.bundles), l.source.runs+l.product.runs+l.examined.runs)
	}
	for name, a := range first {
		if second[name].Digest != a.Digest || second[name].Path != a.Path {
			t.Errorf("%s: resumed as %+v, was %+v", name, second[name], a)
		}
	}
}

func TestWhatChangedIsRunAgain(t *testing.T) {
	const smallAgain = "resumed source, started small, finished small, resumed derived"
	overwrite := func(t *testing.T, path, words string) {
		t.Helper()
		if err := errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, []byte(words), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, l *line)
		want string
	}{
		"the stage's name": {func(_ *testing.T, l *line) {
			l.Pipeline.Stages[1].Name, l.Pipeline.Stages[2].Inputs["product"] = "tiny", "tiny"
		}, "resumed source, started tiny, finished tiny, started derived, finished derived"},
		"the publisher's revision": {func(_ *testing.T, l *line) {
			l.Pipeline.Publisher.Revision = "0b0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
		}, "started source, finished source, resumed small, resumed derived"},
		"an output's bytes": {func(t *testing.T, l *line) {
			overwrite(t, filepath.Join(l.Project, "work", "small", "small.gguf"), "rotten")
		}, smallAgain},
		"an output that is gone": {func(t *testing.T, l *line) {
			if err := os.RemoveAll(filepath.Join(l.Project, "work", "small")); err != nil {
				t.Fatal(err)
			}
		}, smallAgain},
		"an input's bytes": {func(_ *testing.T, l *line) {
			l.source.do = makes("acquire", "model.gguf", "other weights").do
			l.Pipeline.Stages[0].With = []byte(`{"from":"hub","endpoint":"https://mirror.example.com"}`)
		}, allRan},
		"who signs": {func(_ *testing.T, l *line) { l.Pipeline.Stages[1].Signer = policytest.Second }, smallAgain},
		"a result that the store lost": {func(t *testing.T, l *line) {
			runs, _ := l.recorded(t)
			delete(l.objects.body, runs[1].Evidence()[0])
		}, smallAgain},
		"a report that the store lost": {func(t *testing.T, l *line) {
			runs, _ := l.recorded(t)
			delete(l.objects.body, runs[2].Evidence()[1])
		}, "resumed source, resumed small, started derived, finished derived"},
		"a claim that was withdrawn": {func(t *testing.T, l *line) {
			claims, err := l.Claims(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			body, err := toStruct(schemas.Withdrawal{Claim: claims[1].PAE(), Reason: "another tool ran beside it"})
			if err != nil {
				t.Fatal(err)
			}
			s, err := attest.NewStatement(claims[1].Statement().GetSubject(), attest.WithdrawalType, body)
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := l.Signers["producer"].Sign(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			l.bundles = append(l.bundles, bundle)
		}, smallAgain},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t)
			l.mustRun(t, allRan)
			c.do(t, l)
			l.mustRun(t, c.want)
		})
	}
	t.Run("a parameter", func(t *testing.T) {
		l := newLine(t)
		l.mustRun(t, allRan)
		l.Pipeline.Stages[1].With = []byte(`{"type":"Q6_K","file":"small.gguf"}`)
		if err := schemas.StageParameters("quantize", l.Pipeline.Stages[1].With); err != nil {
			l.Pipeline.Stages[1].With = []byte(`{"type":"Q8_0","file":"smaller.gguf"}`)
		}
		l.mustRun(t, smallAgain)
	})
	t.Run("only the order of the parameters", func(t *testing.T) {
		l := newLine(t)
		l.mustRun(t, allRan)
		l.Pipeline.Stages[1].With = []byte(`{ "file":"small.gguf", "type":"Q8_0" }`)
		l.mustRun(t, allResumed)
	})
}

func TestAFailureAfterASuccessIsRunAgain(t *testing.T) {
	l := newLine(t)
	l.mustRun(t, allRan)
	good := l.product.do
	if err := os.RemoveAll(filepath.Join(l.Project, "work", "small")); err != nil {
		t.Fatal(err)
	}
	l.product.do = makes("quantize", "../outside", "x").do // an output that is refused
	if _, _, err := l.again(t); err == nil {
		t.Fatal("got no error")
	}
	l.product.do = good
	l.mustRun(t, "resumed source, started small, finished small, resumed derived")
}

func TestALostAppendLeavesTheNextRunConsistent(t *testing.T) {
	t.Run("lost", func(t *testing.T) {
		l := newLine(t)
		l.lost = 2
		_, made, err := l.again(t)
		if !errors.Is(err, errDisk) || len(made) != 1 {
			t.Fatalf("got %v and %d artifacts, want %v and the source", err, len(made), errDisk)
		}
		l.mustRun(t, "resumed source, started small, finished small, started derived, finished derived")
		if runs, _ := l.recorded(t); len(runs) != 3 || !onDisk(l.Project, "work", "small.candidate-1", "small.gguf") {
			t.Errorf("%d runs are recorded, want 3, with the unrecorded output kept as a candidate", len(runs))
		}
	})
	t.Run("persisted but reported as lost", func(t *testing.T) {
		l := newLine(t)
		l.liedAbout = 2
		if _, _, err := l.again(t); !errors.Is(err, errDisk) {
			t.Fatalf("got %v, want %v", err, errDisk)
		}
		l.mustRun(t, "resumed source, resumed small, started derived, finished derived")
		if runs, _ := l.recorded(t); len(runs) != 3 {
			t.Errorf("%d runs are recorded, want 3", len(runs))
		}
	})
}

// A file may be called as evidence is; it is an output all the same.
func TestAnOutputCalledResultIsResumedAsAnOutput(t *testing.T) {
	l := newLine(t)
	l.source.do = makes("acquire", "result", "weights").do
	l.mustRun(t, allRan)
	made := l.mustRun(t, allResumed)
	if made["source"].Digest != godigest.FromString("weights") {
		t.Errorf("resumed as %+v", made["source"])
	}
}

// The further Statements of a run come before its provenance: whichever is lost,
// or said to be lost, the stage runs again or is complete with all of them.
func TestALostFurtherStatementMakesTheStageRunAgain(t *testing.T) {
	const scai = "https://in-toto.io/attestation/scai/v0.3"
	attribute, err := structpb.NewStruct(map[string]any{"attributes": []any{map[string]any{"attribute": "NETWORK_DENIED"}}})
	if err != nil {
		t.Fatal(err)
	}
	for lost := 3; lost <= 5; lost++ {
		for _, lied := range []bool{false, true} {
			l := newLine(t)
			l.examined.do = func(context.Context, *Run) (*Outcome, error) {
				out := &Outcome{Reports: []kernels.Report{toyReport("derive", kernels.Passed)}, Verdict: schemas.Passed}
				for i := range 2 {
					s, err := attest.NewStatement([]*attest.ResourceDescriptor{{Name: strconv.Itoa(i), Digest: sha256Set(godigest.FromString("x"))}}, scai, attribute)
					if err != nil {
						return nil, err
					}
					out.Statements = append(out.Statements, s)
				}
				return out, nil
			}
			if l.lost = lost; lied {
				l.lost, l.liedAbout = 0, lost
			}
			if _, _, err := l.again(t); !errors.Is(err, errDisk) {
				t.Fatalf("append %d: got %v, want %v", lost, err, errDisk)
			}
			want := "resumed source, resumed small, started derived, finished derived"
			if lied && lost == 5 {
				want = allResumed
			}
			l.mustRun(t, want)
			claims, err := l.Claims(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			last := claims[len(claims)-3:]
			if last[0].PredicateType() != scai || last[1].PredicateType() != scai || last[2].PredicateType() != attest.ProvenanceType {
				t.Errorf("append %d, lied %v: the ledger ends with %s, %s, %s", lost, lied, last[0].PredicateType(), last[1].PredicateType(), last[2].PredicateType())
			}
			l.mustRun(t, allResumed)
		}
	}
}
