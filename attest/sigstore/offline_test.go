package sigstore_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/attest/sigstore/virtual"
)

// noNetwork counts who asks it, and answers nobody.
type noNetwork struct{ asked *[]string }

func (n noNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	*n.asked = append(*n.asked, r.URL.String())
	return nil, errors.New("no network")
}

// Offline is offline: with the default client and resolver gone, local keys and
// certificates are verified, refused, and signed with as before.
func TestNobodyIsAsked(t *testing.T) {
	transport, resolver := http.DefaultTransport, net.DefaultResolver
	t.Cleanup(func() { http.DefaultTransport, net.DefaultResolver = transport, resolver })
	var asked []string
	http.DefaultTransport = noNetwork{&asked}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(_ context.Context, network, address string) (net.Conn, error) {
		asked = append(asked, network+" "+address)
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
	if len(asked) > 0 {
		t.Errorf("the network was asked: %v", asked)
	}
	_, err = (&http.Client{}).Get("http://192.0.2.1/")
	if _, lookup := net.DefaultResolver.LookupHost(context.Background(), "example.org"); err == nil || lookup == nil || len(asked) < 2 {
		t.Errorf("asking is not noticed: the test shows nothing (%v)", asked)
	}
}
