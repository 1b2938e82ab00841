package verify

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// checks are made in this order; the policy's rules follow them.
var checks = []checkKind{
	{"file", "in-toto Statement v1, DigestSet", checkFile},
	{"checkpoint", "C2SP tlog-checkpoint", checkCheckpoint},
	{"bundles", "ledger leaf v1", checkBundles},
	{"inclusion", "C2SP tlog-proof, RFC 6962 section 2.1.1", checkInclusion},
	{"signatures", "DSSE v1, Sigstore bundle v0.3", checkSignatures},
	{"name", "in-toto Statement v1, subject", checkName},
	{"objects", "SLSA provenance v1, byproducts", checkObjects},
	{"policy document", "policy v1", checkPolicy},
}

// ofLog are the checks that hold the evidence against a log.
var ofLog = map[string]bool{"checkpoint": true, "bundles": true, "inclusion": true}

// noLog is what those checks find where bundles came without one.
var noLog = Finding{"log", "loose bundles, which no log vouches for", "an evidence package; or do without a log, knowing that a bundle left out cannot be seen (--without-log)"}

// checkFile holds the file's bytes against the package that came with it.
func checkFile(_ context.Context, s *state, k checkKind) Check {
	if s.in.Package.Loose {
		return k.passed("%s, %d bytes; bound by name and digest in check %d", s.digest, s.in.Size, numbers["name"])
	}
	want := s.in.Package.Index.File
	if s.in.Name != want.Name {
		return k.failed(Finding{"name of the file", s.in.Name, want.Name + ": the file that the evidence is about"})
	}
	if s.digest != want.Digest || s.in.Size != want.Size {
		return k.failed(Finding{s.in.Name, fmt.Sprintf("%s, %d bytes", s.digest, s.in.Size), fmt.Sprintf("%s, %d bytes: the file that the evidence is about", want.Digest, want.Size)})
	}
	return k.passed("%s, %d bytes", s.digest, s.in.Size)
}

// checkCheckpoint wants the package's checkpoint to be signed by the pinned log.
func checkCheckpoint(_ context.Context, s *state, k checkKind) Check {
	if s.in.Package.Loose {
		return k.undecided(noLog)
	}
	cp, err := ledger.ParseCheckpoint(s.in.Package.Checkpoint, s.v.Log)
	if err != nil {
		return k.failed(Finding{"checkpoint", err.Error(), "a checkpoint signed by " + s.v.Log.Name()})
	}
	if cp.Origin != s.v.Origin || s.in.Package.Index.Origin != s.v.Origin {
		return k.failed(Finding{"checkpoint origin", cp.Origin + " and " + s.in.Package.Index.Origin, s.v.Origin})
	}
	cosignatures, err := ledger.Cosignatures(s.in.Package.Checkpoint, s.v.Log, s.v.Witnesses)
	if err != nil {
		return k.failed(Finding{"cosignatures", err.Error(), "valid ones by witnesses of the trust file, or none"})
	}
	for _, c := range cosignatures {
		s.seen = append(s.seen, policy.Cosignature{Name: c.Name, Time: c.Time})
	}
	s.size = cp.Size
	return k.passed("%s, %d entries, %d of %d witnesses", cp.Origin, cp.Size, len(cosignatures), len(s.v.Witnesses))
}

// checkBundles wants each leaf to be the leaf of the bundle beside it.
func checkBundles(_ context.Context, s *state, k checkKind) Check {
	if s.in.Package.Loose {
		return k.undecided(noLog)
	}
	entries := s.in.Package.Index.Entries
	if len(entries) == 0 {
		return k.undecided(Finding{"bundles", "none", "the attestations of the file's lineage"})
	}
	var findings []Finding
	for i, e := range entries {
		if got := godigest.FromBytes(s.in.Package.Bundles[i]); got != e.Leaf.Bundle {
			findings = append(findings, Finding{fmt.Sprintf("bundle of entry %d", e.Index), got.String(), e.Leaf.Bundle.String() + " as its leaf says"})
		}
	}
	if findings != nil {
		return k.failed(findings...)
	}
	return k.passed("%d bundles", len(entries))
}

