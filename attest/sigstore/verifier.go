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
	// TrustedRoot is needed for certificate identities; see [LoadTrustedRoot].
	// One transparency log entry and one vouched time are required of every
	// certificate, and a signed certificate timestamp wherever the root names a
	// certificate transparency log. For keys it gives vouched times: with it every
	// timestamp and every log entry that a bundle carries must verify. Without it
	// they are not looked at, and vouch for nothing.
	TrustedRoot root.TrustedMaterial
}

type verifier struct {
	byHint     map[string]*trusted
	identities []*trusted
	keyed      *verify.Verifier
	material   root.TrustedMaterial // the keys
	root       root.TrustedMaterial // nil without one
	certified  *verify.Verifier     // nil without certificate identities
}

// NewVerifier trusts the functionaries that it is given and nobody else. It
// refuses none at all, two of one name, and one key or identity in two places,
// whatever its encoding: a threshold of two must mean two signers.
func NewVerifier(functionaries []Functionary, opts Options) (attest.Verifier, error) {
	return newVerifier(functionaries, opts)
}

func newVerifier(functionaries []Functionary, opts Options) (*verifier, error) {
	if len(functionaries) == 0 {
		return nil, errors.New("no functionary is trusted; name at least one in the trust file")
	}
	v := &verifier{byHint: map[string]*trusted{}, root: opts.TrustedRoot}
	names := map[string]bool{}
	for _, f := range functionaries {
		members, err := f.members()
		if err != nil {
			return nil, err
		}
		if names[f.Name] {
			return nil, f.errorf("got the name twice, want it once; keys that rotate are a list under one name")
		}
		names[f.Name] = true
		for _, t := range members {
			if err := v.add(t); err != nil {
				return nil, err
			}
		}
	}
	return v, v.configure()
}

// add takes in one key or identity, which nobody may have had before.
func (v *verifier) add(t *trusted) error {
	if t.verifier == nil {
		for _, earlier := range v.identities {
			if earlier.issuer == t.issuer && earlier.subject == t.subject {
				return fmt.Errorf("functionary %s: got the identity of %s, want one of its own", t.name, earlier.name)
			}
		}
		v.identities = append(v.identities, t)
		return nil
	}
	if earlier, ok := v.byHint[t.hint]; ok {
		return fmt.Errorf("functionary %s: got the key of %s (%s), want one of its own", t.name, earlier.name, t.id)
	}
	v.byHint[t.hint] = t
	return nil
}

func (v *verifier) configure() error {
	material := map[string]*root.ExpiringKey{}
	for hint, t := range v.byHint {
		material[hint] = t.verifier
	}
	v.material = root.NewTrustedPublicKeyMaterialFromMapping(material)
	var err error
	if v.keyed, err = verify.NewVerifier(v.material, verify.WithNoObserverTimestamps(), verify.WithoutStatementPredicate()); err != nil {
		return err
	}
	if len(v.identities) == 0 {
		return nil
	}
	if v.root == nil {
		return fmt.Errorf("functionary %s: it is a certificate identity, and no trusted root was given", v.identities[0].name)
	}
	v.certified, err = certificateVerifier(v.root)
	return err
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
	by, err := v.signed(b, verify.WithoutArtifactUnsafe, at)
	if err != nil {
		return none, err
	}
	s, predicate, err := attest.DecodeStatement(env.Payload)
	if err != nil {
		return none, err
	}
	return claim.New(claim.Made{
		Statement: s, Predicate: predicate, Functionary: by.name, Key: by.key,
		PAE: env.PAE, Bundle: godigest.FromBytes(body), SignedAt: by.signedAt,
	}), nil
}

// artifact says what a signature is held against: for an envelope, itself.
type artifact func() verify.ArtifactPolicyOption

// signedBy is what the signature of a bundle established.
type signedBy struct {
	name     string
	key      godigest.Digest // of the public key that signed, whosever it is
	signedAt time.Time       // the earliest vouched time; zero without one
}

// signed verifies everything about a bundle's signature: who made it, when, and
// that it is over what the bundle holds. artifact is needed for bundles that
// hold a bare message signature, which only tests let in.
func (v *verifier) signed(b *sigbundle.Bundle, artifact artifact, at time.Time) (signedBy, error) {
	content, err := b.VerificationContent()
	if err != nil {
		return signedBy{}, refused(attest.CheckBundle, "no verification material", "a key hint or a certificate", err)
	}
	if err := withoutRoot(b.GetVerificationMaterial().GetX509CertificateChain()); err != nil {
		return signedBy{}, err
	}
	if content.Certificate() != nil {
		return v.certificate(b, content, artifact)
	}
	return v.key(b, content, artifact, at)
}

// key verifies a bundle that names a local key by its hint.
func (v *verifier) key(b *sigbundle.Bundle, content verify.VerificationContent, artifact artifact, at time.Time) (signedBy, error) {
	var none signedBy
	hint := content.PublicKey().Hint()
	t, ok := v.byHint[hint]
	if !ok {
		return none, refused(attest.CheckFunctionary, fmt.Sprintf("a key with the hint %.100q", hint), "a key that the trust file names", nil)
	}
	if _, err := v.keyed.Verify(b, verify.NewPolicy(artifact(), verify.WithKey())); err != nil {
		signed, contentErr := b.SignatureContent()
		if contentErr != nil || verify.VerifySignature(signed, content, v.material) != nil {
			return none, refused(attest.CheckSignature, "a signature that does not verify", "one by functionary "+t.name, err)
		}
		// It is signed; what is signed is not readable, and DecodeStatement says why.
	}
	vouched, err := v.vouchedForKey(b)
	if err != nil {
		return none, err
	}
	signedAt, err := t.within(vouched)
	if err != nil {
		return none, err
	}
	if signedAt.IsZero() {
		if err := t.validAt(at, "the moment asked for"); err != nil {
			return none, err
		}
	}
	return signedBy{t.name, t.id, signedAt}, nil
}
