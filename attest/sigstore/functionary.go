package sigstore

import (
	"crypto"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils/goodkey"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
)

// Functionary is one signer whom a trust file names: by a public key, or by
// the issuer and subject of a certificate identity, both exact.
type Functionary struct {
	Name      string
	PublicKey crypto.PublicKey
	Issuer    string    // OIDC issuer
	Subject   string    // subject alternative name of the certificate
	NotBefore time.Time // zero: no such bound
	NotAfter  time.Time // expired from this moment on; zero: never
}

// trusted is a functionary ready for use.
type trusted struct {
	Functionary
	id       godigest.Digest // distinct keys have distinct ids
	verifier *root.ExpiringKey
	identity verify.CertificateIdentity
}

func newTrusted(f Functionary) (trusted, error) {
	t := trusted{Functionary: f}
	if f.Name == "" {
		return t, errors.New("functionary: got no name, want a name of its own")
	}
	if !f.NotBefore.IsZero() && !f.NotAfter.IsZero() && !f.NotBefore.Before(f.NotAfter) {
		return t, fmt.Errorf("functionary %s: notBefore %s is not before notAfter %s: it could never sign", f.Name, stamp(f.NotBefore), stamp(f.NotAfter))
	}
	byIdentity := f.Issuer != "" || f.Subject != ""
	var err error
	switch {
	case f.PublicKey != nil && byIdentity:
		err = errors.New("got a key and a certificate identity, want one of them")
	case f.PublicKey != nil:
		err = t.useKey()
	case f.Issuer == "" || f.Subject == "":
		err = errors.New("got neither a key nor issuer and subject; an identity is explicit in both")
	default:
		t.id = godigest.FromString(fmt.Sprintf("%d %s %s", len(f.Issuer), f.Issuer, f.Subject))
		t.identity, err = verify.NewShortCertificateIdentity(f.Issuer, "", f.Subject, "")
	}
	if err != nil {
		return t, fmt.Errorf("functionary %s: %w", f.Name, err)
	}
	return t, nil
}

func (t *trusted) useKey() error {
	if err := goodkey.ValidatePubKey(t.PublicKey); err != nil {
		return fmt.Errorf("public key: %w", err)
	}
	id, err := keys.Digest(t.PublicKey)
	if err != nil {
		return err
	}
	v, err := signature.LoadDefaultVerifier(t.PublicKey)
	if err != nil {
		return fmt.Errorf("public key: %w", err)
	}
	t.id = id
	// The period of validity is checked here, not there: a library that has no
	// vouched time skips it.
	t.verifier = root.NewExpiringKey(v, time.Time{}, time.Time{})
	return nil
}

// validAt applies the period of validity: notBefore <= at < notAfter.
func (t *trusted) validAt(at time.Time) error {
	if !t.NotBefore.IsZero() && at.Before(t.NotBefore) {
		return refused(attest.CheckValidity, fmt.Sprintf("functionary %s at %s", t.Name, stamp(at)), "at or after "+stamp(t.NotBefore), nil)
	}
	if !t.NotAfter.IsZero() && !at.Before(t.NotAfter) {
		return refused(attest.CheckValidity, fmt.Sprintf("functionary %s at %s, expired", t.Name, stamp(at)), "before "+stamp(t.NotAfter), nil)
	}
	return nil
}

func refused(check attest.Check, got, want string, cause error) error {
	return &attest.VerificationError{Check: check, Got: got, Want: want, Err: cause}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func digestBytes(d godigest.Digest) ([]byte, error) { return hex.DecodeString(d.Encoded()) }
