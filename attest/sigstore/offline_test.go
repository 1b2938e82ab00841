package sigstore_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/attest/sigstore/virtual"
)

// noNetwork counts who asks it, and answers nobody.
type noNetwork struct{ asked *atomic.Int64 }

func (n noNetwork) RoundTrip(*http.Request) (*http.Response, error) {
	n.asked.Add(1)
	return nil, errors.New("no network")
}

// Offline is offline: with the default client and resolver watched, local keys
// and certificates are verified, refused, and signed with as before.
func TestNobodyIsAsked(t *testing.T) {
	transport, resolver := http.DefaultTransport, net.DefaultResolver
	t.Cleanup(func() { http.DefaultTransport, net.DefaultResolver = transport, resolver })
	var asked, lookedUp atomic.Int64
	http.DefaultTransport = noNetwork{&asked}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		lookedUp.Add(1)
		return nil, errors.New("no network")
	}}
	d := virtual.New(t)
	key := newKey(t, keys.ECDSA)
	v, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "producer", PublicKey: key.Public()}, {Name: "ci", Issuer: issuer, Subject: builder}},
		sigstore.Options{TrustedRoot: d.Material(t, virtual.RootOptions{})})
	if err != nil {
		t.Fatal(err)
	}
	for name, bundle := range map[string][]byte{"a local key": signed(t, key), "a certificate": keylessBundle(t, deployed(t, d))} {
		if _, err := v.Verify(context.Background(), bundle, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := v.Verify(context.Background(), tamperedPayload(t, bundle), now); err == nil {
			t.Errorf("%s: the tampered bundle was taken", name)
		}
	}
	if asked.Load() > 0 || lookedUp.Load() > 0 {
		t.Errorf("the network was asked %d times, names %d times", asked.Load(), lookedUp.Load())
	}
	_, err = (&http.Client{}).Get("http://192.0.2.1/")
	if _, lookup := net.DefaultResolver.LookupHost(context.Background(), "example.org"); err == nil || lookup == nil || asked.Load() == 0 || lookedUp.Load() == 0 {
		t.Error("asking is not noticed: the test shows nothing")
	}
}
