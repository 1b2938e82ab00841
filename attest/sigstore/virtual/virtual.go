// Package virtual is a Sigstore deployment in memory for tests: a certificate
// authority, a timestamp authority and, from sigstore-go, a transparency log.
// It signs for anybody whatever is asked, at any time, so that tests can make
// what must be refused. Its trusted root is JSON as the real tools read it.
package virtual

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
)

// Deployment is one virtual Sigstore. Its authorities are valid from ten years
// before Now to ten years after it.
type Deployment struct {
	Now time.Time

	certificates, timestamps authority
	log                      *ca.VirtualSigstore
	tsaURL                   string
}

// authority is a root and an intermediate, or for timestamps the leaf.
type authority struct {
	root, issuing *x509.Certificate
	key           *ecdsa.PrivateKey
}

// New makes a deployment. now must be the present for the log's sake.
func New(t testing.TB) *Deployment {
	t.Helper()
	log, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	d := &Deployment{Now: time.Now().Truncate(time.Second).UTC(), log: log, tsaURL: "https://tsa.example"}
	d.certificates = d.authority(t, "certificates", func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	})
	d.timestamps = d.authority(t, "timestamps", func(c *x509.Certificate) {
		c.KeyUsage = x509.KeyUsageDigitalSignature
		usage, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
		if err != nil {
			t.Fatal(err)
		}
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: usage}}
	})
	return d
}

func (d *Deployment) authority(t testing.TB, name string, shape func(*x509.Certificate)) authority {
	t.Helper()
	rootKey, key := newKey(t), newKey(t)
	from, to := d.Now.AddDate(-10, 0, 0), d.Now.AddDate(10, 0, 0)
	top := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name + " root", Organization: []string{"virtual"}},
		NotBefore: from, NotAfter: to, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		SubjectKeyId: []byte{1, 2, 3, 4},
	}
	top = issue(t, top, top, rootKey.Public(), rootKey)
	issuing := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: []string{"virtual"}}, NotBefore: from, NotAfter: to, SubjectKeyId: []byte{5, 6, 7, 8}}
	shape(issuing)
	return authority{top, issue(t, issuing, top, key.Public(), rootKey), key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func issue(t testing.TB, template, parent *x509.Certificate, pub crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, by)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// RootOptions change what the trusted root says.
type RootOptions struct {
	WithCTLog           bool      // name a log of certificates, which this deployment's certificates are not in
	WithoutTimestamps   bool      // name no timestamp authority
	TimestampsFrom      time.Time // the timestamp authority's period; zero: no bound
	TimestampsTo        time.Time
	WithoutCertificates bool
}

// TrustedRoot gives the deployment's trusted root in JSON.
func (d *Deployment) TrustedRoot(t testing.TB, opt RootOptions) []byte {
	t.Helper()
	var authorities []root.CertificateAuthority
	if !opt.WithoutCertificates {
		authorities = append(authorities, &root.FulcioCertificateAuthority{
			Root: d.certificates.root, Intermediates: []*x509.Certificate{d.certificates.issuing},
			ValidityPeriodStart: d.certificates.root.NotBefore, ValidityPeriodEnd: d.certificates.root.NotAfter, URI: "https://ca.example",
		})
	}
	var stampers []root.TimestampingAuthority
	if !opt.WithoutTimestamps {
		from := opt.TimestampsFrom
		if from.IsZero() {
			from = d.timestamps.root.NotBefore
		}
		stampers = append(stampers, &root.SigstoreTimestampingAuthority{
			Root: d.timestamps.root, Leaf: d.timestamps.issuing,
			ValidityPeriodStart: from, ValidityPeriodEnd: opt.TimestampsTo, URI: d.tsaURL,
		})
	}
	ct := map[string]*root.TransparencyLog{}
	if opt.WithCTLog {
		ct = d.withID(t, d.log.CTLogs())
	}
	tr, err := root.NewTrustedRoot(root.TrustedRootMediaType01, authorities, ct, stampers, d.withID(t, d.log.RekorLogs()))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := tr.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// withID gives the library's virtual logs their ids in bytes, and the
// deployment's period.
func (d *Deployment) withID(t testing.TB, logs map[string]*root.TransparencyLog) map[string]*root.TransparencyLog {
	t.Helper()
	for id, log := range logs {
		raw, err := hex.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		log.ID, log.SignatureHashFunc = raw, crypto.SHA256
		log.ValidityPeriodStart, log.ValidityPeriodEnd = d.certificates.root.NotBefore, d.certificates.root.NotAfter
	}
	return logs
}

// Material is the trusted root, loaded.
func (d *Deployment) Material(t testing.TB, opt RootOptions) root.TrustedMaterial {
	t.Helper()
	tr, err := root.NewTrustedRootFromJSON(d.TrustedRoot(t, opt))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}
