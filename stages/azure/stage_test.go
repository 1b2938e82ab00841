package azure_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
	"github.com/weighmaster/weighmaster/stages/azure"
	"github.com/weighmaster/weighmaster/stages/azure/azuretest"
)

var rentedVM = azuretest.VM{Subscription: "8c4b1f2e-0000-4000-8000-0123456789ab", ResourceGroup: "rented-group", Name: "converter-vm", VMID: "5f1c2d3e-1111-4111-8111-abcdefabcdef", Size: "Standard_NC24ads_A100_v4"}

// rent is a project with everything accepted, delivered and reloaded, and a machine that runs.
type rent struct {
	world  *policytest.World
	places func(places map[godigest.Digest]policy.Place, s *policytest.Signed)
	server *azuretest.Server
	run    *stages.Run
	signed *policytest.Signed
	here   string // the firmware's identity of the machine that this runs on
}

func rentedWorld(t *testing.T) *rent {
	t.Helper()
	w := policytest.New(t, fixtures.Policy)
	w.Drop(t, "finished", "completion")
	r := &rent{world: w, server: azuretest.NewServer(rentedVM)}
	t.Cleanup(r.server.Close)
	r.run = &stages.Run{
		Stage: "given-back", With: json.RawMessage(`{"vm":"vm.yaml","requires":["q8-reloaded"],"poll":{"attempts":5,"interval":"1ms"}}`),
		Inputs: map[string]stages.Artifact{}, Project: t.TempDir(), Objects: &objects{}, Now: time.Now,
	}
	r.run.Extra = &stages.Extra{Delivered: filepath.Join(r.run.Project, "delivered")}
	if err := os.MkdirAll(r.run.Extra.Delivered, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.run.Extra.Delivered, policytest.Artifact.Name), []byte(policytest.ArtifactBytes), 0o444); err != nil {
		t.Fatal(err)
	}
	r.vm(t, "")
	return r
}

func (r *rent) connect() stages.ConnectRental {
	return azure.Rentals(azure.Options{Endpoint: r.server.URL, Firmware: func() string { return r.here }})
}

