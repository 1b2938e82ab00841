package schemas

import (
	"fmt"
	"slices"
	"time"

	godigest "github.com/opencontainers/go-digest"
)

// Trust is trust.yaml: whose word counts. There is no default trust. Schema: trust.v1.json.
type Trust struct {
	Schema        string        `json:"schema"`
	Functionaries []Functionary `json:"functionaries"`
	Log           LogKey        `json:"log"`
	Logs          []LogKey      `json:"logs,omitempty"` // other logs whose entries may be imported
	Witnesses     []WitnessKey  `json:"witnesses,omitempty"`
	// Policies, where it names any, are the only policies that may decide.
	Policies []godigest.Digest `json:"policies,omitempty"`
	// Deciders are the functionaries who may decide, under whichever policy they
	// sign. Without policies or deciders a policy that travels with the evidence decides nothing.
	Deciders    []string `json:"deciders,omitempty"`
	TrustedRoot string   `json:"trustedRoot,omitempty"` // path of a Sigstore trusted root, from the trust file's folder
}

// Check refuses deciders whom the file does not name: a slip of the pen would
// leave nobody who may decide, or somebody who joins later under that name. It
// refuses two keys for the log of one origin.
func (t Trust) Check() error {
	origins := map[string]bool{t.Log.Origin: true}
	for _, l := range t.Logs {
		if origins[l.Origin] {
			return fmt.Errorf("logs: got %q twice, or as the file's own log too; want each origin once", l.Origin)
		}
		origins[l.Origin] = true
	}
	for _, name := range t.Deciders {
		if !slices.ContainsFunc(t.Functionaries, func(f Functionary) bool { return f.Name == name }) {
			return fmt.Errorf("deciders: got %q, want the name of a functionary of this file", name)
		}
	}
	return nil
}

// Functionary is one signer: a public key, several that rotate, or a certificate
// identity. However many keys one has, a threshold counts one.
type Functionary struct {
	Name      string           `json:"name"`
	Key       string           `json:"key,omitempty"`     // PEM (PKIX)
	Keys      []FunctionaryKey `json:"keys,omitempty"`    // in place of key, each with its own period
	Issuer    string           `json:"issuer,omitempty"`  // OIDC issuer, exact
	Subject   string           `json:"subject,omitempty"` // certificate subject alternative name, exact
	NotBefore *time.Time       `json:"notBefore,omitempty"`
	NotAfter  *time.Time       `json:"notAfter,omitempty"` // a key is expired at this moment
}

// FunctionaryKey is one key of a functionary in its period. A retired key
// verifies what it signed in its period and nothing later; whose word counts
// for the time is the log's, or a timestamp authority's of the trusted root.
type FunctionaryKey struct {
	Key       string     `json:"key"` // PEM (PKIX)
	NotBefore *time.Time `json:"notBefore,omitempty"`
	NotAfter  *time.Time `json:"notAfter,omitempty"` // expired at this moment
}

// LogKey pins a log: C2SP origin and note verifier key.
type LogKey struct {
	Origin string `json:"origin"`
	Key    string `json:"key"` // golang.org/x/mod/sumdb/note verifier key
}

// WitnessKey pins a witness: the name and verifier key of its cosignatures
// (C2SP tlog-cosignature, Ed25519), and where it can be asked for one.
type WitnessKey struct {
	Origin string `json:"origin"` // the key's name
	Key    string `json:"key"`    // verifier key of signature type 0x04
	// URL is the submission prefix of C2SP tlog-witness. It says where to ask,
	// never whom to believe.
	URL string `json:"url,omitempty"`
}
