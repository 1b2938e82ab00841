package stages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	vsa "github.com/in-toto/attestation/go/predicates/vsa/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// blockers lists everything in this project that forbids the release of
// compute: stages that have to pass first, accepted bytes that are not here and
// reloaded, jobs under way, transfers that did not end.
func blockers(ctx context.Context, run *Run, requires []string) ([]string, error) {
	ev, err := gather(ctx, run)
	if err != nil {
		return nil, err
	}
	k := &keeper{run: run, ev: ev}
	k.runs, _ = policy.Runs(run.Claims)
	k.withdrawn = withdrawnClaims(run.Claims)
	open := k.required(requires)
	kept, err := k.acceptedKept(ctx)
	if err != nil {
		return nil, err
	}
	open = append(open, kept...)
	open = append(open, underWay(run)...)
	return append(open, unfinishedTransfers(run)...), nil
}

// keeper asks whether what was accepted would survive the machine.
type keeper struct {
	run       *Run
	ev        policy.Evidence
	runs      []*policy.Run
	withdrawn map[godigest.Digest]string
}

// required wants the newest run of each named stage to be a passed one of here.
func (k *keeper) required(names []string) []string {
	var open []string
	for _, name := range names {
		var newest *policy.Run
		for _, r := range k.runs {
			if r.External.Stage == name && k.counts(r) {
				newest = r
			}
		}
		switch {
		case newest == nil:
			open = append(open, fmt.Sprintf("stage %s has no run that counts; run it first", name))
		case newest.Uses != "reload":
			open = append(open, fmt.Sprintf("stage %s is a %s stage, want reload: requires names what shows that delivered bytes load", name, newest.Uses))
		case !k.passed(newest):
			open = append(open, fmt.Sprintf("stage %s did not pass, by its newest claim %s", name, newest.PAE()))
		case !k.here(newest):
			open = append(open, fmt.Sprintf("stage %s ran on another machine (claim %s is imported), want a reload here", name, newest.PAE()))
		}
	}
	return open
}

// counts tells whether a run is signed by one who may sign it and stands.
func (k *keeper) counts(r *policy.Run) bool {
	may := k.run.Extra.Policy.Signers[r.Uses].Functionaries
	return slices.ContainsFunc(r.Claims, func(c attest.Claim) bool {
		_, gone := k.withdrawn[c.PAE()]
		return !gone && (len(may) == 0 || slices.Contains(may, c.Functionary()))
	})
}

func (k *keeper) passed(r *policy.Run) bool {
	res, err := r.Result(k.ev.Objects)
	return err == nil && res.Verdict == schemas.Passed && res.ExitStatus == 0
}

// here tells whether a run was recorded by this project's own log.
func (k *keeper) here(r *policy.Run) bool {
	return k.ev.Places == nil || slices.ContainsFunc(r.Claims, func(c attest.Claim) bool {
		p, known := k.ev.Places[c.Bundle()]
		return known && !p.Imported
	})
}

// acceptedSpan is where an artifact was accepted.
type acceptedSpan struct {
	name          string
	first, newest int // positions among the claims
}

// accepted finds every artifact whose newest decision is an acceptance, under
// whichever policy: an older policy's bytes are lost with the machine as well.
func (k *keeper) accepted() map[godigest.Digest]acceptedSpan {
	deciders := k.run.Extra.Policy.Decisions[policy.Accept].Functionaries
	found := map[godigest.Digest]acceptedSpan{}
	for i, c := range k.run.Claims {
		if c.PredicateType() != attest.VSAType || !slices.Contains(deciders, c.Functionary()) {
			continue
		}
		var s vsa.VerificationSummary
		if protojson.Unmarshal(c.Predicate(), &s) != nil {
			continue
		}
		_, gone := k.withdrawn[c.PAE()]
		ok := !gone && s.GetVerificationResult() == "PASSED" && slices.Contains(s.GetVerifiedLevels(), policy.LevelAccepted)
		for _, subject := range c.Statement().GetSubject() {
			d := godigest.NewDigestFromEncoded(godigest.SHA256, subject.GetDigest()["sha256"])
			was, before := found[d]
			switch {
			case !ok:
				delete(found, d)
			case before:
				found[d] = acceptedSpan{was.name, was.first, i}
			default:
				found[d] = acceptedSpan{subject.GetName(), i, i}
			}
		}
	}
	return found
}

