package stages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/schemas"
)

// ElsewhereError says that a stage of another machine is not proven here. It is
// never run instead.
type ElsewhereError struct{ Stage, Uses, Machine, Why string }

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("stage %s (%s) belongs to machine %s and is not run here: %s; run it there (weighmaster run --machine %s), export the evidence and import it here",
		e.Stage, e.Uses, e.Machine, e.Why, e.Machine)
}

// waitsElsewhere tells whether a stage waits for another machine: what does not
// rest on it goes on here.
func waitsElsewhere(err error) bool {
	var elsewhere *ElsewhereError
	return errors.As(err, &elsewhere)
}

// RemoteTaker is a stage that can go on from evidence alone: its input may be on another machine.
type RemoteTaker interface{ TakesRemote() }

func (r *Runner) isElsewhere(decl schemas.StageDecl) bool {
	return decl.Machine != "" && decl.Machine != r.Machine
}

// takesRemote refuses to give a stage an input whose bytes are not here, if it needs them.
func takesRemote(stage Stage, decl schemas.StageDecl, inputs map[string]Artifact) error {
	if _, ok := stage.(RemoteTaker); ok {
		return nil
	}
	for _, role := range sortedKeys(inputs) {
		if inputs[role].Remote {
			return fmt.Errorf("stage %s: input %s: the bytes of %s (%s) are on another machine; deliver them here first (uses: deliver, with: {from: ssh://…})",
				decl.Name, role, decl.Inputs[role], inputs[role].Digest)
		}
	}
	return nil
}

// proven finds the claim that proves a stage of another machine: the newest for
// the same declaration, by the declared signer, not withdrawn, passed, on the
// same inputs. What else went in there (tools, corpora) is that machine's. The
// output is what the claim says; its bytes need not be here.
func (r *Runner) proven(ctx context.Context, run *Run, external schemas.ExternalParameters, decl schemas.StageDecl) (*Artifact, error) {
	no := func(format string, args ...any) error {
		return &ElsewhereError{decl.Name, decl.Uses, decl.Machine, fmt.Sprintf(format, args...)}
	}
	want, err := canonical(external)
	if err != nil {
		return nil, err
	}
	c, p := declared(run.Claims, external.Uses, want)
	if p == nil {
		return nil, no("the ledger has no run of it as pipeline.yaml declares it")
	}
	if reason, gone := withdrawnClaims(run.Claims)[c.PAE()]; gone {
		return nil, no("its newest run (claim %s) was withdrawn: %s", c.PAE(), reason)
	}
	if c.Functionary() != signerName(decl) {
		return nil, no("its newest run (claim %s) is signed by %s, want %s", c.PAE(), c.Functionary(), signerName(decl))
	}
	if why := otherInputs(p, run.Inputs); why != "" {
		return nil, no("its newest run (claim %s) took other inputs: %s", c.PAE(), why)
	}
	if !r.passed(ctx, p) {
		return nil, no("its newest run (claim %s) did not pass, or its result and reports are not in this evidence store", c.PAE())
	}
	if out, here := r.outputOf(ctx, c, p, run); here {
		return out, nil
	}
	return r.remoteArtifact(ctx, c, p), nil
}

// declared finds the newest provenance of a declaration, in canonical JSON.
func declared(claims []attest.Claim, uses string, want []byte) (attest.Claim, *provenance.Provenance) {
	for i := len(claims) - 1; i >= 0; i-- {
		c := claims[i]
		if c.PredicateType() != attest.ProvenanceType {
			continue
		}
		var p provenance.Provenance
		if protojson.Unmarshal(c.Predicate(), &p) != nil || p.GetBuildDefinition().GetBuildType() != schemas.BuildType(uses) {
			continue
		}
		body, err := protojson.Marshal(p.GetBuildDefinition().GetExternalParameters())
		if err != nil {
			continue
		}
		if got, err := jsoncanonicalizer.Transform(body); err == nil && bytes.Equal(got, want) {
			return c, &p
		}
	}
	return attest.Claim{}, nil
}

// otherInputs names the first input artifact that is another one than here.
func otherInputs(p *provenance.Provenance, inputs map[string]Artifact) string {
	seen := map[string]bool{}
	for _, d := range p.GetBuildDefinition().GetResolvedDependencies() {
		role, isInput := strings.CutPrefix(d.GetName(), "input/")
		if !isInput || strings.Contains(role, "/") {
			continue
		}
		a, ok := inputs[role]
		if !ok || seen[role] {
			return fmt.Sprintf("an input %s that is not declared", role)
		}
		seen[role] = true
		if got := d.GetDigest()["sha256"]; got != a.Digest.Encoded() {
			return fmt.Sprintf("input %s: got sha256:%s, want %s", role, got, a.Digest)
		}
	}
	for _, role := range sortedKeys(inputs) {
		if !seen[role] {
			return fmt.Sprintf("no input %s", role)
		}
	}
	return ""
}

// remoteArtifact is a claim's output as its Statement has it.
func (r *Runner) remoteArtifact(ctx context.Context, c attest.Claim, p *provenance.Provenance) *Artifact {
	list := c.Statement().GetSubject()
	name, folder := strings.CutSuffix(list[0].GetName(), "/")
	a := &Artifact{Name: name, Digest: subjectDigest(list[0]), Multi: folder, Remote: true}
	if !folder {
		a.Files = []File{{Name: name, Sums: claimedSums(list[0])}}
		if n, err := strconv.ParseInt(r.factsOf(ctx, p)[schemas.FactSize], 10, 64); err == nil && n >= 0 {
			a.Files[0].Sums.Size = n
		}
		return a
	}
	for _, s := range list[1:] {
		if file, inside := strings.CutPrefix(s.GetName(), name+"/"); inside {
			a.Files = append(a.Files, File{Name: file, Sums: claimedSums(s)})
		}
	}
	return a
}

func claimedSums(s *attest.ResourceDescriptor) digest.Sums {
	return digest.Sums{SHA256: subjectDigest(s), GitBlob: s.GetDigest()["gitBlob"]}
}

func subjectDigest(s *attest.ResourceDescriptor) godigest.Digest {
	return godigest.NewDigestFromEncoded(godigest.SHA256, s.GetDigest()["sha256"])
}

// factsOf are the facts of a run's result; none if it cannot be read.
func (r *Runner) factsOf(ctx context.Context, p *provenance.Provenance) map[string]string {
	var res schemas.Result
	for _, b := range p.GetRunDetails().GetByproducts() {
		if b.GetName() != "result" {
			continue
		}
		body, err := r.Objects.Get(ctx, subjectDigest(b))
		if err != nil || schemas.DecodeJSON(schemas.ResultURI, body, &res) != nil {
			return nil
		}
	}
	return res.Facts
}
