package policytest

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// Step is one Statement before it is signed: a stage run, unless State is set.
type Step struct {
	Name    string
	Uses    string
	By      []string // who signs; each signs a bundle of their own
	With    map[string]any
	Pin     *schemas.Publisher
	Inputs  []policy.NamedDigest
	Outputs []policy.NamedDigest // none: the run is about its evidence
	Reports []*schemas.Report
	Result  schemas.Result
	Listing *schemas.Listing // of an acquire run; optional
	At      time.Time        // when the run or the decision ended, in place of Now

	// State makes the Statement of anything but a stage run.
	State func(t testing.TB, w *World, s *Signed) *attest.Statement
	// Change alters the provenance before it is signed; optional.
	Change func(*provenance.Provenance, *attest.Statement)
}

func (s *Step) statement(t testing.TB, w *World, signed *Signed) *attest.Statement {
	t.Helper()
	if s.State != nil {
		return s.State(t, w, signed)
	}
	p := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{BuildType: schemas.BuildType(s.Uses), ExternalParameters: s.external(t)},
		RunDetails: &provenance.RunDetails{
			Builder:  &provenance.Builder{Id: schemas.BaseURI + "builder/local"},
			Metadata: &provenance.BuildMetadata{FinishedOn: timestamppb.New(s.moment())},
		},
	}
	for _, in := range s.Inputs {
		p.BuildDefinition.ResolvedDependencies = append(p.BuildDefinition.ResolvedDependencies, Descriptor("input/"+in.Name, in.Digest))
	}
	for _, rep := range s.Reports {
		p.RunDetails.Byproducts = append(p.RunDetails.Byproducts, Descriptor("report/"+rep.Kernel, signed.put(t, rep)))
	}
	if s.Listing != nil {
		p.RunDetails.Byproducts = append(p.RunDetails.Byproducts, Descriptor("listing/publisher", signed.put(t, s.Listing)))
	}
	s.Result.Stage, s.Result.Uses = s.Name, s.Uses
	p.RunDetails.Byproducts = append(p.RunDetails.Byproducts, Descriptor("result", signed.put(t, s.Result)))
	var subjects []*attest.ResourceDescriptor
	for _, out := range s.Outputs {
		subjects = append(subjects, Descriptor(out.Name, out.Digest))
	}
	if len(subjects) == 0 {
		subjects = p.RunDetails.Byproducts
	}
	st := &attest.Statement{Subject: subjects}
	if s.Change != nil {
		s.Change(p, st)
	}
	return statement(t, st.GetSubject(), attest.ProvenanceType, p)
}

func (s *Step) moment() time.Time {
	if s.At.IsZero() {
		return Now
	}
	return s.At
}

func (s *Step) external(t testing.TB) *structpb.Struct {
	t.Helper()
	with := s.With
	if with == nil {
		with = map[string]any{}
	}
	inputs := map[string]any{}
	for _, in := range s.Inputs {
		inputs[in.Name] = "earlier"
	}
	fields := map[string]any{"stage": s.Name, "uses": s.Uses, "inputs": inputs, "with": with}
	if s.Pin != nil {
		fields["publisher"] = s.Pin
	}
	return toStruct(t, fields)
}

// put stores a document as an evidence object in RFC 8785 JSON.
func (s *Signed) put(t testing.TB, doc any) godigest.Digest {
	t.Helper()
	body, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if body, err = jsoncanonicalizer.Transform(body); err != nil {
		t.Fatal(err)
	}
	d := godigest.FromBytes(body)
	s.Objects[d] = body
	return d
}

// Summary is a step that states an acceptance decision over the artifact,
// resting on every claim before it. change may alter it.
func Summary(name, result string, change func(*vsa.VerificationSummary)) *Step {
	step := &Step{Name: name, By: []string{Gatekeeper}}
	step.State = func(t testing.TB, w *World, s *Signed) *attest.Statement {
		p := &vsa.VerificationSummary{
			Verifier:           &vsa.VerificationSummary_Verifier{Id: schemas.BaseURI + "verifier"},
			ResourceUri:        schemas.BaseURI + "artifact/" + Artifact.Digest.String(),
			VerificationResult: result,
			TimeVerified:       timestamppb.New(step.moment()),
			Policy: &vsa.VerificationSummary_Policy{
				Uri:    policy.DecisionURI(w.Policy.Name, policy.Accept, Class),
				Digest: map[string]string{"sha256": w.PolicyDigest().Encoded()},
			},
		}
		if result == "PASSED" {
			p.VerifiedLevels = []string{policy.LevelAccepted}
		}
		for _, c := range s.Claims {
			p.InputAttestations = append(p.InputAttestations, &vsa.VerificationSummary_InputAttestation{Digest: map[string]string{"sha256": c.Bundle().Encoded()}})
		}
		if change != nil {
			change(p)
		}
		return statement(t, []*attest.ResourceDescriptor{Descriptor(Artifact.Name, Artifact.Digest)}, attest.VSAType, p)
	}
	return step
}

