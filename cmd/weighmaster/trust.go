package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/schemas"
)

func readTrust(path string) (schemas.Trust, error) {
	var t schemas.Trust
	body, err := os.ReadFile(path)
	if err != nil {
		return t, usage("trust file: %v; there is no default trust", err)
	}
	if err := schemas.DecodeYAML(path, body, schemas.TrustURI, &t); err != nil {
		return t, usage("%v", err)
	}
	if err := t.Check(); err != nil {
		return t, usage("%s: %v", path, err)
	}
	return t, nil
}

// claimVerifier believes exactly the functionaries of the trust file that was
// read from path, and the trusted root that it names beside itself.
func claimVerifier(t schemas.Trust, path string) (attest.Verifier, error) {
	list := make([]sigstore.Functionary, 0, len(t.Functionaries))
	for _, f := range t.Functionaries {
		fn, err := functionary(f)
		if err != nil {
			return nil, usage("%s: functionary %s: %v", path, f.Name, err)
		}
		list = append(list, fn)
	}
	opts, err := trustOptions(t, path)
	if err != nil {
		return nil, err
	}
	v, err := sigstore.NewVerifier(list, opts)
	if err != nil {
		return nil, usage("%s: %v", path, err)
	}
	return v, nil
}

// trustOptions has the trusted root that a trust file names, if it names one.
func trustOptions(t schemas.Trust, path string) (sigstore.Options, error) {
	var opts sigstore.Options
	if t.TrustedRoot == "" {
		return opts, nil
	}
	body, err := readTrustedRoot(path, t.TrustedRoot)
	if err != nil {
		return opts, usage("%s: trustedRoot: %v", path, err)
	}
	if opts.TrustedRoot, err = sigstore.LoadTrustedRoot(body); err != nil {
		return opts, usage("%s: trustedRoot %s: %v", path, t.TrustedRoot, err)
	}
	return opts, nil
}

func functionary(f schemas.Functionary) (sigstore.Functionary, error) {
	fn := sigstore.Functionary{Name: f.Name, Issuer: f.Issuer, Subject: f.Subject, NotBefore: moment(f.NotBefore), NotAfter: moment(f.NotAfter)}
	var err error
	if f.Key != "" {
		if fn.PublicKey, err = keys.LoadPublic([]byte(f.Key)); err != nil {
			return fn, err
		}
	}
	for i, k := range f.Keys {
		key := sigstore.Key{NotBefore: moment(k.NotBefore), NotAfter: moment(k.NotAfter)}
		if key.PublicKey, err = keys.LoadPublic([]byte(k.Key)); err != nil {
			return fn, fmt.Errorf("keys, number %d: %w", i+1, err)
		}
		fn.Keys = append(fn.Keys, key)
	}
	return fn, nil
}

func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// readTrustedRoot reads the trusted root that a trust file names, from the
// trust file's own folder.
func readTrustedRoot(trust, name string) ([]byte, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(trust), name)
	}
	return readBounded(name, sigstore.MaxTrustedRootBytes)
}

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("%s: got more than %d bytes, want at most that many", path, limit)
	}
	return body, nil
}

// witnessKeys are the keys of the witnesses whose cosignatures count.
func witnessKeys(t schemas.Trust) ([]note.Verifier, error) {
	list := make([]string, len(t.Witnesses))
	for i, w := range t.Witnesses {
		list[i] = w.Key
	}
	found, err := ledger.ParseWitnessKeys(list...)
	if err != nil {
		return nil, err
	}
	for i, w := range t.Witnesses {
		if name := found[i].Name(); name != w.Origin {
			return nil, fmt.Errorf("origin %q has a key of the name %q, want one name", w.Origin, name)
		}
	}
	return found, nil
}