// checkInclusion wants each entry to be in the tree of a checkpoint that the
// pinned log signed, and that checkpoint to be the package's.
func checkInclusion(_ context.Context, s *state, k checkKind) Check {
	if s.in.Package.Loose {
		return k.undecided(noLog)
	}
	cp, err := ledger.ParseCheckpoint(s.in.Package.Checkpoint, s.v.Log)
	if err != nil {
		return k.undecided(Finding{"checkpoint", "not signed by the pinned log", "one that proofs can be held against"})
	}
	var findings []Finding
	for i, e := range s.in.Package.Index.Entries {
		where := fmt.Sprintf("proof of entry %d", e.Index)
		got, err := ledger.VerifyProof(s.in.Package.Proofs[i], e.Leaf, s.v.Log)
		var at ledger.LeafIndex
		if err == nil {
			at, err = provenIndex(s.in.Package.Proofs[i])
		}
		switch {
		case err != nil:
			findings = append(findings, Finding{where, err.Error(), "the entry's leaf in the signed tree"})
		// The order of entries decides which word is the newest, so that an entry must lie where it says.
		case at != e.Index || (i > 0 && e.Index <= s.in.Package.Index.Entries[i-1].Index):
			findings = append(findings, Finding{where, fmt.Sprintf("a proof of place %d in the log", at), fmt.Sprintf("place %d, behind the entry before it", e.Index)})
		case got.Root != cp.Root || got.Size != cp.Size:
			findings = append(findings, Finding{where, fmt.Sprintf("a tree of %d entries", got.Size), fmt.Sprintf("the checkpoint's, of %d", cp.Size)})
		}
	}
	if findings != nil {
		return k.failed(findings...)
	}
	if len(s.in.Package.Index.Entries) == 0 {
		return k.undecided(Finding{"proofs", "none", "one an entry"})
	}
	return k.passed("%d proofs against a tree of %d entries", len(s.in.Package.Proofs), cp.Size)
}

// provenIndex is the place in the log that a proof, once it verified, is about.
func provenIndex(proof []byte) (ledger.LeafIndex, error) {
	p, err := ledger.ParseProof(proof)
	return p.Index, err
}

// checkSignatures turns bundles into claims. One that cannot be a claim fails
// the check: a package holds nothing that its reader cannot believe.
func checkSignatures(ctx context.Context, s *state, k checkKind) Check {
	var findings []Finding
	for i, bundle := range s.in.Package.Bundles {
		where, claim, at, finding := s.claimOf(ctx, i, bundle)
		if finding != nil {
			finding.Where = where
			findings = append(findings, *finding)
			continue
		}
		s.claims = append(s.claims, claim)
		if !s.in.Package.Loose {
			e := s.in.Package.Index.Entries[i]
			s.places[claim.Bundle()] = policy.Place{Index: int64(e.Index), Appended: at, Imported: s.believedOrigin(e) != nil}
		}
	}
	if findings != nil {
		return k.failed(findings...)
	}
	if s.in.Package.Loose {
		s.claims = bySignedTime(s.claims)
	} else {
		s.claims = policy.InOrder(s.claims, s.places)
	}
	if len(s.claims) == 0 {
		return k.undecided(Finding{"claims", "none", "at least one"})
	}
	return k.passed("%d claims", len(s.claims))
}

