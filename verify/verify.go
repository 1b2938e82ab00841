// Package verify is the auditor: it checks a file with its evidence (a package,
// a ledger or loose bundles) against a trust file and the policy that decided,
// in numbered checks, each of which shows what it got and what it wanted; see
// schemas/verify.md. It runs nothing, asks no network and trusts nothing that
// the trust file does not name.
package verify

import (
	"context"
	"fmt"
	"io"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// Verifier holds whom to believe. There is no default trust: every field is
// required, but for Logs, Policies, Witnesses and Deciders.
//
// A policy names who may decide, and it travels in the package. Who signs for
// any stage could therefore write a policy that lets himself decide. So a
// reader pins the policy, by Policies or by [Input.Policy], or says who may
// decide, by Deciders; without any of these the policy is undecided.
type Verifier struct {
	Claims attest.Verifier
	Log    note.Verifier
	Origin string // of the log that the trust file pins
	// Logs are other logs whose word counts for when an entry that was imported
	// from them was there. Without them the pinned log's word counts alone.
	Logs     []note.Verifier
	Decision string // which decision must hold: accept, deliver or redistribute
	At       time.Time
	// Policies, where there are any, are the only policies (sha256 of their bytes) that may have decided.
	Policies []godigest.Digest
	// Witnesses are whose cosignatures count, see [ledger.ParseWitnessKeys].
	Witnesses []note.Verifier
	// Deciders are the functionaries who may decide, under a policy of their own too.
	Deciders []string
}

// Input is what is verified.
type Input struct {
	Name string // the file's base name
	Size int64  // bytes
	File io.Reader
	// Package is the evidence: an evidence package, what was collected from a
	// ledger, or loose bundles.
	Package *evidence.Package
	// Policy, where given, is the only policy that will do; a package's own must be
	// the same bytes. Loose bundles bring none, so that it must be given.
	Policy []byte
	// WithoutLog does not ask loose bundles for the log that they came without:
	// checks 2 to 4 are not made. Who left a bundle out cannot be seen then, and keys
	// must be valid at Verifier.At unless a bundle's own timestamp vouches for a moment.
	WithoutLog bool
}

// Finding is one difference that a check saw.
type Finding struct {
	Where string `json:"where"`
	Got   string `json:"got"`
	Want  string `json:"want"`
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: got %s, want %s", f.Where, f.Got, f.Want)
}

// Check is one numbered check; schemas/verify.md says what each looks at.
type Check struct {
	Number   int             `json:"number"`
	Name     string          `json:"name"`
	Spec     string          `json:"spec"` // what it follows
	Verdict  schemas.Verdict `json:"verdict"`
	Note     string          `json:"note"` // what was seen when it holds
	Findings []Finding       `json:"findings"`
}

// Result is the outcome of a verification: failed when any check failed, else
// undecided when any could not be made, else passed.
type Result struct {
	File     string           `json:"file"`
	Digest   godigest.Digest  `json:"digest"`
	Decision string           `json:"decision"`
	Verdict  schemas.Verdict  `json:"verdict"`
	Checks   []Check          `json:"checks"`
	Policy   *policy.Decision `json:"policy,omitempty"` // every reason, where the policy could be asked
}

// state is what the checks learn from one another.
type state struct {
	v        Verifier
	in       Input
	digest   godigest.Digest
	measured map[string]string // digests of the file by algorithm, as subjects name them
	size     int64             // entries of the log, as the checkpoint vouches
	seen     []policy.Cosignature
	claims   []attest.Claim
	places   map[godigest.Digest]policy.Place // of the claims in the log, by bundle
	policy   *schemas.Policy
	polHash  godigest.Digest
	answer   *policy.Decision
}

// Verify makes every check that can be made. An error means that the file could
// not be read or that the Verifier is incomplete.
func (v Verifier) Verify(ctx context.Context, in Input) (Result, error) {
	if v.Claims == nil || v.Log == nil || v.Origin == "" || v.Decision == "" || v.At.IsZero() {
		return Result{}, fmt.Errorf("verify: claims verifier, log key, origin, decision and time must all be given; there is no default trust")
	}
	sums, measured, err := measure(ctx, in)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", in.Name, err)
	}
	s := &state{v: v, in: in, digest: sums.SHA256, measured: measured, places: map[godigest.Digest]policy.Place{}}
	res := Result{File: in.Name, Digest: s.digest, Decision: v.Decision, Verdict: schemas.Passed}
	for _, c := range checks {
		if in.WithoutLog && in.Package.Loose && ofLog[c.name] {
			continue
		}
		res.add(c.run(ctx, s, c))
	}
	for _, c := range s.policyChecks() {
		res.add(c)
	}
	res.Policy = s.answer
	return res, nil
}

func (r *Result) add(c Check) {
	c.Number = numbers[c.Name]
	if c.Findings == nil {
		c.Findings = []Finding{}
	}
	r.Checks = append(r.Checks, c)
	switch {
	case c.Verdict == schemas.Failed:
		r.Verdict = schemas.Failed
	case c.Verdict != schemas.Passed && r.Verdict == schemas.Passed:
		r.Verdict = schemas.Undecided
	}
}

// checkKind is one kind of check: its name, what it follows, and the function that makes it.
type checkKind struct {
	name, spec string
	run        func(context.Context, *state, checkKind) Check
}

func (k checkKind) passed(format string, args ...any) Check {
	return Check{Name: k.name, Spec: k.spec, Verdict: schemas.Passed, Note: fmt.Sprintf(format, args...)}
}

func (k checkKind) failed(findings ...Finding) Check {
	return Check{Name: k.name, Spec: k.spec, Verdict: schemas.Failed, Findings: findings}
}

func (k checkKind) undecided(findings ...Finding) Check {
	return Check{Name: k.name, Spec: k.spec, Verdict: schemas.Undecided, Findings: findings}
}
