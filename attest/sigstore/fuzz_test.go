package sigstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/attest/sigstore/virtual"
)

// Whatever a bundle is turned into, it is refused with a reason, or says what was signed.
func FuzzVerify(f *testing.F) {
	d := virtual.New(f)
	key, err := keys.Generate(keys.Ed25519)
	if err != nil {
		f.Fatal(err)
	}
	signer, err := sigstore.NewSigner(key)
	if err != nil {
		f.Fatal(err)
	}
	keyed, err := signer.Sign(context.Background(), statement(f))
	if err != nil {
		f.Fatal(err)
	}
	certified := keylessBundle(f, deployed(f, d))
	v, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "producer", PublicKey: key.Public()}, {Name: "ci", Issuer: issuer, Subject: builder}},
		sigstore.Options{TrustedRoot: d.Material(f, virtual.RootOptions{})})
	if err != nil {
		f.Fatal(err)
	}
	signed, err := v.Verify(context.Background(), keyed, now)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(keyed)
	f.Add(certified)
	for _, body := range [][]byte{keyed, certified} {
		for _, edit := range [][2]string{
			{`"tlogEntries":[{`, `"tlogEntries":[null,{`}, {`"inclusionProof":{`, `"inclusionProof":null,"x":{`}, {`"hint":"`, `"hint":"x`},
			{`"signatures":[{`, `"signatures":[null,{`}, {`"rfc3161Timestamps":[{`, `"rfc3161Timestamps":[{},{`}, {`"rawBytes":"`, `"rawBytes":"AAAA`},
			{`"logIndex":"0"`, `"logIndex":"-1"`}, {`"kindVersion":{`, `"kindVersion":{},"y":{`},
			{`"certificate":{`, `"x509CertificateChain":{"certificates":[]},"z":{`}, {`v0.3+json`, `v0.1+json`}, {`"treeSize":"`, `"treeSize":"9223372036854775807`},
		} {
			f.Add(bytes.Replace(body, []byte(edit[0]), []byte(edit[1]), 1))
		}
	}
	f.Fuzz(func(t *testing.T, bundle []byte) {
		claim, err := v.Verify(context.Background(), bundle, now)
		if err != nil {
			var refused *attest.VerificationError
			if !errors.As(err, &refused) || claim.Valid() {
				t.Fatalf("got %T %v and claim %v", err, err, claim.Valid())
			}
			return
		}
		if claim.PAE() != signed.PAE() {
			t.Fatalf("a claim about something that nobody signed: %s", bundle)
		}
	})
}

func FuzzLoadTrustedRoot(f *testing.F) {
	doc := virtual.New(f).TrustedRoot(f, virtual.RootOptions{WithCTLog: true})
	f.Add(doc)
	var tree map[string]any
	if err := json.Unmarshal(doc, &tree); err != nil {
		f.Fatal(err)
	}
	for _, list := range []string{"tlogs", "ctlogs", "certificateAuthorities", "timestampAuthorities"} {
		entry, ok := tree[list].([]any)[0].(map[string]any)
		if !ok {
			f.Fatalf("the root has no %s", list)
		}
		for field, was := range entry {
			delete(entry, field)
			f.Add(encode(f, tree))
			entry[field] = map[string]any{}
			f.Add(encode(f, tree))
			entry[field] = was
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		tr, err := sigstore.LoadTrustedRoot(doc)
		if (tr == nil) != (err != nil) {
			t.Fatalf("got %v and %v", tr, err)
		}
		if err != nil {
			return
		}
		if _, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "ci", Issuer: issuer, Subject: builder}}, sigstore.Options{TrustedRoot: tr}); err != nil {
			t.Log(err) // a root without a log is of no use, and says so
		}
	})
}

func FuzzLoadSigningConfig(f *testing.F) {
	doc := virtual.SigningConfig("https://services.example")
	f.Add(doc)
	var tree map[string]any
	if err := json.Unmarshal(doc, &tree); err != nil {
		f.Fatal(err)
	}
	for field, was := range tree {
		for _, other := range []any{nil, map[string]any{}, []any{}, "x"} {
			tree[field] = other
			f.Add(encode(f, tree))
		}
		tree[field] = was
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		services, err := sigstore.LoadSigningConfig(doc, now)
		if (services.Certificates == nil || services.Log == nil) != (err != nil) {
			t.Fatalf("got %+v and %v", services, err)
		}
	})
}