// vm writes the machine's file, with further lines.
func (r *rent) vm(t *testing.T, more string) {
	t.Helper()
	body := fmt.Sprintf("schema: %s\nprovider: azure\nsubscription: %s\nresourceGroup: %s\nname: %s\nvmId: %s\nsize: %s\n%s", schemas.ComputeURI, rentedVM.Subscription, rentedVM.ResourceGroup, rentedVM.Name, rentedVM.VMID, rentedVM.Size, more)
	if err := os.WriteFile(filepath.Join(r.run.Project, "vm.yaml"), []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *rent) sign(t *testing.T) {
	t.Helper()
	s := r.world.Sign(t)
	r.signed = s
	r.run.Claims, r.run.Objects = s.Claims, &objects{body: s.Objects}
	r.run.Extra.Policy, r.run.Extra.PolicyDigest = r.world.Policy, r.world.PolicyDigest()
	if r.places != nil {
		ev := s.Evidence
		ev.Places = map[godigest.Digest]policy.Place{}
		for i, c := range s.Claims {
			ev.Places[c.Bundle()] = policy.Place{Index: int64(i), Appended: policytest.Now}
		}
		r.places(ev.Places, s)
		r.run.Extra.Evidence = evidenceOf(ev)
	}
}

func (r *rent) release(t *testing.T) *stages.Outcome {
	t.Helper()
	if r.signed == nil {
		r.sign(t)
	}
	if err := schemas.StageParameters("release", r.run.With); err != nil {
		t.Fatal(err)
	}
	out, err := stages.Release{Connect: r.connect()}.Run(t.Context(), r.run)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestComputeIsReleasedWhenNothingCanBeLost(t *testing.T) {
	r := rentedWorld(t)
	r.vm(t, "allocated: {from: 2026-02-28T23:00:00+02:00, source: the activity log}\nchecks: [[\"true\"]]\n")
	out := r.release(t)
	if out.Verdict != schemas.Passed || out.Failure != "" {
		t.Fatalf("%s: %s", out.Verdict, out.Failure)
	}
	if out.Facts["compute"] != "azure" || out.Facts["state"] != "PowerState/deallocated" || out.Facts["already"] != "false" || out.Facts["gpu"] != "1 × NVIDIA A100 80 GB" ||
		out.Facts["image"] != "Canonical:ubuntu-24_04-lts:server:24.04.202611010" || out.Facts["endpoint"] != r.server.URL || !strings.HasPrefix(out.Facts["allocated"], "2026-02-28T21:00:00Z/") || r.server.Deallocations() != 1 {
		t.Errorf("facts %v after %d requests", out.Facts, r.server.Deallocations())
	}
	var a schemas.Allocation
	for _, e := range out.Evidence {
		body, err := r.run.Objects.Get(t.Context(), e.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if e.Name == "cost/allocation" {
			if err := schemas.DecodeJSON(schemas.AllocationURI, body, &a); err != nil {
				t.Fatal(err)
			}
		}
		private := strings.Contains(string(body), rentedVM.Subscription)
		if private != (e.Name == "compute/vm") {
			t.Errorf("%s: holds the subscription: %v", e.Name, private)
		}
	}
	if a.Source != "given" || len(a.Disks) != 1 || a.Disks[0].SizeGiB != 1024 || !a.Disks[0].Persistent || a.To.Location() != time.UTC {
		t.Errorf("allocation %+v", a)
	}
}

// No account identifier and no credential is in what a Statement would carry.
func TestNothingOfTheAccountIsPublic(t *testing.T) {
	for name, prepare := range map[string]func(r *rent){
		"released":        func(*rent) {},
		"not reloaded":    func(r *rent) { r.world.Drop(t, "q8-reloaded") },
		"still going on":  func(r *rent) { r.server.SetDeallocation(-1) },
		"another machine": func(r *rent) { r.server.VM.VMID = "00000000-1111-4111-8111-abcdefabcdef" },
		"another group":   func(r *rent) { r.server.VM.ResourceGroup = "production" },
		"stopped":         func(r *rent) { r.server.SetDeallocation(0) },
	} {
		r := rentedWorld(t)
		prepare(r)
		out := r.release(t)
		said, err := json.Marshal([]any{out.Facts, out.Failure, out.Internal, out.Dependencies, string(r.run.With)})
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{rentedVM.Subscription, rentedVM.ResourceGroup, rentedVM.Name, rentedVM.VMID, r.server.VM.VMID, "fake_token", "Bearer"} {
			if strings.Contains(string(said), secret) {
				t.Errorf("%s: %s is in %s", name, secret, said)
			}
		}
	}
}

func TestAFileThatNamesNoMachineSaysNothingOfIt(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"a size with a space":  {"size: my secret\n", "twice or unknown"},
		"latest":               {"image: {publisher: p, offer: o, sku: s, version: latest}\n", "/image/version"},
		"a start without zone": {"allocated: {from: 2026-02-28T23:00:00, source: secret}\n", "/allocated/from"},
		"an unknown key":       {"password: secret\n", "password"},
	} {
		r := rentedWorld(t)
		r.vm(t, c.line)
		r.sign(t)
		_, err := stages.Release{Connect: r.connect()}.Run(t.Context(), r.run)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), rentedVM.Subscription) {
			t.Errorf("%s: got %v, want a refusal with %q", name, err, c.want)
		}
	}
}

