package main

import (
	"context"
	"crypto"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/kms"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/ledger"
)

const (
	privateSuffix   = ".pem" // a functionary's private key
	publicSuffix    = ".pub" // its public key
	referenceSuffix = ".kms" // in place of the private key: where a service keeps it
	// identitySuffix is of a Sigstore signing config, in place of any key: a
	// certificate identity signs, by fresh keys, over those services.
	identitySuffix = ".signing-config.json"
)

// tokenVariable has the OIDC token of a certificate identity; it is the one that cosign reads.
const tokenVariable = "SIGSTORE_ID_TOKEN"

// signers readies every functionary whose key lies in keys/, whose key a
// reference there names at a service, or whose identity a signing config there
// can have certified.
func (a *app) signers(ctx context.Context, p *project) (map[string]attest.Signer, error) {
	opts, err := a.signerOptions(p)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(p.dir, keysDir)
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, usage("%v", err)
	}
	out := map[string]attest.Signer{}
	for _, f := range files {
		name, signer, err := a.signerOf(ctx, p, filepath.Join(dir, f.Name()), opts)
		if err != nil {
			return nil, err
		}
		if signer == nil {
			continue
		}
		if out[name] != nil {
			return nil, usage("%s has two of %s, %s and %s in %s; keep the one that signs", name, privateSuffix, referenceSuffix, identitySuffix, dir)
		}
		out[name] = signer
	}
	if len(out) == 0 {
		return nil, usage("%s holds no private keys; make one with weighmaster keygen", dir)
	}
	return out, nil
}

// signerOf readies the signer that one file of keys/ stands for, and gives its
// name; none for other files and for the log's key.
func (a *app) signerOf(ctx context.Context, p *project, path string, opts sigstore.SignerOptions) (string, attest.Signer, error) {
	base := filepath.Base(path)
	if name, ok := strings.CutSuffix(base, identitySuffix); ok {
		signer, err := p.identitySigner(name, path)
		return name, signer, err
	}
	name, isReference := strings.CutSuffix(base, referenceSuffix)
	isKey := false
	if !isReference {
		name, isKey = strings.CutSuffix(base, privateSuffix)
	}
	var key crypto.Signer
	var err error
	switch {
	case isReference:
		key, err = openReference(ctx, path)
	case isKey && name != logKeyName:
		key, err = a.loadKey(path)
	default:
		return name, nil, nil
	}
	if err != nil {
		return name, nil, err
	}
	signer, err := sigstore.NewSignerWith(key, opts)
	if err != nil {
		return name, nil, fmt.Errorf("%s: %w", path, err)
	}
	return name, signer, nil
}

// identitySigner signs as the certificate identity of a functionary of the trust file.
func (p *project) identitySigner(name, path string) (attest.Signer, error) {
	opts := sigstore.KeylessOptions{Token: os.Getenv(tokenVariable)}
	for _, f := range p.trust.Functionaries {
		if f.Name == name {
			opts.Issuer, opts.Subject = f.Issuer, f.Subject
		}
	}
	if opts.Subject == "" {
		return nil, usage("%s: %s gives functionary %s no issuer and subject", path, trustFile, name)
	}
	trust, err := trustOptions(p.trust, filepath.Join(p.dir, trustFile))
	if err != nil {
		return nil, err
	}
	opts.TrustedRoot = trust.TrustedRoot
	doc, err := readBounded(path, sigstore.MaxTrustedRootBytes)
	if err != nil {
		return nil, err
	}
	if opts.Services, err = sigstore.LoadSigningConfig(doc, time.Now()); err != nil {
		return nil, usage("%s: %v", path, err)
	}
	signer, err := sigstore.NewKeylessSigner(opts)
	switch {
	case err != nil:
		return nil, usage("%s: %v", path, err)
	case opts.Token == "":
		return noToken{name}, nil
	}
	return signer, nil
}

// noToken is a certificate identity without a token: no hindrance to those who
// do not sign with it.
type noToken struct{ name string }

func (n noToken) Sign(context.Context, *attest.Statement) ([]byte, error) {
	return nil, usage("functionary %s signs by a certificate: set %s to an OIDC token of the identity", n.name, tokenVariable)
}

// say signs a Statement, records it, and writes the packages of what was
// delivered anew: it may be about them.
func (p *project) say(ctx context.Context, signer attest.Signer, statement *attest.Statement) (ledger.Entry, error) {
	bundle, err := signer.Sign(ctx, statement)
	if err != nil {
		return ledger.Entry{}, err
	}
	entry, err := p.record(ctx, bundle)
	if err != nil {
		return ledger.Entry{}, err
	}
	_, err = p.packDelivered(ctx)
	return entry, err
}

// record appends a bundle that the trust file believes now. What it does not
// believe, such as the word of a retired key, is not appended: an entry stays.
func (p *project) record(ctx context.Context, bundle []byte) (ledger.Entry, error) {
	if _, err := p.verifier.Verify(ctx, bundle, time.Now()); err != nil {
		return ledger.Entry{}, usage("nothing was appended, since %s does not believe what was signed: %w", trustFile, err)
	}
	return p.log.Append(ctx, bundle)
}

// signerOptions asks nobody for a timestamp unless --timestamp-url says whom.
func (a *app) signerOptions(p *project) (sigstore.SignerOptions, error) {
	var opts sigstore.SignerOptions
	if a.timestampURL == "" {
		return opts, nil
	}
	path := filepath.Join(p.dir, trustFile)
	trust, err := trustOptions(p.trust, path)
	if err != nil {
		return opts, err
	}
	if trust.TrustedRoot == nil {
		return opts, usage("--timestamp-url: %s names no trustedRoot under which a timestamp could be verified", path)
	}
	opts.TrustedRoot = trust.TrustedRoot
	if opts.Timestamps, err = sigstore.NewTimestampClient(a.timestampURL); err != nil {
		return opts, usage("--timestamp-url: %v", err)
	}
	return opts, nil
}

func (a *app) loadKey(path string) (crypto.Signer, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("%v", err)
	}
	key, err := keys.Load(body, a.password(path))
	if err != nil {
		return nil, usage("%s: %v", path, err)
	}
	return key, nil
}

// maxReferenceFile bounds a file with a reference, in bytes.
const maxReferenceFile = 4 << 10

// openReference opens the key that a reference file names, as the public key
// beside it declares.
func openReference(ctx context.Context, path string) (crypto.Signer, error) {
	body, err := readBounded(path, maxReferenceFile)
	if err != nil {
		return nil, usage("%v", err)
	}
	declared := strings.TrimSuffix(path, referenceSuffix) + publicSuffix
	doc, err := os.ReadFile(declared)
	if err != nil {
		return nil, usage("%s: its public key must be declared beside it: %v", path, err)
	}
	public, err := keys.LoadPublic(doc)
	if err != nil {
		return nil, usage("%s: %v", declared, err)
	}
	key, err := kms.Open(ctx, strings.TrimSpace(string(body)), public, 0)
	if err != nil {
		return nil, usage("%s: %v", path, err)
	}
	return key, nil
}

func (a *app) logSigner(dir string) (note.Signer, error) {
	path := filepath.Join(dir, keysDir, logKeyName+privateSuffix)
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("%v; nothing can be recorded without the log's key: restore it", err)
	}
	secret, err := keys.LoadLogKey(body, a.password(path))
	if err != nil {
		return nil, usage("%s: %v", path, err)
	}
	return note.NewSigner(secret)
}
