package sigstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/weighmaster/weighmaster/attest"
)

// KeylessOptions say whose identity signs, who is asked for it, and what all
// that must verify under. Nobody is asked but the services that are given; see
// [LoadSigningConfig].
type KeylessOptions struct {
	Services
	Issuer      string // OIDC issuer of the identity, exact
	Subject     string // subject alternative name of the certificate, exact
	Token       string // the OIDC token that the certificate authority is shown
	TrustedRoot root.TrustedMaterial
}

type keyless struct {
	opts  KeylessOptions
	check *verifier // that trusts this very identity
}

// NewKeylessSigner returns a signer for a certificate identity. Each signature
// is by a fresh ECDSA P-256 key that is forgotten at once. A bundle is returned
// only if it verifies under the trusted root, by exactly this identity.
func NewKeylessSigner(opts KeylessOptions) (attest.Signer, error) {
	if opts.Certificates == nil || opts.Log == nil {
		return nil, errors.New("keyless signing: got no certificate authority or no transparency log, want both")
	}
	check, err := newVerifier([]Functionary{{Name: "the signer", Issuer: opts.Issuer, Subject: opts.Subject}}, Options{TrustedRoot: opts.TrustedRoot})
	if err != nil {
		return nil, fmt.Errorf("keyless signing: %w", err)
	}
	return keyless{opts, check}, nil
}

func (k keyless) Sign(ctx context.Context, statement *attest.Statement) (bundle []byte, err error) {
	defer func() {
		if r := recover(); r != nil { // sigstore-go reads some answers without looking whether they are whole
			bundle, err = nil, fmt.Errorf("keyless signing: a service's answer lacks what was asked: %v", r)
		}
	}()
	pair, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		return nil, fmt.Errorf("keyless signing: %w", err)
	}
	b, err := envelop(ctx, statement, pair, sign.BundleOptions{
		CertificateProvider:        k.opts.Certificates,
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: k.opts.Token},
		TransparencyLogs:           []sign.Transparency{k.opts.Log},
	}, k.opts.Timestamps)
	if err != nil {
		return nil, err
	}
	return proven(ctx, b, k.check)
}
