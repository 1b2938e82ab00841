package sigstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/attest/sigstore/virtual"
)

// stamped signs with a key and a timestamp by any clock, unverified, so that
// nothing refuses to make what must be refused.
func stamped(t *testing.T, d *virtual.Deployment, clocks ...virtual.Clock) (sigstore.Functionary, []byte) {
	t.Helper()
	key := newKey(t, keys.ECDSA)
	b := sealed(t, key, attest.PayloadType, []byte(good))
	var list []any
	for _, clock := range clocks {
		ts, err := clock.GetTimestamp(context.Background(), signatureOf(t, b))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, map[string]any{"signedTimestamp": ts})
	}
	b["verificationMaterial"].(map[string]any)["timestampVerificationData"] = map[string]any{"rfc3161Timestamps": list}
	return sigstore.Functionary{Name: "producer", PublicKey: key.Public()}, encode(t, b)
}

// A timestamp vouches for the time: the key was valid then, whatever is asked now.
func TestTimestampVouchesForAKey(t *testing.T) {
	d := virtual.New(t)
	other := virtual.New(t)
	at := d.Now.AddDate(-1, 0, 0)
	late := d.Now.AddDate(1, 0, 0)
	inTime := func(f *sigstore.Functionary) { f.NotBefore, f.NotAfter = at, at.Add(time.Second) }
	for _, c := range []struct {
		name   string
		clocks []virtual.Clock
		trust  func(*sigstore.Functionary)
		root   virtual.RootOptions
		check  attest.Check
		words  string
	}{
		{"in the key's period, which ended long ago", []virtual.Clock{{D: d, At: at}}, inTime, virtual.RootOptions{}, "", ""},
		{"exactly when the key expires", []virtual.Clock{{D: d, At: at}}, func(f *sigstore.Functionary) { f.NotAfter = at }, virtual.RootOptions{}, attest.CheckValidity, "a timestamp authority vouches for, expired"},
		{"before the key's period", []virtual.Clock{{D: d, At: at}}, func(f *sigstore.Functionary) { f.NotBefore = at.Add(time.Second) }, virtual.RootOptions{}, attest.CheckValidity, "at or after"},
		{"of another signature", []virtual.Clock{{D: d, At: at, Over: []byte("another signature")}}, inTime, virtual.RootOptions{}, attest.CheckTimestamp, "hashed messages don't match"},
		{"by an authority that nobody trusts", []virtual.Clock{{D: other, At: at}}, inTime, virtual.RootOptions{}, attest.CheckTimestamp, "unable to verify"},
		{"by an authority that the root does not name", []virtual.Clock{{D: d, At: at}}, inTime, virtual.RootOptions{WithoutTimestamps: true}, attest.CheckTimestamp, "unable to verify"},
		{"after the authority's period", []virtual.Clock{{D: d, At: at}}, inTime, virtual.RootOptions{TimestampsTo: at.Add(-time.Second)}, attest.CheckTimestamp, "after the validity period end"},
		{"before the authority's period", []virtual.Clock{{D: d, At: at}}, inTime, virtual.RootOptions{TimestampsFrom: at.Add(time.Second)}, attest.CheckTimestamp, "before the validity period start"},
		{"outside the authority's certificate", []virtual.Clock{{D: d, At: d.Now.AddDate(-11, 0, 0)}}, func(*sigstore.Functionary) {}, virtual.RootOptions{TimestampsFrom: d.Now.AddDate(-20, 0, 0)}, attest.CheckTimestamp, "unable to verify"},
		{"a bad one beside a good one", []virtual.Clock{{D: d, At: at}, {D: other, At: at}}, inTime, virtual.RootOptions{}, attest.CheckTimestamp, "unable to verify"},
		{"two of one authority", []virtual.Clock{{D: d, At: at}, {D: d, At: at}}, inTime, virtual.RootOptions{}, attest.CheckTimestamp, "duplicate timestamps"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, bundle := stamped(t, d, c.clocks...)
			c.trust(&f)
			v, err := sigstore.NewVerifier([]sigstore.Functionary{f}, sigstore.Options{TrustedRoot: d.Material(t, c.root)})
			if err != nil {
				t.Fatal(err)
			}
			claim, err := v.Verify(context.Background(), bundle, late)
			if c.check != "" {
				wantRefused(t, err, c.check, c.words)
				return
			}
			if err != nil || !claim.SignedAt().Equal(at) {
				t.Errorf("vouched %v, %v; want %v", claim.SignedAt(), err, at)
			}
		})
	}
	// Without a trusted root nobody vouches, and the moment asked for decides.
	f, bundle := stamped(t, d, virtual.Clock{D: d, At: at})
	inTime(&f)
	_, err := trusting(t, f).Verify(context.Background(), bundle, late)
	wantRefused(t, err, attest.CheckValidity, "the moment asked for, expired")
	if claim, err := trusting(t, f).Verify(context.Background(), bundle, at); err != nil || !claim.SignedAt().IsZero() {
		t.Errorf("vouched %v without a root, %v", claim.SignedAt(), err)
	}
}

func TestSigningAsksForATimestamp(t *testing.T) {
	d := virtual.New(t)
	at := d.Now.AddDate(-1, 0, 0)
	key := newKey(t, keys.ECDSA)
	material := d.Material(t, virtual.RootOptions{})
	signer, err := sigstore.NewSignerWith(key, sigstore.SignerOptions{Timestamps: virtual.Clock{D: d, At: at}, TrustedRoot: material})
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := signer.Sign(context.Background(), statement(t))
	if err != nil {
		t.Fatal(err)
	}
	v, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "producer", PublicKey: key.Public()}}, sigstore.Options{TrustedRoot: material})
	if err != nil {
		t.Fatal(err)
	}
	if claim, err := v.Verify(context.Background(), bundle, now); err != nil || !claim.SignedAt().Equal(at) {
		t.Errorf("vouched %v, %v; want %v", claim.SignedAt(), err, at)
	}

	for name, c := range map[string]struct {
		clock sigstore.Timestamper
		words string
	}{
		"a timestamp of another signature":  {virtual.Clock{D: d, At: at, Over: []byte("x")}, "thrown away: timestamp"},
		"a timestamp of an unknown service": {virtual.Clock{D: virtual.New(t), At: at}, "thrown away: timestamp"},
		"no timestamp":                      {silent{}, "out of time"},
		"garbage":                           {garbage{}, "thrown away: timestamp"},
	} {
		t.Run(name, func(t *testing.T) {
			signer, err := sigstore.NewSignerWith(key, sigstore.SignerOptions{Timestamps: c.clock, TrustedRoot: material})
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := signer.Sign(context.Background(), statement(t))
			if err == nil || bundle != nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %d bytes and %v, want an error with %q", len(bundle), err, c.words)
			}
		})
	}
	if _, err := sigstore.NewSignerWith(key, sigstore.SignerOptions{Timestamps: silent{}}); err == nil || !strings.Contains(err.Error(), "no trusted root") {
		t.Errorf("timestamps without a trusted root gave %v", err)
	}
}

type silent struct{}

func (silent) GetTimestamp(context.Context, []byte) ([]byte, error) {
	return nil, errors.New("the authority is out of time")
}

type garbage struct{}

func (garbage) GetTimestamp(context.Context, []byte) ([]byte, error) { return []byte("noon"), nil }
