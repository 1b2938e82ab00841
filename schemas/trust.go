package schemas

import (
	"time"

	godigest "github.com/opencontainers/go-digest"
)

// Trust is trust.yaml: whose word counts. There is no default trust. Schema: trust.v1.json.
type Trust struct {
	Schema        string        `json:"schema"`
	Functionaries []Functionary `json:"functionaries"`
	Log           LogKey        `json:"log"`
	Witnesses     []LogKey      `json:"witnesses,omitempty"`
	// Policies, where it names any, are the only policies that may decide. Without
	// it every functionary can write a policy that lets himself decide.
	Policies    []godigest.Digest `json:"policies,omitempty"`
	TrustedRoot string            `json:"trustedRoot,omitempty"` // path of a Sigstore trusted root, for certificate identities
}

// Functionary is one signer: a public key, or a certificate identity.
type Functionary struct {
	Name      string     `json:"name"`
	Key       string     `json:"key,omitempty"`     // PEM (PKIX)
	Issuer    string     `json:"issuer,omitempty"`  // OIDC issuer, exact
	Subject   string     `json:"subject,omitempty"` // certificate subject alternative name, exact
	NotBefore *time.Time `json:"notBefore,omitempty"`
	NotAfter  *time.Time `json:"notAfter,omitempty"` // a key is expired at this moment
}

// LogKey pins a log or witness: C2SP origin and note verifier key.
type LogKey struct {
	Origin string `json:"origin"`
	Key    string `json:"key"` // golang.org/x/mod/sumdb/note verifier key
}