func TestComputeIsNotReleasedWhile(t *testing.T) {
	imported := func(steps ...string) func(map[godigest.Digest]policy.Place, *policytest.Signed) {
		return func(places map[godigest.Digest]policy.Place, s *policytest.Signed) {
			for _, step := range steps {
				p := places[s.Claim(t, step).Bundle()]
				p.Imported = true
				places[s.Claim(t, step).Bundle()] = p
			}
		}
	}
	again := func(w *policytest.World, name string) *policytest.Step {
		s := *w.Step(t, name)
		return &s
	}
	failed := schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Failed, ExitStatus: 1, Failure: "it did not load", Facts: map[string]string{}}
	put := func(r *rent, name string) {
		file := filepath.Join(r.run.Project, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		prepare func(r *rent)
		want    string
	}{
		"nothing was reloaded":        {func(r *rent) { r.world.Drop(t, "q8-reloaded") }, "model-Q8_0.gguf (" + policytest.Artifact.Digest.String() + "): reloaded: reload: undecided"},
		"nothing was delivered":       {func(r *rent) { r.world.Drop(t, "q8-delivered") }, "delivered: deliver: undecided"},
		"nothing was accepted":        {func(r *rent) { r.world.Drop(t, "q8-accepted", "q8-summary") }, "nothing was accepted"},
		"the reload failed":           {func(r *rent) { r.world.Step(t, "q8-reloaded").Result = failed }, "stage q8-reloaded did not pass"},
		"it failed since":             {func(r *rent) { s := again(r.world, "q8-reloaded"); s.Result = failed; r.world.Add(t, "", s) }, "stage q8-reloaded did not pass"},
		"it was accepted again since": {func(r *rent) { r.world.Add(t, "", policytest.Summary("newer", "PASSED", nil)) }, "not reloaded since its newest acceptance"},
		"delivered before its decision": {func(r *rent) {
			s := again(r.world, "q8-delivered")
			r.world.Drop(t, "q8-delivered")
			r.world.Add(t, "q8", s)
		}, "delivered before it was accepted"},
		"the reload was withdrawn": {func(r *rent) {
			r.world.Add(t, "", policytest.Withdrawal("w", "q8-reloaded", "the wrong file", policytest.Producer))
		}, "stage q8-reloaded has no run that counts"},
		"another one is required":      {func(r *rent) { r.run.With = json.RawMessage(`{"vm":"vm.yaml","requires":["q6-reloaded"]}`) }, "stage q6-reloaded has no run that counts"},
		"no reload is required":        {func(r *rent) { r.run.With = json.RawMessage(`{"vm":"vm.yaml","requires":["q8-delivered"]}`) }, "stage q8-delivered is a deliver stage, want reload"},
		"a stranger says so":           {func(r *rent) { r.world.Step(t, "q8-reloaded").By = []string{policytest.Stranger} }, "stage q8-reloaded has no run that counts"},
		"reloaded on the machine only": {func(r *rent) { r.places = imported("q8-reloaded") }, "ran on another machine"},
		"other bytes were reloaded": {func(r *rent) {
			r.world.Step(t, "q8-reloaded").Inputs = []policy.NamedDigest{policytest.In("artifact", policytest.BF16)}
		}, "reloaded: reload: undecided"},
		"no copy is here": {func(r *rent) { os.Remove(filepath.Join(r.run.Extra.Delivered, policytest.Artifact.Name)) },
			"there is no copy of it here: model-Q8_0.gguf is not in the folder of delivered files"},
		"the copy was changed": {func(r *rent) {
			name := filepath.Join(r.run.Extra.Delivered, policytest.Artifact.Name)
			os.Remove(name)
			os.WriteFile(name, []byte("eight bits a Weight"), 0o444)
		}, "want " + policytest.Artifact.Digest.String()},
		"a delivery did not end":     {func(r *rent) { put(r, "delivered/model-Q6_K.gguf.partial") }, "the transfer of delivered/model-Q6_K.gguf.partial did not end"},
		"an acquisition did not end": {func(r *rent) { put(r, "work/source/source/model.safetensors.partial") }, "the transfer of work/source/source/model.safetensors.partial did not end"},
		"a job's word is unreadable": {func(r *rent) { put(r, "work/progress/quantize.json") }, "whether a job runs is not known"},
		"this is that machine":       {func(r *rent) { r.here = rentedVM.VMID }, "this program runs on that very machine"},
		"this is it, the other way":  {func(r *rent) { r.here = "3E2D1C5F-1111-1141-8111-ABCDEFABCDEF" }, "this program runs on that very machine"},
		"a check does not agree":     {func(r *rent) { r.vm(t, "checks: [[\"true\"], [\"sh\", \"-c\", \"exit 3\"], [\"true\"]]\n") }, "check 2 of the machine's file ended with exit status 3"},
		"a check is not there":       {func(r *rent) { r.vm(t, "checks: [[\"/nowhere/at-all\"]]\n") }, "check 1 of the machine's file ended with exit status -1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rentedWorld(t)
			c.prepare(r)
			out := r.release(t)
			if out.Verdict != schemas.Failed || !strings.Contains(out.Failure, "nothing was asked of it: ") || !strings.Contains(out.Failure, c.want) {
				t.Errorf("got %s: %s; want %q", out.Verdict, out.Failure, c.want)
			}
			if n := r.server.Deallocations(); n != 0 || out.Facts["state"] != "PowerState/running" || out.Facts["released"] != "" || out.Facts["allocated"] != "" {
				t.Errorf("asked %d times, facts %v", n, out.Facts)
			}
		})
	}
}

