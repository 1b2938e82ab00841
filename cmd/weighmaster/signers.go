package main

import (
	"context"
	"crypto"
	"fmt"
	"io"
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
)

// signers readies every functionary whose key lies in keys/, or whose key a
// reference in keys/ names at a service.
func (a *app) signers(ctx context.Context, p *project) (map[string]attest.Signer, error) {
	opts, err := a.signerOptions(p)
	if err != nil {
		return nil, err
	}
	out := map[string]attest.Signer{}
	for _, suffix := range []string{privateSuffix, referenceSuffix} {
		paths, err := filepath.Glob(filepath.Join(p.dir, keysDir, "*"+suffix))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			name := strings.TrimSuffix(filepath.Base(path), suffix)
			if name == logKeyName {
				continue
			}
			if out[name] != nil {
				return nil, usage("%s has a private key and a reference to one; keep the one that signs", strings.TrimSuffix(path, suffix))
			}
			var key crypto.Signer
			if suffix == referenceSuffix {
				key, err = openReference(ctx, path)
			} else {
				key, err = a.loadKey(path)
			}
			if err != nil {
				return nil, err
			}
			if out[name], err = sigstore.NewSignerWith(key, opts); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	if len(out) == 0 {
		return nil, usage("%s holds no private keys; make one with weighmaster keygen", filepath.Join(p.dir, keysDir))
	}
	return out, nil
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

// openReference opens the key that a reference file names, as the public key
// beside it declares.
func openReference(ctx context.Context, path string) (crypto.Signer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("%v", err)
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return nil, err
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
