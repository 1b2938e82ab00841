// Package attest holds what is signed and how it is trusted: in-toto
// Statements, DSSE envelopes in Sigstore bundles, and Claims: Statements whose
// envelope verified and whose signer the trust file names.
//
// Statement and predicate types are the protobuf types of
// github.com/in-toto/attestation; this package adds the strictness that they
// leave to the reader. The signing and verifying itself is attest/sigstore.
package attest

import (
	"fmt"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	spb "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// PayloadType is the DSSE payload type of every envelope that we write or accept.
	PayloadType = "application/vnd.in-toto+json"
	// StatementType is the _type of every Statement that we write or accept (in-toto Statement v1).
	StatementType = spb.StatementTypeUri
	// oldStatementType is the version before it, which cosign still writes; it is refused.
	oldStatementType = "https://in-toto.io/Statement/v0.1"

	ProvenanceType = "https://slsa.dev/provenance/v1"
	TestResultType = "https://in-toto.io/attestation/test-result/v0.1"
	VSAType        = "https://slsa.dev/verification_summary/v1"
	SCAIType       = "https://in-toto.io/attestation/scai/v0.3"
	WithdrawalType = "https://github.com/weighmaster/weighmaster/withdrawal/v1"
	CompletionType = "https://github.com/weighmaster/weighmaster/completion/v1"
)

// NewStatement builds a Statement over a predicate of one of the in-toto
// protobuf types, or a structpb.Struct for the predicates of our own.
func NewStatement(subjects []*spb.ResourceDescriptor, predicateType string, predicate proto.Message) (*spb.Statement, error) {
	body, err := protojson.Marshal(predicate)
	if err != nil {
		return nil, fmt.Errorf("predicate %s: %w", predicateType, err)
	}
	fields := &structpb.Struct{}
	if err := protojson.Unmarshal(body, fields); err != nil {
		return nil, fmt.Errorf("predicate %s is not a JSON object: %w", predicateType, err)
	}
	return &spb.Statement{Type: StatementType, Subject: subjects, PredicateType: predicateType, Predicate: fields}, nil
}

// Encode gives the bytes that are signed: the Statement in RFC 8785 JSON, so
// that one Statement has one digest whatever library wrote it.
func Encode(s *spb.Statement) ([]byte, error) {
	body, err := protojson.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("statement %s: %w", s.GetPredicateType(), err)
	}
	return jsoncanonicalizer.Transform(body)
}
