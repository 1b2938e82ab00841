package stages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/hub"
)

// Deliver copies accepted bytes to the folder of delivered files. Input role:
// artifact, a single file. The output is the file at its destination.
type Deliver struct{}

// Uses implements [Stage].
func (Deliver) Uses() string { return "deliver" }

// Run implements [Stage].
func (Deliver) Run(ctx context.Context, run *Run) (*Outcome, error) {
	artifact, err := run.Single("artifact")
	if err != nil {
		return nil, err
	}
	if run.Extra == nil || run.Extra.Delivered == "" {
		return nil, fmt.Errorf("stage %s: no policy and destination were handed in", run.Stage)
	}
	name := path.Base(artifact.Files[0].Name)
	if err := hub.CheckName(name); err != nil {
		return nil, err
	}
	out := &Outcome{Facts: map[string]string{"destination": name}, Internal: map[string]any{}}
	by, refused := accepted(run, artifact.Digest)
	if refused != nil {
		out.Verdict, out.Failure = refused.verdict, refused.Error()
		return out, nil
	}
	out.Internal["acceptedBy"] = by
	resumed, err := deliverTo(ctx, run, artifact, filepath.Join(run.Extra.Delivered, name))
	if err != nil {
		return out, err
	}
	out.Facts["resumed"] = strconv.FormatInt(resumed, 10) + " bytes"
	f, err := readFile(ctx, name, filepath.Join(run.Extra.Delivered, name))
	if err != nil {
		return out, err
	}
	delivered := FileArtifact(f)
	out.Output, out.Verdict = &delivered, schemas.Passed
	return out, nil
}

// notAccepted says why bytes may not be delivered.
type notAccepted struct {
	verdict schemas.Verdict
	why     string
}

func (e *notAccepted) Error() string { return e.why + "; only accepted bytes are delivered" }

// accepted finds the acceptance of exactly these bytes under exactly this
// policy: VSAs by those who may accept, as many as the policy wants. The newest
// word counts: a later refusal or a withdrawal takes an acceptance back. It
// returns the functionaries.
func accepted(run *Run, artifact godigest.Digest) ([]string, *notAccepted) {
	rule, ok := run.Extra.Policy.Decisions[policy.Accept]
	if !ok || rule.Threshold < 1 {
		return nil, &notAccepted{schemas.Undecided, "the policy has no decision accept with a threshold"}
	}
	withdrawn := withdrawnClaims(run.Claims)
	var last *notAccepted
	var by []string
	keys := map[godigest.Digest]bool{}
	for _, c := range run.Claims {
		if c.PredicateType() != attest.VSAType || !hasSubject(c, artifact) || !slices.Contains(rule.Functionaries, c.Functionary()) {
			continue
		}
		if last = judgeAcceptance(run, c, withdrawn); last != nil {
			by, keys = nil, map[godigest.Digest]bool{}
			continue
		}
		if !keys[c.Key()] && !slices.Contains(by, c.Functionary()) {
			keys[c.Key()] = true
			by = append(by, c.Functionary())
		}
	}
	switch {
	case last != nil:
		return nil, last
	case len(by) == 0:
		return nil, &notAccepted{schemas.Undecided, fmt.Sprintf("no acceptance of %s by %v", artifact, rule.Functionaries)}
	case len(by) < rule.Threshold:
		return nil, &notAccepted{schemas.Undecided, fmt.Sprintf("%s is accepted by %v, want %d functionaries", artifact, by, rule.Threshold)}
	}
	return by, nil
}

func judgeAcceptance(run *Run, c attest.Claim, withdrawn map[godigest.Digest]string) *notAccepted {
	no := func(format string, args ...any) *notAccepted {
		return &notAccepted{schemas.Failed, fmt.Sprintf("claim %s: ", c.PAE()) + fmt.Sprintf(format, args...)}
	}
	if reason, gone := withdrawn[c.PAE()]; gone {
		return no("the acceptance was withdrawn: %s", reason)
	}
	var s vsa.VerificationSummary
	if err := protojson.Unmarshal(c.Predicate(), &s); err != nil {
		return no("the summary cannot be read: %v", err)
	}
	switch decided := s.GetPolicy().GetDigest()["sha256"]; {
	case s.GetVerificationResult() != "PASSED":
		return no("the newest decision is %q, want PASSED", s.GetVerificationResult())
	case !slices.Contains(s.GetVerifiedLevels(), policy.LevelAccepted):
		return no("levels %v, want %s", s.GetVerifiedLevels(), policy.LevelAccepted)
	case decided == "" || decided != run.Extra.PolicyDigest.Encoded():
		return no("decided under policy sha256:%s, want %s", decided, run.Extra.PolicyDigest)
	case !strings.HasPrefix(s.GetPolicy().GetUri(), policy.DecisionURI(run.Extra.Policy.Name, policy.Accept, "")):
		return no("a decision %q, want one of %s", s.GetPolicy().GetUri(), policy.DecisionURI(run.Extra.Policy.Name, policy.Accept, "<class>"))
	}
	if pae, reason, gone := withdrawnBelow(&s, run.Claims, withdrawn, map[string]bool{}); gone {
		return no("it rests on claim %s, withdrawn: %s", pae, reason)
	}
	return nil
}

