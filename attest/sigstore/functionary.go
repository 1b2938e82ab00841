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
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
)

// Functionary is one signer whom a trust file names: by a public key, by
// several that follow or overlap each other, or by the issuer and subject of a
// certificate identity, both exact. However many keys one has, a threshold
// counts one functionary.
type Functionary struct {
	Name      string
	PublicKey crypto.PublicKey // the only key; or Keys
	Keys      []Key            // keys that rotate, each in its own period
	Issuer    string           // OIDC issuer
	Subject   string           // subject alternative name of the certificate
	NotBefore time.Time        // of PublicKey or the identity; zero: no such bound
	NotAfter  time.Time        // expired from this moment on; zero: never
}

// Key is one key of a functionary in its period: NotBefore <= t < NotAfter. A
// retired key verifies what it signed in its period, by a vouched time or the
// moment that the caller vouches for, and nothing later.
type Key struct {
	PublicKey crypto.PublicKey
	NotBefore time.Time // zero: no such bound
	NotAfter  time.Time // expired from this moment on; zero: never
}

// trusted is one key or identity of a functionary, ready for use.
type trusted struct {
	name      string
	notBefore time.Time
	notAfter  time.Time
	id        godigest.Digest // sha256 of the public key's DER; empty for an identity
	hint      string
	verifier  *root.ExpiringKey // nil for an identity
	identity  verify.CertificateIdentity
	issuer    string
	subject   string
}

// members lists what a functionary may sign with.
func (f Functionary) members() ([]*trusted, error) {
	if f.Name == "" {
		return nil, errors.New("functionary: got no name, want a name of its own")
	}
	byIdentity := f.Issuer != "" || f.Subject != ""
	list := f.Keys
	switch {
	case f.PublicKey != nil && len(list) > 0:
		return nil, f.errorf("got a key and a list of keys, want one of them")
	case len(list) > 0 && !(f.NotBefore.IsZero() && f.NotAfter.IsZero()):
		return nil, f.errorf("got a period beside a list of keys, want a period with each key")
	case byIdentity && (f.PublicKey != nil || len(list) > 0):
		return nil, f.errorf("got a key and a certificate identity, want one of them")
	case byIdentity && (f.Issuer == "" || f.Subject == ""), !byIdentity && f.PublicKey == nil && len(list) == 0:
		return nil, f.errorf("got neither a key nor issuer and subject; an identity is explicit in both")
	case byIdentity:
		t, err := f.byIdentity()
		return []*trusted{t}, err
	case f.PublicKey != nil:
		list = []Key{{f.PublicKey, f.NotBefore, f.NotAfter}}
	}
	members := make([]*trusted, 0, len(list))
	for _, key := range list {
		t, err := f.byKey(key)
		if err != nil {
			return nil, err
		}
		members = append(members, t)
	}
	return members, nil
}

func (f Functionary) errorf(format string, args ...any) error {
	return fmt.Errorf("functionary %s: %w", f.Name, fmt.Errorf(format, args...))
}

// during makes a member with a period, which must not be empty.
func (f Functionary) during(notBefore, notAfter time.Time) (*trusted, error) {
	if !notBefore.IsZero() && !notAfter.IsZero() && !notBefore.Before(notAfter) {
		return nil, f.errorf("notBefore %s is not before notAfter %s: it could never sign", stamp(notBefore), stamp(notAfter))
	}
	return &trusted{name: f.Name, notBefore: notBefore, notAfter: notAfter}, nil
}

func (f Functionary) byIdentity() (*trusted, error) {
	t, err := f.during(f.NotBefore, f.NotAfter)
	if err != nil {
		return nil, err
	}
	t.issuer, t.subject = f.Issuer, f.Subject
	if t.identity, err = verify.NewShortCertificateIdentity(f.Issuer, "", f.Subject, ""); err != nil {
		return nil, f.errorf("%w", err)
	}
	return t, nil
}

func (f Functionary) byKey(key Key) (*trusted, error) {
	t, err := f.during(key.NotBefore, key.NotAfter)
	if err != nil {
		return nil, err
	}
	if err := keys.CheckPublic(key.PublicKey); err != nil {
		return nil, f.errorf("%w", err)
	}
	if t.id, err = keys.Digest(key.PublicKey); err != nil {
		return nil, f.errorf("%w", err)
	}
	if t.hint, err = Hint(key.PublicKey); err != nil {
		return nil, f.errorf("%w", err)
	}
	v, err := signature.LoadDefaultVerifier(key.PublicKey)
	if err != nil {
		return nil, f.errorf("public key: %w", err)
	}
	// The period of validity is checked here, not there: a library that has no
	// vouched time skips it.
	t.verifier = root.NewExpiringKey(v, time.Time{}, time.Time{})
	return t, nil
}

// validAt applies the period of validity: notBefore <= at < notAfter. source
// says whose time it is.
func (t *trusted) validAt(at time.Time, source string) error {
	if !t.notBefore.IsZero() && at.Before(t.notBefore) {
		return refused(attest.CheckValidity, fmt.Sprintf("functionary %s at %s, %s", t.name, stamp(at), source), "at or after "+stamp(t.notBefore), nil)
	}
	if !t.notAfter.IsZero() && !at.Before(t.notAfter) {
		return refused(attest.CheckValidity, fmt.Sprintf("functionary %s at %s, %s, expired", t.name, stamp(at), source), "before "+stamp(t.notAfter), nil)
	}
	return nil
}

func refused(check attest.Check, got, want string, cause error) error {
	return &attest.VerificationError{Check: check, Got: got, Want: want, Err: cause}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func digestBytes(d godigest.Digest) ([]byte, error) { return hex.DecodeString(d.Encoded()) }
