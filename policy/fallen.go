package policy

import (
	"fmt"
	"slices"
	"strings"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Fallen is a decision or a completion that rests on a claim that was taken
// back, itself or by another decision. It is not withdrawn and counts no more.
type Fallen struct {
	Claim     godigest.Digest   // PAE digest of the decision
	What      string            // the decision's policy URI, or "completion"
	Artifacts []NamedDigest     // what it is about
	Through   []godigest.Digest // PAE digests from what it names up to the claim that was taken back
	Reason    string            // why that was taken back
	Successor godigest.Digest   // of the artifact of that claim; may be empty
}

// String tells what it rests on.
func (f Fallen) String() string {
	var b strings.Builder
	for i, pae := range f.Through {
		if i == 0 {
			fmt.Fprintf(&b, "it rests on claim %s", pae)
		} else {
			fmt.Fprintf(&b, ", which rests on claim %s", pae)
		}
	}
	fmt.Fprintf(&b, ", withdrawn: %s", f.Reason)
	if f.Successor != "" {
		fmt.Fprintf(&b, "; successor %s", f.Successor)
	}
	return b.String()
}

// findFallen goes through the decisions until no more of them fall.
func (in *inquiry) findFallen() {
	in.fallen = map[godigest.Digest]Fallen{}
	if len(in.taken) == 0 {
		return
	}
	byBundle := map[godigest.Digest]godigest.Digest{}
	for _, c := range in.ev.Claims {
		byBundle[c.Bundle()] = c.PAE()
	}
	type decision struct {
		claim attest.Claim
		rests []godigest.Digest
		what  string
	}
	var standing []decision
	for _, c := range in.claims {
		if rests, what := restsOn(c, byBundle); len(rests) > 0 {
			standing = append(standing, decision{c, rests, what})
		}
	}
	for fell := true; fell; {
		fell = false
		standing = slices.DeleteFunc(standing, func(d decision) bool {
			for _, pae := range d.rests {
				f := Fallen{Claim: d.claim.PAE(), What: d.what}
				if t, gone := in.taken[pae]; gone {
					f.Through, f.Reason, f.Successor = []godigest.Digest{pae}, t.Reason, t.Successor
				} else if other, ok := in.fallen[pae]; ok && pae != f.Claim {
					f.Through, f.Reason, f.Successor = append([]godigest.Digest{pae}, other.Through...), other.Reason, other.Successor
				} else {
					continue
				}
				for _, s := range d.claim.Statement().GetSubject() {
					f.Artifacts = append(f.Artifacts, NamedDigest{s.GetName(), sha256Of(s)})
				}
				in.fallen[f.Claim] = f
				fell = true
				return true
			}
			return false
		})
	}
	for _, f := range in.fallenList() {
		in.notes = append(in.notes, Reason{Rule: "withdrawn", What: "decision " + f.What, Verdict: schemas.Passed, Got: f.String(), Want: "no longer counts", Claim: f.Claim})
	}
}

// restsOn gives the PAE digests of the claims that a decision or a completion
// names, as far as they are here, and what it is.
func restsOn(c attest.Claim, byBundle map[godigest.Digest]godigest.Digest) ([]godigest.Digest, string) {
	switch c.PredicateType() {
	case attest.VSAType:
		var s vsa.VerificationSummary
		if protojson.Unmarshal(c.Predicate(), &s) != nil {
			return nil, ""
		}
		var list []godigest.Digest
		for _, a := range s.GetInputAttestations() {
			if pae, ok := byBundle[godigest.NewDigestFromEncoded(godigest.SHA256, a.GetDigest()["sha256"])]; ok {
				list = append(list, pae)
			}
		}
		return list, s.GetPolicy().GetUri()
	case attest.CompletionType:
		var done schemas.Completion
		if schemas.DecodeJSON(schemas.CompletionURI, c.Predicate(), &done) != nil {
			return nil, ""
		}
		return done.Finished, "completion"
	}
	return nil, ""
}

// fallenList gives the fallen decisions in log order.
func (in *inquiry) fallenList() []Fallen {
	var list []Fallen
	seen := map[godigest.Digest]bool{}
	for _, c := range in.claims {
		if f, ok := in.fallen[c.PAE()]; ok && !seen[f.Claim] {
			seen[f.Claim] = true
			list = append(list, f)
		}
	}
	return list
}
