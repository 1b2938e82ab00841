package stages

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Resolver is a stage that knows before it runs what else goes into it. Only
// such stages, and those with nothing but their input artifacts, are resumed.
type Resolver interface {
	Resolve(ctx context.Context, run *Run) ([]Dependency, error)
}

// Unrepeatable is a stage whose evidence is about here and now, and that
// therefore always runs again (reload, accept, complete).
type Unrepeatable interface{ Unrepeatable() }

// resume looks for a claim that proves the stage complete: the same stage as
// declared, on the same inputs, passed, by the declared signer, not withdrawn,
// its evidence there and its outputs still hashing so. The newest claim for the
// declaration decides.
func (r *Runner) resume(ctx context.Context, stage Stage, run *Run, external schemas.ExternalParameters, signer string) (*Artifact, bool) {
	if _, always := stage.(Unrepeatable); always {
		return nil, false
	}
	want, err := canonical(external)
	if err != nil {
		return nil, false
	}
	wantDeps, ok := expectedDependencies(ctx, stage, run)
	if !ok {
		return nil, false
	}
	c, p := declared(run.Claims, external.Uses, want)
	if p == nil {
		return nil, false
	}
	if _, gone := withdrawnClaims(run.Claims)[c.PAE()]; gone || c.Functionary() != signer || !sameDependencies(p, wantDeps) || !r.passed(ctx, p) {
		return nil, false
	}
	return r.outputOf(ctx, c, p, run)
}

func expectedDependencies(ctx context.Context, stage Stage, run *Run) (map[string]godigest.Digest, bool) {
	want := map[string]godigest.Digest{}
	for role, a := range run.Inputs {
		want["input/"+role] = a.Digest
	}
	if s, ok := stage.(Resolver); ok {
		deps, err := s.Resolve(ctx, run)
		if err != nil {
			return nil, false
		}
		for _, d := range deps {
			want[d.Name] = d.Digest
		}
	}
	return want, true
}

// sameDependencies compares what went in, apart from the weighmaster binary
// itself and the single files of an input that its manifest already binds.
func sameDependencies(p *provenance.Provenance, want map[string]godigest.Digest) bool {
	count := 0
	for _, d := range p.GetBuildDefinition().GetResolvedDependencies() {
		role, isInput := strings.CutPrefix(d.GetName(), "input/")
		if d.GetName() == "tool/weighmaster" || (isInput && strings.Contains(role, "/")) || strings.HasPrefix(d.GetName(), "source/") {
			continue
		}
		count++
		digest, ok := want[d.GetName()]
		if !ok || digest.Encoded() != d.GetDigest()["sha256"] {
			return false
		}
	}
	return count == len(want)
}

// passed tells whether a run's result says so, with its result and every report in the store.
func (r *Runner) passed(ctx context.Context, p *provenance.Provenance) bool {
	var res schemas.Result
	for _, b := range p.GetRunDetails().GetByproducts() {
		if b.GetName() != "result" && !strings.HasPrefix(b.GetName(), "report/") {
			continue
		}
		body, err := r.Objects.Get(ctx, godigest.NewDigestFromEncoded(godigest.SHA256, b.GetDigest()["sha256"]))
		if err != nil || (b.GetName() == "result" && schemas.DecodeJSON(schemas.ResultURI, body, &res) != nil) {
			return false
		}
	}
	return res.Verdict == schemas.Passed && res.ExitStatus == 0
}

// outputOf finds the claimed output in the stage's folder and hashes it. An
// examination has no output of its own: it is about its byproducts, which are in the store.
func (r *Runner) outputOf(ctx context.Context, c attest.Claim, p *provenance.Provenance, run *Run) (*Artifact, bool) {
	first := c.Statement().GetSubject()[0]
	want := first.GetDigest()["sha256"]
	for _, b := range p.GetRunDetails().GetByproducts() {
		if b.GetName() == first.GetName() && b.GetDigest()["sha256"] == want {
			return nil, true
		}
	}
	delivered, left := deliveryOutput(p, run)
	if left {
		return r.remoteArtifact(ctx, c, p), true
	}
	if name, folder := strings.CutSuffix(first.GetName(), "/"); folder {
		a, err := FolderArtifact(ctx, name, filepath.Join(run.Dir, name))
		return &a, err == nil && a.Digest.Encoded() == want
	}
	for _, dir := range []string{run.Dir, delivered} {
		if dir == "" {
			continue
		}
		f, err := readFile(ctx, first.GetName(), filepath.Join(dir, filepath.FromSlash(first.GetName())))
		if err == nil && f.Sums.SHA256.Encoded() == want {
			a := FileArtifact(f)
			return &a, true
		}
	}
	return nil, false
}

func canonical(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jsoncanonicalizer.Transform(body)
}