// What another stage of the run hashed just now is a copy as good as a delivered file.
func TestAnInputIsALocalCopy(t *testing.T) {
	r := rentedWorld(t)
	name := filepath.Join(r.run.Extra.Delivered, policytest.Artifact.Name)
	elsewhere := filepath.Join(t.TempDir(), "copy.gguf")
	if err := os.Rename(name, elsewhere); err != nil {
		t.Fatal(err)
	}
	sums, err := digest.File(t.Context(), elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	a := stages.FileArtifact(stages.File{Name: "copy.gguf", Path: elsewhere, Sums: sums})
	a.Remote = true
	r.run.Inputs["q8"] = a
	if out := r.release(t); out.Verdict != schemas.Failed || !strings.Contains(out.Failure, "there is no copy of it here") {
		t.Fatalf("a copy elsewhere: %s: %s", out.Verdict, out.Failure)
	}
	a.Remote = false
	r.run.Inputs["q8"] = a
	if out := r.release(t); out.Verdict != schemas.Passed {
		t.Fatalf("%s: %s", out.Verdict, out.Failure)
	}
}

// Bytes that are refused later need not be kept, and no longer hold the machine.
func TestARefusedArtifactHoldsNothing(t *testing.T) {
	r := rentedWorld(t)
	r.world.Add(t, "", policytest.Summary("refused", "FAILED", nil))
	if out := r.release(t); out.Verdict != schemas.Failed || !strings.Contains(out.Failure, "nothing was accepted") {
		t.Fatalf("%s: %s", out.Verdict, out.Failure)
	}
}

func TestAStillDeallocatingMachineIsNoRelease(t *testing.T) {
	r := rentedWorld(t)
	r.server.SetDeallocation(-1)
	out := r.release(t)
	if out.Verdict != schemas.Undecided || out.Facts["state"] != "PowerState/deallocating" || out.Facts["released"] != "" || !strings.Contains(out.Failure, "still PowerState/deallocating") {
		t.Fatalf("%s: %s, facts %v", out.Verdict, out.Failure, out.Facts)
	}
	r.server.SetDeallocation(0)
	if out = r.release(t); out.Verdict != schemas.Passed || r.server.Deallocations() != 1 {
		t.Fatalf("going on: %s: %s after %d requests", out.Verdict, out.Failure, r.server.Deallocations())
	}
	if out = r.release(t); out.Verdict != schemas.Passed || out.Facts["already"] != "true" {
		t.Errorf("a second time: %s: %s, facts %v", out.Verdict, out.Failure, out.Facts)
	}
}

// The start of the rent is given or was seen; it is never made up.
func TestTheStartOfTheRentIsGivenOrSeen(t *testing.T) {
	seen := func(at string, state string) *policytest.Step {
		return &policytest.Step{Name: "rented", Uses: "observe", By: []string{policytest.Producer},
			Result: schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Passed, Facts: map[string]string{"machine": rentedDigest(), "state": state, "observed": at}}}
	}
	releasedAt := func(state string) *policytest.Step {
		s := seen("", state)
		s.Name, s.Uses = "given-back", "release"
		return s
	}
	const given = "allocated: {from: 2026-03-01T09:00:00Z, source: the activity log}\n"
	for name, c := range map[string]struct {
		file  string
		steps []*policytest.Step
		want  string // start
		by    string
	}{
		"neither":                  {"", nil, "", "unknown"},
		"given":                    {given, nil, "2026-03-01T09:00:00Z", "given"},
		"seen":                     {"", []*policytest.Step{seen("2026-03-01T09:30:00Z", "PowerState/running")}, "2026-03-01T09:30:00Z", "observed: allocated at least since then"},
		"seen later than given":    {given, []*policytest.Step{seen("2026-03-01T09:30:00Z", "PowerState/running")}, "2026-03-01T09:00:00Z", "given"},
		"seen earlier than given":  {given, []*policytest.Step{seen("2026-03-01T08:30:00Z", "PowerState/running")}, "2026-03-01T08:30:00Z", "observed: allocated at least since then"},
		"a gap":                    {"", []*policytest.Step{seen("2026-03-01T08:00:00Z", "PowerState/running"), seen("2026-03-01T09:00:00Z", "PowerState/deallocated"), seen("2026-03-01T10:00:00Z", "PowerState/running")}, "2026-03-01T08:00:00Z", "observed: allocated at least since then; seen deallocated in between, so that the interval is too long"},
		"released in between":      {"", []*policytest.Step{seen("2026-03-01T08:00:00Z", "PowerState/running"), releasedAt("PowerState/deallocated"), seen("2026-03-01T10:00:00Z", "PowerState/running")}, "2026-03-01T10:00:00Z", "observed: allocated at least since then"},
		"given in the future":      {"allocated: {from: 2126-03-01T09:00:00Z, source: a wrong clock}\n", nil, "", "unknown: the given start lies after the release; check zones and clocks"},
		"another machine was seen": {"", []*policytest.Step{{Name: "rented", Uses: "observe", By: []string{policytest.Producer}, Result: schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Passed, Facts: map[string]string{"machine": "sha256:" + strings.Repeat("ab", 32), "observed": "2026-03-01T09:30:00Z"}}}}, "", "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rentedWorld(t)
			r.vm(t, c.file)
			r.world.Add(t, "", c.steps...)
			out := r.release(t)
			start, _, _ := strings.Cut(out.Facts["allocated"], "/")
			if out.Verdict != schemas.Passed || start != c.want || out.Facts["allocatedBy"] != c.by {
				t.Errorf("%s: %s: got %q by %q, want %q by %q", out.Verdict, out.Failure, start, out.Facts["allocatedBy"], c.want, c.by)
			}
		})
	}
}