// moment is when the entry at a place was appended: by the word of the pinned
// log, or of the log that it was imported from if that is believed too.
func (s *state) moment(i int) (time.Time, error) {
	e := s.in.Package.Index.Entries[i]
	leaf := e.Leaf
	if log := s.believedOrigin(e); log != nil {
		leaf = e.Imported.Leaf
		if leaf.Bundle != e.Leaf.Bundle {
			return time.Time{}, fmt.Errorf("imported from %s as bundle %s, which is another one", log.Name(), leaf.Bundle)
		}
		if _, err := ledger.VerifyProof(s.in.Package.VouchedFor(i), leaf, log); err != nil {
			return time.Time{}, fmt.Errorf("imported from %s: %w", log.Name(), err)
		}
	}
	// Another log's word makes an entry older, never newer: whoever had it later copied it.
	if leaf.Appended > e.Leaf.Appended { // RFC 3339 of one form sorts by time
		return time.Time{}, fmt.Errorf("imported from %s, which had it at %s, after it was appended here at %s", e.Imported.Origin, leaf.Appended, e.Leaf.Appended)
	}
	for _, appended := range []string{e.Leaf.Appended, leaf.Appended} {
		if at, err := time.Parse(time.RFC3339, appended); err != nil {
			return at, err
		} else if at.After(s.v.At) {
			return at, fmt.Errorf("appended %s, which is after now", appended)
		}
	}
	return time.Parse(time.RFC3339, leaf.Appended)
}

// believedOrigin is the log that an entry was imported from, if the trust file names it.
func (s *state) believedOrigin(e evidence.Entry) note.Verifier {
	for _, log := range s.v.Logs {
		if e.Imported != nil && e.Imported.Origin == log.Name() {
			return log
		}
	}
	return nil
}

// claimOf turns the bundle at a place of the package into a claim, at the moment that its log took it in.
func (s *state) claimOf(ctx context.Context, i int, bundle []byte) (where string, claim attest.Claim, at time.Time, bad *Finding) {
	const want = "one valid signature by a functionary of the trust file"
	if s.in.Package.Loose {
		where = fmt.Sprintf("bundle %d", i+1)
		claim, err := s.v.Claims.Verify(ctx, bundle, s.v.At)
		if err != nil {
			return where, claim, at, &Finding{Got: err.Error(), Want: want}
		}
		if err := s.undated(claim); err != nil {
			return where, claim, at, &Finding{Got: err.Error(), Want: "the time that it was made, since no log orders it"}
		}
		return where, claim, at, nil
	}
	e := s.in.Package.Index.Entries[i]
	where = fmt.Sprintf("bundle of entry %d", e.Index)
	// A log vouches for the moment; keys must have been valid then.
	at, err := s.moment(i)
	if err == nil {
		claim, err = s.v.Claims.Verify(ctx, bundle, at)
	}
	switch {
	case err != nil:
		return where, claim, at, &Finding{Got: err.Error(), Want: want}
	case claim.PAE() != e.Leaf.PAE || claim.PredicateType() != e.Leaf.PredicateType:
		return where, claim, at, &Finding{Got: fmt.Sprintf("%s, %s", claim.PredicateType(), claim.PAE()), Want: fmt.Sprintf("%s, %s as its leaf says", e.Leaf.PredicateType, e.Leaf.PAE)}
	}
	return where, claim, at, nil
}

// checkName wants a claim to bind the file's digest to the file's name, and
// every digest that any claim gives for the file to be the file's.
func checkName(_ context.Context, s *state, k checkKind) Check {
	var others []string
	bound := false
	for _, c := range s.claims {
		for i, subject := range c.Statement().GetSubject() {
			if subject.GetDigest()["sha256"] != s.digest.Encoded() {
				continue
			}
			if bad := s.disagreement(fmt.Sprintf("claim %s, /subject/%d/digest", c.PAE(), i), subject); bad != nil {
				return k.failed(*bad)
			}
			bound = bound || subject.GetName() == s.in.Name
			others = append(others, subject.GetName())
		}
	}
	if bound {
		return k.passed("%s", s.in.Name)
	}
	if len(others) > 0 {
		return k.failed(Finding{"name of " + s.digest.String(), s.in.Name, "the name it was made under: " + others[0]})
	}
	return k.undecided(Finding{s.in.Name, "no claim is about " + s.digest.String(), "one"})
}

