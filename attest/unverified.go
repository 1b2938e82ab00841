package attest

import (
	"encoding/json"
	"fmt"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	godigest "github.com/opencontainers/go-digest"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
)

// UnverifiedEnvelope is the DSSE envelope of a bundle before anybody looked at
// its signature.
type UnverifiedEnvelope struct {
	Bundle  *protobundle.Bundle // as parsed
	Payload []byte              // the bytes that the signature is over, inside the PAE
	PAE     godigest.Digest     // sha256 of the envelope's PAE
}

// OpenUnverified reads a Sigstore bundle in JSON and holds it to what every
// bundle of ours must be: strict JSON, one DSSE envelope of [PayloadType] with
// exactly one signature. The signature is not checked.
func OpenUnverified(bundle []byte) (UnverifiedEnvelope, error) {
	var none UnverifiedEnvelope
	if len(bundle) > MaxBundleBytes {
		return none, refuse(CheckSize, "", fmt.Sprintf("a bundle of %d bytes", len(bundle)), fmt.Sprintf("at most %d", MaxBundleBytes))
	}
	b := &protobundle.Bundle{}
	err := CheckJSON(bundle)
	if err == nil {
		err = decodeProto(bundle, b)
	}
	if err != nil {
		return none, &VerificationError{Check: CheckBundle, Got: "other bytes", Want: "a Sigstore bundle in JSON", Err: err}
	}
	env := b.GetDsseEnvelope()
	if env == nil {
		return none, refuse(CheckEnvelope, "/dsseEnvelope", "none", "a DSSE envelope; a bare message signature says nothing about the artifact")
	}
	if env.GetPayloadType() != PayloadType {
		return none, refuse(CheckPayloadType, "/dsseEnvelope/payloadType", fmt.Sprintf("%.100q", env.GetPayloadType()), fmt.Sprintf("%q", PayloadType))
	}
	switch n := len(env.GetSignatures()); {
	case n == 0:
		return none, refuse(CheckSignatures, "/dsseEnvelope/signatures", "no signature", "exactly one")
	case n > 1:
		return none, refuse(CheckSignatures, "/dsseEnvelope/signatures", fmt.Sprintf("%d signatures", n), "exactly one; each functionary signs a bundle of their own")
	}
	pae := godigest.FromBytes(dsse.PAE(env.GetPayloadType(), env.GetPayload()))
	return UnverifiedEnvelope{Bundle: b, Payload: env.GetPayload(), PAE: pae}, nil
}

// Unverified is what a bundle says. Nobody vouches for it.
type Unverified struct {
	PAE       godigest.Digest
	Statement *Statement
	Predicate json.RawMessage // the predicate's JSON as it stands there
}

// Inspect reads a bundle without verifying it. The Statement is strict all the same.
func Inspect(bundle []byte) (Unverified, error) {
	env, err := OpenUnverified(bundle)
	if err != nil {
		return Unverified{}, err
	}
	s, predicate, err := DecodeStatement(env.Payload)
	if err != nil {
		return Unverified{}, err
	}
	return Unverified{PAE: env.PAE, Statement: s, Predicate: predicate}, nil
}

// NamedDigest is one artifact as a Statement names it.
type NamedDigest struct {
	Name   string
	Digest godigest.Digest // sha256
}

// UnverifiedIndex reads what an index of bundles needs, without verifying:
// the sha256 of the PAE, the predicate type, the subjects, and the resolved
// dependencies of a SLSA provenance, in the Statement's order. An artifact
// without a sha256 is left out: nothing can be found by it.
func UnverifiedIndex(bundle []byte) (pae godigest.Digest, predicateType string, subjects, dependencies []NamedDigest, err error) {
	u, err := Inspect(bundle)
	if err != nil {
		return "", "", nil, nil, err
	}
	if u.Statement.GetPredicateType() == ProvenanceType {
		p := &provenance.Provenance{}
		if err := decodeProto(u.Predicate, p); err != nil {
			return "", "", nil, nil, err
		}
		dependencies = named(p.GetBuildDefinition().GetResolvedDependencies())
	}
	return u.PAE, u.Statement.GetPredicateType(), named(u.Statement.GetSubject()), dependencies, nil
}

func named(list []*ResourceDescriptor) []NamedDigest {
	var out []NamedDigest
	for _, d := range list {
		if hex, ok := d.GetDigest()["sha256"]; ok {
			out = append(out, NamedDigest{Name: d.GetName(), Digest: godigest.NewDigestFromEncoded(godigest.SHA256, hex)})
		}
	}
	return out
}