// Review is a step in which a person reviews the artifact.
func Review(name, by string, verdict schemas.Verdict) *Step {
	step := &Step{Name: name, By: []string{by}}
	step.State = func(t testing.TB, w *World, s *Signed) *attest.Statement {
		r := schemas.Review{Verdict: verdict, Note: "read the report and ten answers", Reviewed: step.moment()}
		return statement(t, []*attest.ResourceDescriptor{Descriptor(Artifact.Name, Artifact.Digest)}, schemas.ReviewURI, toStruct(t, r))
	}
	return step
}

// Completion is a step that states the run finished under a policy digest; empty means the world's.
func Completion(name string, under godigest.Digest, by ...string) *Step {
	return &Step{Name: name, By: by, State: func(t testing.TB, w *World, s *Signed) *attest.Statement {
		done := schemas.Completion{
			Pipeline: godigest.FromString("pipeline"), Policy: w.PolicyDigest(), Finished: []godigest.Digest{s.Claims[0].PAE()},
			Delivered:  []schemas.DeliveredFile{{Name: Artifact.Name, Digest: Artifact.Digest, Size: int64(len(ArtifactBytes))}},
			Checkpoint: "a checkpoint", Compute: "none rented",
		}
		if under != "" {
			done.Policy = under
		}
		return statement(t, []*attest.ResourceDescriptor{Descriptor(Artifact.Name, Artifact.Digest)}, attest.CompletionType, toStruct(t, done))
	}}
}

// Recorded is a step that states the run finished, lists every claim before it
// and its release, and records what it was made of. change may alter it.
func Recorded(name string, change func(*schemas.Completion)) *Step {
	return &Step{Name: name, By: []string{Gatekeeper}, State: func(t testing.TB, w *World, s *Signed) *attest.Statement {
		done := schemas.Completion{
			Pipeline: godigest.FromString("pipeline"), Policy: w.PolicyDigest(), Finished: []godigest.Digest{},
			Delivered:  []schemas.DeliveredFile{{Name: Artifact.Name, Digest: Artifact.Digest, Size: int64(len(ArtifactBytes))}},
			Checkpoint: "a checkpoint", Compute: "none rented",
		}
		for _, c := range s.Claims {
			if !slices.Contains(done.Finished, c.PAE()) {
				done.Finished = append(done.Finished, c.PAE())
			}
		}
		run, err := policy.Release(w.Policy, s.Evidence)
		if err != nil {
			t.Fatal(err)
		}
		if run != nil {
			done.Compute = run.PAE().String()
		}
		record, err := policy.Record(w.Policy, s.Evidence, w.PolicyDigest(), done.Finished, done.Delivered)
		if err != nil {
			t.Fatal(err)
		}
		done.Record = &record
		if change != nil {
			change(&done)
		}
		return statement(t, []*attest.ResourceDescriptor{Descriptor(Artifact.Name, Artifact.Digest)}, attest.CompletionType, toStruct(t, done))
	}}
}

// Withdrawal is a step that takes an earlier step's claim back.
func Withdrawal(name, step, reason, by string) *Step {
	return Supersession(name, step, reason, by, "")
}

// Supersession takes an earlier step's claim back and names what to use instead.
func Supersession(name, step, reason, by string, successor godigest.Digest) *Step {
	return &Step{Name: name, By: []string{by}, State: func(t testing.TB, w *World, s *Signed) *attest.Statement {
		claim := s.Claim(t, step)
		return statement(t, claim.Statement().GetSubject(), attest.WithdrawalType, toStruct(t, schemas.Withdrawal{Claim: claim.PAE(), Reason: reason, Successor: successor}))
	}}
}

// Descriptor names an artifact by its sha256.
func Descriptor(name string, d godigest.Digest) *attest.ResourceDescriptor {
	return &attest.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": d.Encoded()}}
}
