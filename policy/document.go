package policy

import (
	"encoding/json"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Document gives what [Decide] would look at as one document in RFC 8785 JSON,
// [schemas.PolicyEvidence], for those who decide with an engine of their own. It
// judges nothing but what was withdrawn.
func Document(p schemas.Policy, ev Evidence, q Question) ([]byte, error) {
	ev, err := ev.ordered()
	if err != nil {
		return nil, err
	}
	in := &inquiry{policy: p, class: p.Classes[q.Class], ev: ev, q: q}
	in.dropWithdrawn()
	doc := schemas.PolicyEvidence{
		Schema: schemas.EvidenceURI, Policy: p,
		Question: schemas.PolicyQuestion{Decision: q.Decision, Class: q.Class, Artifact: q.Artifact, Policy: q.Policy, At: q.At.UTC()},
		Log:      schemas.PolicyLog{Size: ev.Size, Whole: ev.whole()},
		Claims:   []schemas.PolicyClaim{}, Summaries: []schemas.PolicySummary{}, Completions: []schemas.PolicyCompletion{},
		Reviews: []schemas.PolicyReview{}, Attributes: []schemas.PolicyAttributes{}, Withdrawals: []schemas.PolicyWithdrawal{}, Witnesses: []schemas.PolicyCosignature{}, Unreadable: []schemas.PolicyUnreadable{},
	}
	for _, c := range ev.Claims {
		doc.Claims = append(doc.Claims, in.documentClaim(c))
		if err := in.documentPredicate(&doc, c); err != nil {
			doc.Unreadable = append(doc.Unreadable, schemas.PolicyUnreadable{Bundle: c.Bundle(), Why: err.Error()})
		}
	}
	doc.Runs = in.documentRuns(&doc)
	for _, w := range ev.Witnesses {
		doc.Witnesses = append(doc.Witnesses, schemas.PolicyCosignature{Name: w.Name, Time: w.Time.UTC()})
	}
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	if body, err = jsoncanonicalizer.Transform(body); err != nil {
		return nil, err
	}
	return body, schemas.Validate(schemas.EvidenceURI, body)
}

func (in *inquiry) documentClaim(c attest.Claim) schemas.PolicyClaim {
	d := schemas.PolicyClaim{
		Bundle: c.Bundle(), PAE: c.PAE(), Functionary: c.Functionary(), Key: c.Key(), PredicateType: c.PredicateType(),
		Subjects: []schemas.PolicyArtifact{}, SignedAt: moment(c.SignedAt()), Withdrawn: in.dropped[c.PAE()],
	}
	for _, s := range c.Statement().GetSubject() {
		d.Subjects = append(d.Subjects, schemas.PolicyArtifact{Name: s.GetName(), Digest: sha256Of(s)})
	}
	if p, ok := in.ev.Places[c.Bundle()]; ok {
		d.Index, d.Appended = &p.Index, moment(p.Appended)
	}
	return d
}

func (in *inquiry) documentPredicate(doc *schemas.PolicyEvidence, c attest.Claim) error {
	_, fell := in.fallen[c.PAE()]
	switch c.PredicateType() {
	case attest.VSAType:
		var s vsa.VerificationSummary
		if err := protojson.Unmarshal(c.Predicate(), &s); err != nil {
			return err
		}
		d := schemas.PolicySummary{
			Bundle: c.Bundle(), URI: s.GetPolicy().GetUri(), Policy: sha256In(s.GetPolicy().GetDigest()), Result: s.GetVerificationResult(),
			Levels: append([]string{}, s.GetVerifiedLevels()...), RestsOn: []godigest.Digest{}, Verified: moment(summaryTime(c)), Fallen: fell,
		}
		for _, a := range s.GetInputAttestations() {
			d.RestsOn = append(d.RestsOn, sha256In(a.GetDigest()))
		}
		doc.Summaries = append(doc.Summaries, d)
	case attest.CompletionType:
		var done schemas.Completion
		if err := json.Unmarshal(c.Predicate(), &done); err != nil {
			return err
		}
		d := schemas.PolicyCompletion{Bundle: c.Bundle(), Policy: done.Policy, Finished: append([]godigest.Digest{}, done.Finished...), Delivered: []schemas.PolicyArtifact{}, Compute: done.Compute, Fallen: fell}
		for _, f := range done.Delivered {
			d.Delivered = append(d.Delivered, schemas.PolicyArtifact{Name: f.Name, Digest: f.Digest})
		}
		differing, err := in.recordDiffers(done)
		d.Recorded = done.Record != nil && err == nil && len(differing) == 0
		doc.Completions = append(doc.Completions, d)
	case attest.SCAIType:
		list, err := asserted(c)
		if err != nil {
			return err
		}
		doc.Attributes = append(doc.Attributes, schemas.PolicyAttributes{Bundle: c.Bundle(), Asserted: list})
	case schemas.ReviewURI:
		r, err := Review(c)
		if err != nil {
			return err
		}
		r.Reviewed = r.Reviewed.UTC()
		doc.Reviews = append(doc.Reviews, schemas.PolicyReview{Bundle: c.Bundle(), Review: r})
	case attest.WithdrawalType:
		w, err := Withdrawal(c)
		if err != nil {
			return err
		}
		counted, counts := in.withdrawn[w.Claim]
		doc.Withdrawals = append(doc.Withdrawals, schemas.PolicyWithdrawal{Bundle: c.Bundle(), Claim: w.Claim, Reason: w.Reason, Successor: w.Successor, Counts: counts && counted == w})
	}
	return nil
}

func (in *inquiry) documentRuns(doc *schemas.PolicyEvidence) []schemas.PolicyRun {
	list := []schemas.PolicyRun{}
	runs, faults := Runs(in.ev.Claims)
	for _, c := range in.ev.Claims {
		if err := faults[c.PAE()]; err != nil {
			doc.Unreadable = append(doc.Unreadable, schemas.PolicyUnreadable{Bundle: c.Bundle(), Why: err.Error()})
		}
	}
	for _, run := range runs {
		d := schemas.PolicyRun{
			PAE: run.PAE(), Withdrawn: in.dropped[run.PAE()], Stage: run.External.Stage, Uses: run.Uses, Publisher: run.External.Publisher, Finished: moment(run.Finished),
			Claims: []godigest.Digest{}, Subjects: artifacts(run.Subjects), Inputs: artifacts(run.Inputs), Needs: []schemas.PolicyNeed{}, Missing: []string{},
		}
		for _, n := range run.Needs {
			d.Needs = append(d.Needs, schemas.PolicyNeed(n))
		}
		for _, c := range run.Claims {
			d.Claims = append(d.Claims, c.Bundle())
		}
		if res, err := run.Result(in.ev.Objects); err != nil {
			d.Missing = append(d.Missing, err.Error())
		} else {
			d.Result = &res
		}
		reports, err := run.Reports(in.ev.Objects)
		if err != nil {
			d.Missing = append(d.Missing, err.Error())
		}
		d.Reports = append([]schemas.Report{}, reports...)
		if run.listing != nil {
			if l, err := run.Listing(in.ev.Objects); err != nil {
				d.Missing = append(d.Missing, err.Error())
			} else {
				d.Listing = &l
			}
		}
		list = append(list, d)
	}
	return list
}

func artifacts(list []NamedDigest) []schemas.PolicyArtifact {
	out := []schemas.PolicyArtifact{}
	for _, n := range list {
		out = append(out, schemas.PolicyArtifact{Name: n.Name, Digest: n.Digest})
	}
	return out
}

func sha256In(set map[string]string) godigest.Digest {
	if hex := set["sha256"]; hex != "" {
		return godigest.NewDigestFromEncoded(godigest.SHA256, hex)
	}
	return ""
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
