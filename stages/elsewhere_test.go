package stages

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// remotely is a toy that needs only what evidence tells of its input.
type remotely struct{ *toy }

func (remotely) TakesRemote() {}

// twoMachines gives a line whose first two stages ran on machine vm, and
// another machine with its own folder, the same ledger and the same pipeline.
func twoMachines(t *testing.T) (vm, laptop *line) {
	t.Helper()
	vm = newLine(t)
	for i := range 2 {
		vm.Pipeline.Stages[i].Machine = "vm"
	}
	vm.Pipeline.Stages[2].Machine = "laptop"
	vm.Machine = "vm"
	laptop = newLine(t)
	laptop.Pipeline, laptop.Machine = vm.Pipeline, "laptop"
	laptop.world, laptop.Signers, laptop.objects, laptop.Objects = vm.world, vm.Signers, vm.objects, vm.objects
	laptop.Stages["derive"] = remotely{laptop.examined}
	return vm, laptop
}

// runs runs a line up to its first stage of another machine.
func (l *line) runsTo(t *testing.T, want, why string) {
	t.Helper()
	got, _, err := l.again(t)
	var elsewhere *ElsewhereError
	if got != want || !errors.As(err, &elsewhere) || !strings.Contains(err.Error(), why) {
		t.Fatalf("%q, %v; want %q and another machine's stage, %q", got, err, want, why)
	}
}

func TestAStageOfAnotherMachineIsNeverRunHere(t *testing.T) {
	vm, laptop := twoMachines(t)
	laptop.runsTo(t, "skipped small, skipped derived", "belongs to machine vm and is not run here: the ledger has no run of it as pipeline.yaml declares it; run it there (weighmaster run --machine vm)")
	nameless := *laptop.Runner
	nameless.Machine = ""
	if _, err := nameless.Run(t.Context()); !errors.As(err, new(*ElsewhereError)) {
		t.Errorf("without a machine's name: %v", err)
	}
	vm.runsTo(t, "started source, finished source, started small, finished small", "stage derived (derive) belongs to machine laptop")
	laptop.bundles = vm.bundles
	made := laptop.mustRun(t, "resumed source, resumed small, started derived, finished derived")
	small := made["small"]
	if !small.Remote || small.Path != "" || small.Name != "small.gguf" || len(small.Files) != 1 || small.Files[0].Sums.SHA256 != small.Digest || laptop.source.runs+laptop.product.runs != 0 {
		t.Errorf("small is %+v", small)
	}
	if onDisk(laptop.Project, "work", "small") {
		t.Error("something was made below work/small")
	}
	_, p := laptop.provenanceOf(t)
	if in := p.GetBuildDefinition().GetResolvedDependencies()[0]; in.GetName() != "input/product" || subjectDigest(in) != small.Digest {
		t.Errorf("stated input %+v", in)
	}
	vm.bundles = laptop.bundles
	vm.mustRun(t, allResumed)
}

func TestWhatAnotherMachineMadeIsTakenWhereItLiesHere(t *testing.T) {
	vm, laptop := twoMachines(t)
	vm.runsTo(t, "started source, finished source, started small, finished small", "laptop")
	laptop.bundles, laptop.Stages["derive"] = vm.bundles, laptop.examined
	if _, _, err := laptop.again(t); err == nil || !strings.Contains(err.Error(), "stage derived: input product: the bytes of small (sha256:") || !strings.Contains(err.Error(), "are on another machine; deliver them here first") {
		t.Fatalf("a stage that reads its input: %v", err)
	}
	for _, name := range []string{"source/model.gguf", "small/small.gguf"} {
		body, err := os.ReadFile(filepath.Join(vm.Project, "work", name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(laptop.Project, "work", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, body, 0o444)); err != nil {
			t.Fatal(err)
		}
	}
	made := laptop.mustRun(t, "resumed source, resumed small, started derived, finished derived")
	if made["small"].Remote {
		t.Error("the bytes are here and called remote")
	}
}

func TestAStageOfAnotherMachineIsProvenByTheRightEvidenceAlone(t *testing.T) {
	for name, c := range map[string]struct {
		do  func(t *testing.T, l *line)
		why string
	}{
		"another declaration": {func(_ *testing.T, l *line) {
			l.Pipeline.Stages[1].With = []byte(`{"type":"Q4_K_M","file":"small.gguf"}`)
		}, "stage small (quantize) belongs to machine vm and is not run here: the ledger has no run of it"},
		"another machine": {func(_ *testing.T, l *line) { l.Pipeline.Stages[0].Machine = "vm2" }, "belongs to machine vm2 and is not run here: the ledger has no run"},
		"another signer":  {func(_ *testing.T, l *line) { l.Pipeline.Stages[1].Signer = policytest.Second }, "is signed by producer, want second"},
		"withdrawn": {func(t *testing.T, l *line) {
			claims, err := l.Claims(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			what, err := structpb.NewStruct(map[string]any{"claim": claims[1].PAE().String(), "reason": "a broken disk"})
			if err != nil {
				t.Fatal(err)
			}
			s, err := attest.NewStatement(claims[1].Statement().GetSubject(), attest.WithdrawalType, what)
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := l.Signers["producer"].Sign(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			l.bundles = append(l.bundles, bundle)
		}, "was withdrawn: a broken disk"},
		"other inputs": {func(t *testing.T, l *line) {
			other := *l
			other.Runner = &Runner{}
			*other.Runner = *l.Runner
			other.Project, other.Machine = t.TempDir(), "vm"
			other.Stages = map[string]Stage{"acquire": makes("acquire", "model.gguf", "other weights"), "quantize": l.product, "derive": l.examined}
			other.Only = []string{"source"}
			other.Pipeline.Stages = append([]schemas.StageDecl{}, l.Pipeline.Stages...)
			if _, err := other.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, "took other inputs: input model: got sha256:"},
		"a failed run": {func(t *testing.T, l *line) {
			other := *l
			other.Runner = &Runner{}
			*other.Runner = *l.Runner
			other.Project, other.Machine, other.Only = t.TempDir(), "vm", []string{"source"}
			other.Stages = map[string]Stage{"acquire": &toy{uses: "acquire", do: func(context.Context, *Run) (*Outcome, error) {
				return &Outcome{Verdict: schemas.Failed, Failure: "the hub was down"}, nil
			}}}
			if _, err := other.Run(t.Context()); err == nil {
				t.Fatal("it passed")
			}
		}, "stage source (acquire) belongs to machine vm and is not run here: its newest run"},
		"a result that is not here": {func(_ *testing.T, l *line) { l.objects.body = map[godigest.Digest][]byte{} }, "did not pass, or its result and reports are not in this evidence store"},
	} {
		t.Run(name, func(t *testing.T) {
			vm, laptop := twoMachines(t)
			vm.runsTo(t, "started source, finished source, started small, finished small", "laptop")
			laptop.bundles = vm.bundles
			c.do(t, laptop)
			if _, _, err := laptop.again(t); !errors.As(err, new(*ElsewhereError)) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("got %v, want %q", err, c.why)
			}
			if laptop.examined.runs != 0 {
				t.Error("a stage ran on what is not proven")
			}
		})
	}
}
