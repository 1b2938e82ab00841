// Package sigstore signs and verifies with sigstore-go: Statements in DSSE
// envelopes in Sigstore bundles v0.3, by local keys, or by certificate
// identities under a trusted root that is given. It never asks the network.
package sigstore

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
)

// Timestamper gives RFC 3161 timestamps over signatures: a TimeStampResp in
// DER. *sign.TimestampAuthority of sigstore-go is one.
type Timestamper interface {
	GetTimestamp(ctx context.Context, signature []byte) ([]byte, error)
}

// SignerOptions of a local key. The zero value asks nobody anything.
type SignerOptions struct {
	Timestamps Timestamper // asked for a timestamp over each signature; nil: nobody
	// TrustedRoot is what a timestamp must verify under before a bundle is
	// returned; needed with Timestamps.
	TrustedRoot root.TrustedMaterial
}

type signer struct {
	pair  keypair
	opts  SignerOptions
	check *verifier // that trusts this very key
}

// NewSigner returns a signer with a key of the kinds of [keys.CheckPublic],
// local or of a KMS. Its bundles are RFC 8785 JSON, name the key by [Hint], and
// hold one signature. It refuses to sign a Statement that a verifier would
// refuse to read, and to return a bundle that does not verify.
func NewSigner(key crypto.Signer) (attest.Signer, error) {
	return NewSignerWith(key, SignerOptions{})
}

// NewSignerWith is [NewSigner] with options.
func NewSignerWith(key crypto.Signer, opts SignerOptions) (attest.Signer, error) {
	if opts.Timestamps != nil && opts.TrustedRoot == nil {
		return nil, errors.New("signing with timestamps: got no trusted root, want the one that names the timestamp authority")
	}
	pair, err := newKeypair(key)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	check, err := newVerifier([]Functionary{{Name: "the signer", PublicKey: pair.public}}, Options{TrustedRoot: opts.TrustedRoot})
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	return signer{pair, opts, check}, nil
}

func (s signer) Sign(ctx context.Context, statement *attest.Statement) ([]byte, error) {
	b, err := envelop(ctx, statement, s.pair, sign.BundleOptions{}, s.opts.Timestamps)
	if err != nil {
		return nil, err
	}
	return proven(ctx, b, s.check)
}

// envelop signs a Statement that verifiers would read, in a bundle.
func envelop(ctx context.Context, statement *attest.Statement, pair sign.Keypair, opts sign.BundleOptions, timestamps Timestamper) (*protobundle.Bundle, error) {
	payload, err := attest.Encode(statement)
	if err != nil {
		return nil, err
	}
	if _, _, err := attest.DecodeStatement(payload); err != nil {
		return nil, fmt.Errorf("this Statement is not signed, since verifiers would refuse it: %w", err)
	}
	opts.Context = ctx
	b, err := sign.Bundle(&sign.DSSEData{Data: payload, PayloadType: attest.PayloadType}, pair, opts)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", statement.GetPredicateType(), err)
	}
	if timestamps == nil {
		return b, nil
	}
	ts, err := timestamps.GetTimestamp(ctx, b.GetDsseEnvelope().GetSignatures()[0].GetSig())
	if err != nil {
		return nil, fmt.Errorf("sign %s: timestamp: %w", statement.GetPredicateType(), err)
	}
	b.VerificationMaterial.TimestampVerificationData = &protobundle.TimestampVerificationData{
		Rfc3161Timestamps: []*commonpb.RFC3161SignedTimestamp{{SignedTimestamp: ts}},
	}
	return b, nil
}

// proven gives a bundle's bytes, once they verify: what a key, a KMS, an
// authority or a log answered is not believed.
func proven(ctx context.Context, b *protobundle.Bundle, check *verifier) ([]byte, error) {
	body, err := protojson.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("sign: bundle: %w", err)
	}
	if body, err = jsoncanonicalizer.Transform(body); err != nil { // protojson varies its white space on purpose
		return nil, fmt.Errorf("sign: bundle: %w", err)
	}
	if _, err := check.Verify(ctx, body, time.Time{}); err != nil {
		return nil, fmt.Errorf("sign: the new bundle does not verify and is thrown away: %w", err)
	}
	return body, nil
}