// acceptedKept wants every accepted artifact to be delivered and, after its
// newest acceptance, reloaded here, and its bytes to be here now.
func (k *keeper) acceptedKept(ctx context.Context) ([]string, error) {
	found := k.accepted()
	if len(found) == 0 {
		return []string{"nothing was accepted; what was made on the machine would be lost with it (a machine without any result is released by hand)"}, nil
	}
	var open []string
	for _, d := range slices.Sorted(maps.Keys(found)) {
		a := found[d]
		no := func(format string, args ...any) {
			open = append(open, fmt.Sprintf("%s (%s): ", a.name, d)+fmt.Sprintf(format, args...))
		}
		decision, err := k.decide(d)
		if err != nil {
			no("%v", err)
			continue
		}
		if list := decision.Failures(); len(list) > 0 {
			no("%s", list[0])
			continue
		}
		delivered, reloaded := k.last("deliver", d), k.last("reload", d)
		switch {
		case delivered < a.first:
			no("delivered before it was accepted, not after; deliver it again")
		case reloaded < a.newest:
			no("not reloaded since its newest acceptance; reload it again")
		case !k.here(k.runAt(reloaded)):
			no("reloaded on another machine, not here; deliver it here and reload it")
		default:
			if err := k.localCopy(ctx, d); err != nil {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				no("%v", err)
			}
		}
	}
	return open, nil
}

// decide asks the policy's own rules: accepted, delivered, reloaded. Whether
// compute is released is no part of it, for that is still to come.
func (k *keeper) decide(d godigest.Digest) (policy.Decision, error) {
	p := k.run.Extra.Policy
	class, err := policy.ClassOf(p, k.run.Claims, d)
	if err != nil {
		return policy.Decision{}, err
	}
	rule := p.Decisions[policy.Redistribute]
	rule.Requires = []string{"accepted", "delivered", "reloaded"}
	if rule.Threshold == 0 {
		rule.SignerRule = p.Decisions[policy.Accept].SignerRule
	}
	only := map[string]schemas.DecisionRule{policy.Redistribute: rule, policy.Accept: p.Decisions[policy.Accept]}
	return policy.Decide(policy.Only(p, only), k.ev, policy.Question{Decision: policy.Redistribute, Class: class, Artifact: d, Policy: k.run.Extra.PolicyDigest, At: k.run.Now()})
}

// last is the position of the last claim of a passed run of a stage type that took an artifact, −1 without one.
func (k *keeper) last(uses string, d godigest.Digest) int {
	at := -1
	for _, r := range k.runs {
		if r.Uses != uses || !k.counts(r) || !k.passed(r) || !slices.ContainsFunc(r.Inputs, func(n policy.NamedDigest) bool { return n.Digest == d }) {
			continue
		}
		for i, c := range k.run.Claims {
			if c.PAE() == r.PAE() {
				at = max(at, i)
			}
		}
	}
	return at
}

func (k *keeper) runAt(i int) *policy.Run {
	for _, r := range k.runs {
		if i >= 0 && r.PAE() == k.run.Claims[i].PAE() {
			return r
		}
	}
	return &policy.Run{}
}

// localCopy wants the bytes to be here at this moment: an input of this stage,
// which the runner has just hashed, or a delivered file, hashed now.
func (k *keeper) localCopy(ctx context.Context, d godigest.Digest) error {
	for _, a := range k.run.Inputs {
		if a.Digest == d && !a.Remote {
			return nil
		}
	}
	err := errors.New("its delivery names no file")
	for _, r := range k.runs {
		for _, s := range r.Subjects {
			if r.Uses != "deliver" || s.Digest != d || k.run.Extra.Delivered == "" {
				continue
			}
			name := path.Base(s.Name)
			if err = sameBytes(ctx, filepath.Join(k.run.Extra.Delivered, name), d, "deliver it again"); err == nil {
				return nil
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("there is no copy of it here: %s is not in the folder of delivered files; deliver it here, or name the stage that did as an input of this one", name)
			}
		}
	}
	return err
}

// underWay names the stages of this project with a word of progress: they run,
// or ended without a record.
func underWay(run *Run) []string {
	var open []string
	list, faults := ReadProgress(run.Project)
	for _, u := range list {
		if u.Stage != run.Stage {
			open = append(open, fmt.Sprintf("stage %s (%s) runs, or its run ended without a record, last heard of at %s; see weighmaster status", u.Stage, u.Uses, timestamp(u.Updated)))
		}
	}
	for range faults {
		open = append(open, "a word of progress below work/ cannot be read: whether a job runs is not known")
	}
	return open
}

// unfinishedTransfers names partial files where transfers write. What a failed
// run left as a candidate is no transfer.
func unfinishedTransfers(run *Run) []string {
	var open []string
	roots := []string{filepath.Join(run.Project, "work")}
	if run.Extra.Delivered != "" {
		roots = append(roots, run.Extra.Delivered)
	}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case d.IsDir() && strings.Contains(d.Name(), candidateMark):
				return filepath.SkipDir
			case !d.IsDir() && strings.HasSuffix(d.Name(), ".partial"):
				rel, _ := filepath.Rel(filepath.Dir(root), name)
				open = append(open, fmt.Sprintf("the transfer of %s did not end; run its stage to the end, or move the partial file away", filepath.ToSlash(rel)))
			}
			return nil
		})
		if err != nil {
			open = append(open, fmt.Sprintf("%s cannot be looked through for transfers: %v", filepath.Base(root), err))
		}
	}
	return open
}
