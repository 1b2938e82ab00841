package attest

import (
	"context"
	"time"

	spb "github.com/in-toto/attestation/go/v1"

	"github.com/weighmaster/weighmaster/attest/internal/claim"
)

// Statement is the in-toto Statement v1.
type Statement = spb.Statement

// ResourceDescriptor is the in-toto ResourceDescriptor v1.
type ResourceDescriptor = spb.ResourceDescriptor

// Claim is a Statement whose envelope verified and whose functionary is named
// by the trust file. It can be made only below this package.
type Claim = claim.Claim

// Signer signs one Statement and returns a Sigstore bundle v0.3 in JSON that
// holds a DSSE envelope with exactly one signature.
type Signer interface {
	Sign(ctx context.Context, s *Statement) (bundle []byte, err error)
}

// Verifier turns a bundle into a Claim. at is the moment at which keys must be
// valid when the bundle has no vouched time. Errors are *VerificationError.
type Verifier interface {
	Verify(ctx context.Context, bundle []byte, at time.Time) (Claim, error)
}
