package attest

import "fmt"

// Check names what a bundle was refused for. A refused bundle is never half
// believed: no part of it may be used.
type Check string

// The checks, in the order in which a verifier makes them.
const (
	CheckSize        Check = "size"        // a limit of limits.go
	CheckBundle      Check = "bundle"      // the bundle is no Sigstore bundle
	CheckEnvelope    Check = "envelope"    // the bundle holds no DSSE envelope
	CheckPayloadType Check = "payloadType" // the envelope's payload type
	CheckSignatures  Check = "signatures"  // the number of signatures
	CheckFunctionary Check = "functionary" // the signer is nobody whom the trust file names
	CheckLogEntry    Check = "logEntry"    // a transparency log's entry: its proofs, and that it is about this signature
	CheckTimestamp   Check = "timestamp"   // an RFC 3161 timestamp, or no time that anybody vouches for
	CheckCertificate Check = "certificate" // the certificate's path, its period at the vouched times, its own log's timestamp
	CheckSignature   Check = "signature"   // the signature over the envelope
	CheckValidity    Check = "validity"    // the functionary's period of validity
	CheckStatement   Check = "statement"   // the signed bytes are no strict JSON Statement
	CheckType        Check = "_type"
	CheckPredicate   Check = "predicate" // predicateType or predicate
	CheckSubject     Check = "subject"
	CheckDigest      Check = "digest"
)

// VerificationError says why a bundle or Statement was refused.
type VerificationError struct {
	Check Check
	Where string // the place in the document, as a JSON pointer, or empty
	Got   string
	Want  string
	Hint  string // what to do next, or empty
	Err   error  // the cause in a library, or nil
}

func (e *VerificationError) Error() string {
	s := string(e.Check)
	if e.Where != "" {
		s += " at " + e.Where
	}
	s = fmt.Sprintf("%s: got %s, want %s", s, e.Got, e.Want)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Unwrap returns the cause in a library, or nil.
func (e *VerificationError) Unwrap() error { return e.Err }

func refuse(check Check, where, got, want string) error {
	return &VerificationError{Check: check, Where: where, Got: got, Want: want}
}
