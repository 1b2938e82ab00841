package sigstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	godigest "github.com/opencontainers/go-digest"
	sigbundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/internal/claim"
)

// Options of a verifier.
type Options struct {
	// TrustedRoot is needed, and used, for certificate identities only; see
	// [LoadTrustedRoot]. One transparency log entry and one vouched time are
	// required of every certificate, and a signed certificate timestamp wherever
	// the root names a certificate transparency log.
	TrustedRoot root.TrustedMaterial
}

// LoadTrustedRoot reads a Sigstore trusted root in JSON. Nothing is fetched.
func LoadTrustedRoot(doc []byte) (root.TrustedMaterial, error) {
	if err := attest.CheckJSON(doc); err != nil {
		return nil, fmt.Errorf("trusted root: %w", err)
	}
	tr, err := root.NewTrustedRootFromJSON(doc)
	if err != nil {
		return nil, fmt.Errorf("trusted root: %w", err)
	}
	return tr, nil
}

type verifier struct {
	byHint     map[string]*trusted
	identities []*trusted
	keyed      *verify.Verifier
	material   root.TrustedMaterial // the keys
	certified  *verify.Verifier     // nil without certificate identities
}

// NewVerifier trusts the functionaries that it is given and nobody else. It
// refuses none at all, two of one name, and one key or identity under two
// names: a threshold of two must mean two signers.
func NewVerifier(functionaries []Functionary, opts Options) (attest.Verifier, error) {
	return newVerifier(functionaries, opts)
}

func newVerifier(functionaries []Functionary, opts Options) (*verifier, error) {
	if len(functionaries) == 0 {
		return nil, errors.New("no functionary is trusted; name at least one in the trust file")
	}
	v := &verifier{byHint: map[string]*trusted{}}
	names, ids := map[string]bool{}, map[godigest.Digest]string{}
	material := map[string]*root.ExpiringKey{}
	for _, f := range functionaries {
		t, err := newTrusted(f)
		if err != nil {
			return nil, err
		}
		if names[t.Name] {
			return nil, fmt.Errorf("functionary %s: got the name twice, want it once", t.Name)
		}
		if earlier, ok := ids[t.id]; ok {
			return nil, fmt.Errorf("functionary %s: got the key or identity of %s (%s), want one of its own", t.Name, earlier, t.id)
		}
		names[t.Name], ids[t.id] = true, t.Name
		if t.verifier == nil {
			v.identities = append(v.identities, &t)
			continue
		}
		hint, err := Hint(t.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("functionary %s: %w", t.Name, err)
		}
		v.byHint[hint], material[hint] = &t, t.verifier
	}
	v.material = root.NewTrustedPublicKeyMaterialFromMapping(material)
	var err error
	if v.keyed, err = verify.NewVerifier(v.material, verify.WithNoObserverTimestamps(), verify.WithoutStatementPredicate()); err != nil {
		return nil, err
	}
	if len(v.identities) == 0 {
		return v, nil
	}
	if opts.TrustedRoot == nil {
		return nil, fmt.Errorf("functionary %s: it is a certificate identity, and no trusted root was given", v.identities[0].Name)
	}
	v.certified, err = certificateVerifier(opts.TrustedRoot)
	return v, err
}

// Verify implements [attest.Verifier]. The signature is checked over the bytes
// of the payload, and those same bytes are decoded, once.
func (v *verifier) Verify(ctx context.Context, body []byte, at time.Time) (attest.Claim, error) {
	var none attest.Claim
	if err := ctx.Err(); err != nil {
		return none, err
	}
	env, err := attest.OpenUnverified(body)
	if err != nil {
		return none, err
	}
	b, err := sigbundle.NewBundle(env.Bundle)
	if err != nil {
		return none, refused(attest.CheckBundle, "another bundle", "a complete Sigstore bundle", err)
	}
	content, err := b.VerificationContent()
	if err != nil {
		return none, refused(attest.CheckBundle, "no verification material", "a key hint or a certificate", err)
	}
	var by *trusted
	var signedAt time.Time
	if content.Certificate() != nil {
		by, signedAt, err = v.certificate(b)
	} else {
		by, err = v.key(b, content, at)
	}
	if err != nil {
		return none, err
	}
	s, predicate, err := attest.DecodeStatement(env.Payload)
	if err != nil {
		return none, err
	}
	return claim.New(claim.Made{
		Statement: s, Predicate: predicate, Functionary: by.Name, Key: by.id,
		PAE: env.PAE, Bundle: godigest.FromBytes(body), SignedAt: signedAt,
	}), nil
}

// key verifies a bundle that names a local key by its hint.
func (v *verifier) key(b *sigbundle.Bundle, content verify.VerificationContent, at time.Time) (*trusted, error) {
	hint := content.PublicKey().Hint()
	by, ok := v.byHint[hint]
	if !ok {
		return nil, refused(attest.CheckFunctionary, fmt.Sprintf("a key with the hint %.100q", hint), "a key that the trust file names", nil)
	}
	if _, err := v.keyed.Verify(b, verify.NewPolicy(verify.WithoutArtifactUnsafe(), verify.WithKey())); err != nil {
		signed, contentErr := b.SignatureContent()
		if contentErr != nil || verify.VerifySignature(signed, content, v.material) != nil {
			return nil, refused(attest.CheckSignature, "a signature that does not verify", "one by functionary "+by.Name, err)
		}
		// It is signed; what is signed is not readable, and DecodeStatement says why.
	}
	return by, by.validAt(at)
}