// checkObjects wants every evidence object to be what its name says, and every
// result and report that a claim names to be there.
func checkObjects(_ context.Context, s *state, k checkKind) Check {
	var bad, missing []Finding
	for _, o := range s.in.Package.Index.Objects {
		if got := godigest.FromBytes(s.in.Package.Objects[o.Digest]); got != o.Digest {
			bad = append(bad, Finding{"object " + o.Digest.String(), got.String(), "the bytes of its name"})
		}
	}
	runs, faults := policy.Runs(s.claims)
	for pae, err := range faults {
		bad = append(bad, Finding{"claim " + pae.String(), err.Error(), "provenance of a stage"})
	}
	named := map[godigest.Digest]bool{}
	for _, run := range runs {
		for _, d := range run.Evidence() {
			named[d] = true
			if _, ok := s.in.Package.Objects[d]; !ok {
				missing = append(missing, Finding{fmt.Sprintf("evidence of stage %s", run.External.Stage), d.String() + " is not in the package", "its bytes"})
			}
		}
	}
	// Nobody vouches for an object that no claim names: it has no place in a package.
	// Beside loose bundles lies a folder, which may be of more than one file.
	for _, o := range s.in.Package.Index.Objects {
		if !named[o.Digest] && !s.in.Package.Loose && len(s.claims) == len(s.in.Package.Bundles) {
			missing = append(missing, Finding{"object " + o.Digest.String(), "bytes that no claim names", "the claim that names them, or no such object"})
		}
	}
	switch {
	case bad != nil:
		return k.failed(append(bad, missing...)...)
	case missing != nil:
		return k.undecided(missing...)
	}
	return k.passed("%d objects", len(s.in.Package.Objects))
}

// checkPolicy reads the policy that decided, and holds it against the one that the reader demands.
func checkPolicy(_ context.Context, s *state, k checkKind) Check {
	body := s.in.Package.Policy
	if s.in.Package.Loose {
		if s.in.Policy == nil {
			return k.undecided(Finding{"policy.yaml", "none: loose bundles bring no policy", "the policy that must have decided (--policy)"})
		}
		body = s.in.Policy
	}
	s.polHash = godigest.FromBytes(body)
	if s.in.Policy != nil && !bytes.Equal(s.in.Policy, body) {
		return k.failed(Finding{"policy.yaml", s.polHash.String(), godigest.FromBytes(s.in.Policy).String() + ", the policy that was asked for"})
	}
	if len(s.v.Policies) > 0 && !slices.Contains(s.v.Policies, s.polHash) {
		return k.failed(Finding{"policy.yaml", s.polHash.String(), fmt.Sprintf("one of %v, which the trust file pins", s.v.Policies)})
	}
	p, err := policy.Read("policy.yaml", body)
	if err != nil {
		return k.failed(Finding{"policy.yaml", err.Error(), "a valid policy that can say no"})
	}
	s.policy = &p
	if bad := s.unpinned(k); bad != nil {
		return *bad
	}
	return k.passed("%s, %s", p.Name, s.polHash)
}

// unpinned holds a policy that the reader did not pin against those whom the
// trust file lets decide: they sign which policy they decided under, so that
// nobody else's can come in its place. Nil where the policy may be asked.
func (s *state) unpinned(k checkKind) *Check {
	if s.in.Policy != nil || len(s.v.Policies) > 0 {
		return nil
	}
	where, got := "policy.yaml", s.polHash.String()+", which nobody pinned"
	var c Check
	switch decides := s.others(); {
	case len(s.v.Deciders) == 0:
		c = k.undecided(Finding{where, got, "the policy itself (--policy), its digest in the trust file (policies), or who may decide (deciders)"})
	case len(decides) > 0:
		c = k.failed(Finding{where, fmt.Sprintf("decisions by %v", decides), fmt.Sprintf("only by %v, whom the trust file lets decide, or the policy pinned", s.v.Deciders)})
	case s.v.Decision == policy.Accept:
		c = k.undecided(Finding{where, got, "the policy itself (--policy) or its digest in the trust file (policies): no signed decision under it is needed for an acceptance"})
	default:
		return nil
	}
	return &c
}

