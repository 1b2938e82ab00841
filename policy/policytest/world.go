// Package policytest makes small signed worlds for tests of those who decide
// over claims: real keys, real Statements, real bundles, claims that verified.
package policytest

import (
	"context"
	"strings"
	"testing"
	"time"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// Repository and Revision are the publisher's pin of every world.
const (
	Repository = "example/model"
	Revision   = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
)

// Now is the moment at which everything is signed and verified.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// People are whom every world trusts. The policy names the first two; Alias
// signs with the producer's key, and Successor is the producer with a second key.
const (
	Producer   = "producer"
	Gatekeeper = "gatekeeper"
	Second     = "second"
	Stranger   = "stranger"
	Alias      = "alias"
	Successor  = "successor"
)

// World is an example release with the steps that lead to it, which a test
// changes before it signs them.
type World struct {
	PolicyBody []byte
	Policy     schemas.Policy
	Steps      []*Step

	Signers  map[string]attest.Signer
	Verifier attest.Verifier // of everybody but Alias
	alias    attest.Verifier
}

// Signed is a world's evidence.
type Signed struct {
	policy.Evidence
	Bundles [][]byte // as Claims
	byStep  map[string][]attest.Claim
}

// New reads a policy template and lays out a chain that passes it in every decision.
func New(t testing.TB, template string) *World {
	t.Helper()
	w := &World{Signers: map[string]attest.Signer{}, Steps: Chain()}
	w.PolicyBody = []byte(strings.NewReplacer("@REPOSITORY@", Repository, "@REVISION@", Revision).Replace(template))
	if err := schemas.DecodeYAML("policy.yaml", w.PolicyBody, schemas.PolicyURI, &w.Policy); err != nil {
		t.Fatal(err)
	}
	var trusted []sigstore.Functionary
	for _, name := range []string{Producer, Gatekeeper, Second, Stranger} {
		key, err := keys.Generate(keys.Ed25519)
		if err != nil {
			t.Fatal(err)
		}
		if w.Signers[name], err = sigstore.NewSigner(key); err != nil {
			t.Fatal(err)
		}
		trusted = append(trusted, sigstore.Functionary{Name: name, PublicKey: key.Public()})
	}
	second, err := keys.Generate(keys.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	if w.Signers[Successor], err = sigstore.NewSigner(second); err != nil {
		t.Fatal(err)
	}
	first := trusted[0].PublicKey
	trusted[0] = sigstore.Functionary{Name: Producer, Keys: []sigstore.Key{{PublicKey: first}, {PublicKey: second.Public()}}}
	w.Signers[Alias] = w.Signers[Producer]
	w.Verifier = verifier(t, trusted)
	w.alias = verifier(t, []sigstore.Functionary{{Name: Alias, PublicKey: first}})
	return w
}

func verifier(t testing.TB, trusted []sigstore.Functionary) attest.Verifier {
	t.Helper()
	v, err := sigstore.NewVerifier(trusted, sigstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// PolicyDigest is the sha256 of the policy's bytes.
func (w *World) PolicyDigest() godigest.Digest { return godigest.FromBytes(w.PolicyBody) }

// Step finds a step by its name.
func (w *World) Step(t testing.TB, name string) *Step {
	t.Helper()
	for _, s := range w.Steps {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("the world has no step %q", name)
	return nil
}

// Drop leaves steps out.
func (w *World) Drop(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		gone := w.Step(t, name)
		var rest []*Step
		for _, s := range w.Steps {
			if s != gone {
				rest = append(rest, s)
			}
		}
		w.Steps = rest
	}
}

// Add puts steps behind the named one; behind all with an empty name.
func (w *World) Add(t testing.TB, after string, steps ...*Step) {
	t.Helper()
	if after == "" {
		w.Steps = append(w.Steps, steps...)
		return
	}
	last := w.Step(t, after)
	var all []*Step
	for _, s := range w.Steps {
		all = append(all, s)
		if s == last {
			all = append(all, steps...)
		}
	}
	w.Steps = all
}

// Sign states, signs and verifies every step in order.
func (w *World) Sign(t testing.TB) *Signed {
	t.Helper()
	s := &Signed{Evidence: policy.Evidence{Objects: map[godigest.Digest][]byte{}, Places: map[godigest.Digest]policy.Place{}}, byStep: map[string][]attest.Claim{}}
	for _, step := range w.Steps {
		statement := step.statement(t, w, s)
		for _, by := range step.By {
			bundle, err := w.Signers[by].Sign(context.Background(), statement)
			if err != nil {
				t.Fatalf("step %s: %v", step.Name, err)
			}
			v := w.Verifier
			if by == Alias { // one key signs one Statement alike: without this it were one bundle
				v, bundle = w.alias, append(bundle, '\n')
			}
			claim, err := v.Verify(context.Background(), bundle, Now)
			if err != nil {
				t.Fatalf("step %s: %v", step.Name, err)
			}
			s.Places[claim.Bundle()] = policy.Place{Index: int64(len(s.Claims)), Appended: step.moment()}
			s.Claims = append(s.Claims, claim)
			s.Size++
			s.Bundles = append(s.Bundles, bundle)
			s.byStep[step.Name] = append(s.byStep[step.Name], claim)
		}
	}
	return s
}

// Claim is the first claim of a step.
func (s *Signed) Claim(t testing.TB, step string) attest.Claim {
	t.Helper()
	if len(s.byStep[step]) == 0 {
		t.Fatalf("step %q is not signed", step)
	}
	return s.byStep[step][0]
}
