package virtual

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	dssepb "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
)

// Serve answers as Fulcio, Rekor and a timestamp authority on the loopback, for
// the real tools. Everybody who asks is certified as identity i. The URL is
// good until the test ends.
func (i Identity) Serve(t testing.TB) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(path string, status int, contentType string, f func(body []byte) ([]byte, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
			if err == nil {
				body, err = f(body)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("ETag", entryID) // under which Rekor's clients look up the entry
			w.WriteHeader(status)
			_, _ = w.Write(body) // a client that went away has lost nothing of ours
		})
	}
	answer("/api/v2/signingCert", http.StatusOK, "application/json", i.fulcio)
	answer("/api/v1/log/entries", http.StatusCreated, "application/json", Log{i.D, i.At.Add(time.Minute)}.rekor)
	answer("/api/v1/timestamp", http.StatusCreated, "application/timestamp-reply", Clock{D: i.D, At: i.At.Add(time.Minute)}.Answer)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// entryID names the one entry of each answer.
const entryID = "00"

// SigningConfig is the document that points cosign to a served deployment.
func SigningConfig(url string) []byte {
	return fmt.Appendf(nil, `{"mediaType":%q,"caUrls":%s,"oidcUrls":%[2]s,"rekorTlogUrls":%[2]s,"rekorTlogConfig":{"selector":"ANY"},"tsaUrls":%s,"tsaConfig":{"selector":"ANY"}}`,
		configType, service(url), service(url+"/api/v1/timestamp"))
}

// TimestampConfig points cosign to a served deployment's timestamp authority alone.
func TimestampConfig(url string) []byte {
	return fmt.Appendf(nil, `{"mediaType":%q,"rekorTlogConfig":{},"tsaUrls":%s,"tsaConfig":{"selector":"ANY"}}`, configType, service(url+"/api/v1/timestamp"))
}

const configType = "application/vnd.dev.sigstore.signingconfig.v0.2+json"

func service(url string) string {
	return fmt.Sprintf(`[{"url":%q,"majorApiVersion":1,"validFor":{"start":"2020-01-01T00:00:00Z"},"operator":"virtual"}]`, url)
}

// Token is an OIDC token of an address as clients read it; nobody here checks it.
func Token(address string) string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"RS256"}`) + "." + part(fmt.Sprintf(`{"email":%q,"email_verified":true,"iss":"https://issuer.example","sub":%[1]q,"exp":9999999999}`, address)) + "." + part("none")
}

func (i Identity) fulcio(body []byte) ([]byte, error) {
	var request struct {
		PublicKeyRequest struct {
			PublicKey struct{ Content string }
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(request.PublicKeyRequest.PublicKey.Content))
	if block == nil {
		return nil, fmt.Errorf("no public key in PEM")
	}
	pub, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	der, err := i.Certify(pub)
	if err != nil {
		return nil, err
	}
	var chain []string
	for _, c := range [][]byte{der, i.D.certificates.issuing.Raw, i.D.certificates.root.Raw} {
		chain = append(chain, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c})))
	}
	return json.Marshal(map[string]any{"signedCertificateEmbeddedSct": map[string]any{"chain": map[string]any{"certificates": chain}}})
}

func (l Log) rekor(body []byte) ([]byte, error) {
	var request struct {
		Kind string
		Spec struct {
			ProposedContent struct {
				Envelope  string
				Verifiers [][]byte
			}
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	content := request.Spec.ProposedContent
	if request.Kind != "dsse" || len(content.Verifiers) != 1 {
		return nil, fmt.Errorf("got an entry of kind %q, want dsse", request.Kind)
	}
	var envelope struct {
		Payload     []byte
		PayloadType string
		Signatures  []struct{ Sig []byte }
	}
	if err := json.NewDecoder(bytes.NewReader([]byte(content.Envelope))).Decode(&envelope); err != nil || len(envelope.Signatures) != 1 {
		return nil, fmt.Errorf("the envelope: %d signatures, %w", len(envelope.Signatures), err)
	}
	b := &protobundle.Bundle{
		VerificationMaterial: &protobundle.VerificationMaterial{},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &dssepb.Envelope{
			Payload: envelope.Payload, PayloadType: envelope.PayloadType, Signatures: []*dssepb.Signature{{Sig: envelope.Signatures[0].Sig}},
		}},
	}
	if err := l.GetTransparencyLogEntry(context.Background(), content.Verifiers[0], b); err != nil {
		return nil, err
	}
	entry := b.VerificationMaterial.TlogEntries[0]
	proof := entry.GetInclusionProof()
	hashes := []string{}
	for _, h := range proof.GetHashes() {
		hashes = append(hashes, hex.EncodeToString(h))
	}
	return json.Marshal(map[string]any{entryID: map[string]any{
		"body":           base64.StdEncoding.EncodeToString(entry.GetCanonicalizedBody()),
		"integratedTime": entry.GetIntegratedTime(),
		"logID":          hex.EncodeToString(entry.GetLogId().GetKeyId()),
		"logIndex":       entry.GetLogIndex(),
		"verification": map[string]any{
			"signedEntryTimestamp": entry.GetInclusionPromise().GetSignedEntryTimestamp(),
			"inclusionProof": map[string]any{
				"checkpoint": proof.GetCheckpoint().GetEnvelope(), "hashes": hashes, "logIndex": proof.GetLogIndex(),
				"rootHash": hex.EncodeToString(proof.GetRootHash()), "treeSize": proof.GetTreeSize(),
			},
		},
	}})
}