// others are whom the policy lets decide and the trust file does not.
func (s *state) others() []string {
	var list []string
	for _, rule := range s.policy.Decisions {
		for _, name := range rule.Functionaries {
			if !slices.Contains(s.v.Deciders, name) && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	slices.Sort(list)
	return list
}

// policyChecks asks the policy again, from the evidence, and gives one check a rule.
func (s *state) policyChecks() []Check {
	k := checkKind{name: "decision", spec: "policy v1"}
	if s.policy == nil {
		return []Check{k.undecided(Finding{s.v.Decision, "a policy that is not readable", "one that can be asked"})}
	}
	class, err := policy.ClassOf(*s.policy, s.claims, s.digest)
	if err != nil {
		return []Check{k.undecided(Finding{s.v.Decision, err.Error(), "an acceptance by a trusted functionary"})}
	}
	ev := policy.Evidence{Claims: s.claims, Objects: s.in.Package.Objects, Size: s.size, Witnesses: s.seen}
	if !s.in.Package.Loose {
		ev.Places = s.places
	}
	d, err := policy.Decide(s.demanded(), ev, policy.Question{Decision: s.v.Decision, Class: class, Artifact: s.digest, Policy: s.polHash, At: s.v.At})
	if err != nil {
		return []Check{k.undecided(Finding{s.v.Decision, err.Error(), "an answer"})}
	}
	s.answer = &d
	var list []Check
	byRule := map[string]int{}
	for _, r := range d.Reasons {
		i, ok := byRule[r.Rule]
		if !ok {
			i = len(list)
			byRule[r.Rule] = i
			list = append(list, Check{Name: r.Rule, Spec: "policy v1, rule " + r.Rule, Verdict: schemas.Passed})
		}
		list[i].absorb(r)
	}
	if names := s.namesIn(d.Claims); d.Verdict == schemas.Passed && !slices.Contains(names, s.in.Name) {
		list = append(list, k.failed(Finding{"name of " + s.digest.String(), s.in.Name, fmt.Sprintf("one that a claim binds on which the decision rests: %q", names)}))
	}
	slices.SortStableFunc(list, func(a, b Check) int { return numbers[a.Name] - numbers[b.Name] })
	return list
}

// namesIn are the names that the claims with these bundles bind the file to:
// whose word is good enough for the decision is good enough for the name.
func (s *state) namesIn(bundles []godigest.Digest) []string {
	names := []string{}
	for _, c := range s.claims {
		for _, subject := range c.Statement().GetSubject() {
			if subject.GetDigest()["sha256"] == s.digest.Encoded() && slices.Contains(bundles, c.Bundle()) && !slices.Contains(names, subject.GetName()) {
				names = append(names, subject.GetName())
			}
		}
	}
	return names
}

// demanded is the policy with one more demand on an acceptance: that somebody
// who may has signed it. Whoever hands evidence over may have left a bad report
// out, which he who accepted had before him.
func (s *state) demanded() schemas.Policy {
	p := *s.policy
	rule, ok := p.Decisions[policy.Accept]
	if !ok || slices.Contains(rule.Requires, "accepted") {
		return p
	}
	rule.Requires = append(slices.Clone(rule.Requires), "accepted")
	p.Decisions = maps.Clone(p.Decisions)
	p.Decisions[policy.Accept] = rule
	return p
}

// absorb adds one reason of the check's rule.
func (c *Check) absorb(r policy.Reason) {
	if r.Verdict == schemas.Passed {
		if c.Note != "" {
			c.Note += "; "
		}
		c.Note += r.What + ": " + r.Got
		return
	}
	c.Findings = append(c.Findings, Finding{r.What, r.Got, r.Want})
	if c.Verdict != schemas.Failed {
		c.Verdict = r.Verdict
	}
}
