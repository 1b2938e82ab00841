// Package kms signs with keys that never leave a key management service or a
// hardware module. It drives the plugin programs of Sigstore: a reference
// NAME://KEY is answered by the program sigstore-kms-NAME on the PATH, by the
// protocol of github.com/sigstore/sigstore/pkg/signature/kms/cliplugin; builds
// that link providers of that package's registry use those first.
//
// Nothing that a service answers is believed: every signature is verified with
// the public key that was declared before, in a file beside the reference.
package kms

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms"
	"github.com/sigstore/sigstore/pkg/signature/options"

	"github.com/weighmaster/weighmaster/attest/keys"
)

// DefaultTimeout bounds one question to a service. It is long enough for
// somebody to touch a token.
const DefaultTimeout = 2 * time.Minute

// maxReference bounds a reference, in bytes.
const maxReference = 1024

// The name becomes a program's name, and must not become a path.
var referenceForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}://[^\s\x00-\x1f\x7f]+$`)

// CheckReference refuses what is no reference NAME://KEY.
func CheckReference(reference string) error {
	if len(reference) > maxReference || !referenceForm.MatchString(reference) {
		return fmt.Errorf("key reference: got %.100q, want NAME://KEY in at most %d bytes, NAME of lower-case letters, digits and hyphens", reference, maxReference)
	}
	return nil
}

// Key is a key at a service. It is a crypto.Signer and a crypto.MessageSigner.
type Key struct {
	reference string
	public    crypto.PublicKey // as declared
	service   kms.SignerVerifier
	check     signature.Verifier
	timeout   time.Duration // of one question
}

var _ crypto.MessageSigner = (*Key)(nil)

// Open finds the service of a reference and holds its public key against the
// declared one. timeout bounds each question; zero means [DefaultTimeout].
func Open(ctx context.Context, reference string, declared crypto.PublicKey, timeout time.Duration) (*Key, error) {
	k := &Key{reference: reference, public: declared, timeout: timeout}
	if timeout == 0 {
		k.timeout = DefaultTimeout
	}
	if err := keys.CheckPublic(declared); err != nil {
		return nil, fmt.Errorf("%s: %w", reference, err)
	}
	var err error
	if k.check, err = signature.LoadDefaultVerifier(declared); err != nil {
		return nil, fmt.Errorf("%s: %w", reference, err)
	}
	if k.service, err = find(ctx, reference, hashOf(declared)); err != nil {
		return nil, err
	}
	shown, err := k.publicKey(ctx)
	if err != nil {
		return nil, err
	}
	if same, ok := shown.(interface{ Equal(crypto.PublicKey) bool }); !ok || !same.Equal(declared) {
		return nil, fmt.Errorf("%s: got another public key than the declared one; the reference names another key, or the service answers for one", reference)
	}
	return k, nil
}

// PublicKey asks a service for the public key of a reference, to be declared.
func PublicKey(ctx context.Context, reference string, timeout time.Duration) (crypto.PublicKey, error) {
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	service, err := find(ctx, reference, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	k := &Key{reference: reference, service: service, timeout: timeout}
	pub, err := k.publicKey(ctx)
	if err != nil {
		return nil, err
	}
	if err := keys.CheckPublic(pub); err != nil {
		return nil, fmt.Errorf("%s: %w", reference, err)
	}
	return pub, nil
}

func find(ctx context.Context, reference string, hash crypto.Hash) (kms.SignerVerifier, error) {
	if err := CheckReference(reference); err != nil {
		return nil, err
	}
	service, err := kms.Get(ctx, reference, hash)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; install the service's plugin program on the PATH", reference, err)
	}
	return service, nil
}

func hashOf(pub crypto.PublicKey) crypto.Hash {
	switch k := pub.(type) {
	case ed25519.PublicKey:
		return 0 // it hashes by itself
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P384() {
			return crypto.SHA384
		}
	}
	return crypto.SHA256
}

func (k *Key) publicKey(ctx context.Context) (crypto.PublicKey, error) {
	return ask(ctx, k, "public key", func(ctx context.Context) (crypto.PublicKey, error) {
		return k.service.PublicKey(options.WithContext(ctx))
	})
}

// Public returns the declared public key.
func (k *Key) Public() crypto.PublicKey { return k.public }

// SignMessage has the service sign a message, which it hashes itself, and
// verifies the signature.
func (k *Key) SignMessage(_ io.Reader, message []byte, _ crypto.SignerOpts) ([]byte, error) {
	return k.sign(message, bytes.NewReader(message))
}

// Sign has the service sign a digest, for Ed25519 a message, and verifies the
// signature.
func (k *Key) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	hash := opts.HashFunc()
	if hash != hashOf(k.public) {
		return nil, fmt.Errorf("%s: got the hash %v, want %v", k.reference, hash, hashOf(k.public))
	}
	if hash == 0 {
		return k.sign(digest, bytes.NewReader(digest))
	}
	sig, err := k.ask(bytes.NewReader(nil), options.WithDigest(digest), options.WithCryptoSignerOpts(hash))
	if err != nil {
		return nil, err
	}
	return k.verified(sig, bytes.NewReader(nil), options.WithDigest(digest))
}

func (k *Key) sign(message []byte, r io.Reader) ([]byte, error) {
	sig, err := k.ask(r)
	if err != nil {
		return nil, err
	}
	return k.verified(sig, bytes.NewReader(message))
}

func (k *Key) ask(message io.Reader, opts ...signature.SignOption) ([]byte, error) {
	return ask(context.Background(), k, "signature", func(ctx context.Context) ([]byte, error) {
		return k.service.SignMessage(message, append(opts, options.WithContext(ctx))...)
	})
}

func (k *Key) verified(sig []byte, message io.Reader, opts ...signature.VerifyOption) ([]byte, error) {
	if err := k.check.VerifySignature(bytes.NewReader(sig), message, opts...); err != nil {
		return nil, fmt.Errorf("%s: the service's signature is not by the declared key over what was asked; nothing was signed: %w", k.reference, err)
	}
	return sig, nil
}

// ask puts a question with a deadline. The library reads an answer without
// looking whether it holds what was asked, and waits for the children of a
// program that it has killed; neither may take the caller along.
func ask[T any](ctx context.Context, k *Key, what string, question func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if r := recover(); r != nil {
				a.err = errors.New("the service's answer lacks what was asked")
			}
			done <- a
		}()
		a.v, a.err = question(ctx)
	}()
	select {
	case a := <-done:
		if a.err != nil && ctx.Err() == nil {
			a.err = fmt.Errorf("%s: %s: %w", k.reference, what, a.err)
		}
		if ctx.Err() == nil {
			return a.v, a.err
		}
	case <-ctx.Done():
	}
	var none T
	return none, fmt.Errorf("%s: %s: got no answer within %s: %w", k.reference, what, k.timeout, ctx.Err())
}