// withdrawnBelow looks for a withdrawn claim that a summary rests on, also by
// way of other summaries.
func withdrawnBelow(s *vsa.VerificationSummary, claims []attest.Claim, withdrawn map[godigest.Digest]string, seen map[string]bool) (godigest.Digest, string, bool) {
	for _, a := range s.GetInputAttestations() {
		bundle := a.GetDigest()["sha256"]
		if seen[bundle] {
			continue
		}
		seen[bundle] = true
		for _, c := range claims {
			if c.Bundle().Encoded() != bundle {
				continue
			}
			if reason, gone := withdrawn[c.PAE()]; gone {
				return c.PAE(), reason, true
			}
			var next vsa.VerificationSummary
			if c.PredicateType() != attest.VSAType || protojson.Unmarshal(c.Predicate(), &next) != nil {
				continue
			}
			if pae, reason, gone := withdrawnBelow(&next, claims, withdrawn, seen); gone {
				return pae, reason, true
			}
		}
	}
	return "", "", false
}

func hasSubject(c attest.Claim, d godigest.Digest) bool {
	return slices.ContainsFunc(c.Statement().GetSubject(), func(s *attest.ResourceDescriptor) bool {
		return s.GetDigest()["sha256"] == d.Encoded()
	})
}

// withdrawnClaims gives the reason by the withdrawn claim.
func withdrawnClaims(claims []attest.Claim) map[godigest.Digest]string {
	gone := map[godigest.Digest]string{}
	for _, c := range claims {
		var w schemas.Withdrawal
		if c.PredicateType() == attest.WithdrawalType && schemas.DecodeJSON(schemas.WithdrawalURI, c.Predicate(), &w) == nil {
			gone[w.Claim] = w.Reason
		}
	}
	return gone
}

// deliverTo makes dest hold exactly the artifact's bytes. It returns how many
// were there already. The whole destination is hashed after it was made durable
// and before it gets its name.
func deliverTo(ctx context.Context, run *Run, a Artifact, dest string) (resumed int64, err error) {
	size := a.Files[0].Sums.Size
	if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
		return 0, err
	}
	if st, err := os.Lstat(dest); err == nil {
		if !st.Mode().IsRegular() {
			return 0, fmt.Errorf("%s: there is something else than a file; move it away", dest)
		}
		return size, sameBytes(ctx, dest, a.Digest, "a different file is already delivered under this name; it is never written over: move it away or deliver under another name")
	}
	partial := dest + ".partial"
	resumed, err = copyOnto(ctx, run, a.Path, partial)
	if err != nil {
		return resumed, fmt.Errorf("deliver %s: %w", filepath.Base(dest), err)
	}
	if err := sameBytes(ctx, partial, a.Digest, "the bytes at the destination are not those that were accepted; the partial file is kept"); err != nil {
		return resumed, err
	}
	return resumed, publish(partial, dest)
}

func sameBytes(ctx context.Context, path string, want godigest.Digest, hint string) error {
	sums, err := digest.File(ctx, path)
	if err != nil {
		return err
	}
	if sums.SHA256 != want {
		return fmt.Errorf("%s: got %s, want %s; %s", path, sums.SHA256, want, hint)
	}
	return nil
}

// copyOnto copies source to partial, onto what is there if that is a prefix of the source.
func copyOnto(ctx context.Context, run *Run, source, partial string) (from int64, err error) {
	src, err := os.Open(source)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return 0, err
	}
	if p, err := os.Lstat(partial); err == nil && !p.Mode().IsRegular() {
		return 0, fmt.Errorf("%s: not a regular file; move it away", partial)
	} else if err == nil && p.Mode().Perm()&0o200 == 0 {
		if err := os.Chmod(partial, 0o644); err != nil {
			return 0, err
		}
	}
	dst, err := os.OpenFile(partial, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if from, err = prefixOf(ctx, dst, src, st.Size()); err != nil {
		return 0, err
	}
	if err := dst.Truncate(from); err != nil {
		return from, err
	}
	for _, f := range []*os.File{src, dst} {
		if _, err := f.Seek(from, io.SeekStart); err != nil {
			return from, err
		}
	}
	w := &progressWriter{ctx: ctx, w: dst, run: run, what: "delivering", done: from, total: st.Size()}
	if _, err := io.Copy(w, src); err != nil {
		return from, err
	}
	return from, finish(dst)
}

// prefixOf returns the length of dst where all of it is a prefix of src, else 0.
func prefixOf(ctx context.Context, dst, src *os.File, size int64) (int64, error) {
	st, err := dst.Stat()
	if err != nil || st.Size() == 0 || st.Size() > size {
		return 0, err
	}
	have, err := digest.SHA256(ctx, dst, st.Size())
	if err != nil {
		return 0, err
	}
	want, err := digest.SHA256(ctx, io.NewSectionReader(src, 0, st.Size()), st.Size())
	if err != nil || have != want {
		return 0, err
	}
	return st.Size(), nil
}