// Who finds the machine deallocated already is not who ended the rent: the first who saw it so was.
func TestTheRentEndsWhenItWasFirstSeenDeallocated(t *testing.T) {
	r := rentedWorld(t)
	r.server.SetPower("PowerState/deallocated")
	for at, state := range map[string]string{"2026-03-01T08:00:00Z": "PowerState/running", "2026-03-01T09:00:00Z": "PowerState/deallocated", "2026-03-01T09:30:00Z": "PowerState/deallocated"} {
		r.world.Steps = append(r.world.Steps, &policytest.Step{Name: "rented", Uses: "observe", By: []string{policytest.Producer},
			Result: schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Passed, Facts: map[string]string{"machine": rentedDigest(), "state": state, "observed": at}}})
	}
	slices.SortFunc(r.world.Steps[len(r.world.Steps)-3:], func(a, b *policytest.Step) int {
		return strings.Compare(a.Result.Facts["observed"], b.Result.Facts["observed"])
	})
	out := r.release(t)
	if out.Verdict != schemas.Passed || out.Facts["already"] != "true" || out.Facts["allocated"] != "2026-03-01T08:00:00Z/2026-03-01T09:00:00Z" {
		t.Errorf("%s: %s: facts %v", out.Verdict, out.Failure, out.Facts)
	}
}

func TestObservingIsNoRelease(t *testing.T) {
	r := rentedWorld(t)
	r.run.With = json.RawMessage(`{"vm":"vm.yaml"}`)
	out, err := stages.Observe{Connect: r.connect()}.Run(t.Context(), r.run)
	if err != nil || out.Verdict != schemas.Passed || out.Facts["state"] != "PowerState/running" || r.server.Deallocations() != 0 {
		t.Fatalf("%v: %+v", err, out)
	}
	if _, err := time.Parse(time.RFC3339, out.Facts["observed"]); err != nil {
		t.Error(err)
	}
	// Its claim, even of a deallocated machine, is never taken for a release.
	w := policytest.New(t, fixtures.Policy)
	w.Policy.Signers["release"] = schemas.SignerRule{Functionaries: []string{policytest.Producer}, Threshold: 1}
	w.Add(t, "", &policytest.Step{Name: "rented", Uses: "observe", By: []string{policytest.Producer},
		Result: schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Passed, Facts: map[string]string{"compute": "azure", "state": "PowerState/deallocated"}}})
	if run, err := policy.Release(w.Policy, w.Sign(t).Evidence); err != nil || run != nil {
		t.Errorf("%v: taken for a release: %v", err, run)
	}
	r.server.VM.VMID = "00000000-1111-4111-8111-abcdefabcdef"
	if out, err = (stages.Observe{Connect: r.connect()}).Run(t.Context(), r.run); err != nil || out.Verdict != schemas.Failed || !strings.Contains(out.Failure, "another machine answers") {
		t.Errorf("another machine: %v: %+v", err, out)
	}
}

// evidenceOf hands in what the log vouches for.
func evidenceOf(ev policy.Evidence) func(_ context.Context, _ []attest.Claim) (policy.Evidence, error) {
	return func(context.Context, []attest.Claim) (policy.Evidence, error) { return ev, nil }
}

// rentedDigest is the public name of the rented machine.
func rentedDigest() string {
	m := schemas.Compute{Subscription: rentedVM.Subscription, ResourceGroup: rentedVM.ResourceGroup, Name: rentedVM.Name}
	return godigest.FromString(strings.ToLower(azure.ResourceID(m) + "\n" + rentedVM.VMID)).String()
}

// objects keeps evidence in memory.
type objects struct{ body map[godigest.Digest][]byte }

func (o *objects) Put(_ context.Context, _ string, _ bool, r io.Reader) (godigest.Digest, int64, error) {
	body, err := io.ReadAll(r)
	if err != nil {
		return "", 0, err
	}
	if o.body == nil {
		o.body = map[godigest.Digest][]byte{}
	}
	d := godigest.FromBytes(body)
	o.body[d] = body
	return d, int64(len(body)), nil
}

func (o *objects) Get(_ context.Context, d godigest.Digest) ([]byte, error) {
	body, ok := o.body[d]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return body, nil
}
