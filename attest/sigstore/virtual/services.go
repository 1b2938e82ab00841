package virtual

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	rekorpb "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/sigstore/sigstore-go/pkg/tlog"
)

// Identity is a certificate authority that certifies one identity, whoever
// asks, from At for ten minutes. It is a sign.CertificateProvider.
type Identity struct {
	D               *Deployment
	Issuer, Subject string
	At              time.Time
	Key             crypto.PublicKey // certified in place of the asker's, where set
}

// GetCertificate certifies the pair's public key.
func (i Identity) GetCertificate(_ context.Context, pair sign.Keypair, _ *sign.CertificateProviderOptions) ([]byte, error) {
	pub := i.Key
	if pub == nil {
		pub = pair.GetPublicKey()
	}
	return i.Certify(pub)
}

// Certify gives a certificate for a public key in DER.
func (i Identity) Certify(pub crypto.PublicKey) ([]byte, error) {
	issuer, err := asn1.MarshalWithParams(i.Issuer, "utf8")
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(3), NotBefore: i.At, NotAfter: i.At.Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		// Fulcio's OIDs: the issuer, as it is and as a DER string.
		ExtraExtensions: []pkix.Extension{
			{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(i.Issuer)},
			{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: issuer},
		},
	}
	if strings.Contains(i.Subject, "://") {
		u, err := url.Parse(i.Subject)
		if err != nil {
			return nil, err
		}
		c.URIs = []*url.URL{u}
	} else {
		c.EmailAddresses = []string{i.Subject}
	}
	return x509.CreateCertificate(rand.Reader, c, i.D.certificates.issuing, pub, i.D.certificates.key)
}

// Log logs envelopes signed by certificates, at At. It is a sign.Transparency.
type Log struct {
	D  *Deployment
	At time.Time
}

// GetTransparencyLogEntry adds the log's entry to a bundle.
func (l Log) GetTransparencyLogEntry(_ context.Context, certificate []byte, b *protobundle.Bundle) error {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return errors.New("the virtual log takes certificates only")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	env := b.GetDsseEnvelope()
	sig := env.GetSignatures()[0].GetSig()
	entry, err := l.D.log.GenerateTlogEntry(leaf, &dsse.Envelope{
		PayloadType: env.GetPayloadType(), Payload: base64.StdEncoding.EncodeToString(env.GetPayload()),
		Signatures: []dsse.Signature{{Sig: base64.StdEncoding.EncodeToString(sig)}},
	}, sig, l.At.Unix(), true)
	if err != nil {
		return err
	}
	logged := entry.TransparencyLogEntry()
	logged.KindVersion = &rekorpb.KindVersion{Kind: "dsse", Version: "0.0.1"} // the library's log leaves it out
	promise, err := l.promise(logged)
	if err != nil {
		return err
	}
	logged.InclusionPromise = &rekorpb.InclusionPromise{SignedEntryTimestamp: promise}
	b.VerificationMaterial.TlogEntries = append(b.VerificationMaterial.TlogEntries, logged)
	return nil
}

// promise signs the entry with its time, as Rekor v1 does.
func (l Log) promise(entry *rekorpb.TransparencyLogEntry) ([]byte, error) {
	id, err := l.D.log.RekorLogID()
	if err != nil {
		return nil, err
	}
	return l.D.log.RekorSignPayload(tlog.RekorPayload{
		LogID: id, IntegratedTime: entry.GetIntegratedTime(), LogIndex: entry.GetLogIndex(),
		Body: base64.StdEncoding.EncodeToString(entry.GetCanonicalizedBody()),
	})
}

// Clock is a timestamp authority whose clock stands at At.
type Clock struct {
	D  *Deployment
	At time.Time
	// Over is what it stamps in place of the signature that it is shown.
	Over []byte
}

// GetTimestamp gives a TimeStampResp (RFC 3161) in DER.
func (c Clock) GetTimestamp(_ context.Context, signature []byte) ([]byte, error) {
	if c.Over != nil {
		signature = c.Over
	}
	request, err := timestamp.CreateRequest(bytes.NewReader(signature), &timestamp.RequestOptions{Hash: crypto.SHA256})
	if err != nil {
		return nil, err
	}
	return c.Answer(request)
}

// Answer answers a TimeStampReq in DER.
func (c Clock) Answer(request []byte) ([]byte, error) {
	req, err := timestamp.ParseRequest(request)
	if err != nil {
		return nil, err
	}
	ts := timestamp.Timestamp{
		HashAlgorithm: req.HashAlgorithm, HashedMessage: req.HashedMessage, Time: c.At, Nonce: req.Nonce,
		Policy: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 2}, AddTSACertificate: req.Certificates,
	}
	return ts.CreateResponseWithOpts(c.D.timestamps.issuing, c.D.timestamps.key, crypto.SHA256)
}
