package stages

import (
	"fmt"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
)

// SourcesDifferError says that two machines acquired different bytes of one
// publisher revision. One of them has wrong bytes: withdraw its claim.
type SourcesDifferError struct {
	Revision string // repository@revision
	One, Two string // who acquired, and where
	File     string // the first that differs, by name
	Got      string // what Two has
	Want     string // what One has
	Claims   [2]godigest.Digest
}

func (e *SourcesDifferError) Error() string {
	return fmt.Sprintf("the machines' source manifests differ: %s of %s: %s has %s (claim %s), %s has %s (claim %s); find out which is the publisher's and withdraw the other claim",
		e.File, e.Revision, e.Two, e.Got, e.Claims[1], e.One, e.Want, e.Claims[0])
}

// snapshot is what one machine acquired.
type snapshot struct {
	by, revision string
	claim        godigest.Digest
	allow        []string
	files        map[string]godigest.Digest
}

// CompareSources holds what each machine acquired of a publisher revision
// against the others', file by file, as their claims state it: the newest
// snapshot by each signer and machine that was not withdrawn. Files that only one allow-list takes are no
// difference. It says in words what was compared; a machine that never acquired is not among them.
func CompareSources(claims []attest.Claim) (string, error) {
	bySource := map[string][]snapshot{}
	for _, s := range snapshots(claims) {
		bySource[s.revision] = append(bySource[s.revision], s)
	}
	if len(bySource) == 0 {
		return "nobody acquired a source; there is nothing to compare", nil
	}
	var words []string
	for _, revision := range sortedKeys(bySource) {
		list := bySource[revision]
		if len(list) == 1 {
			words = append(words, fmt.Sprintf("%s was acquired by %s alone; no other machine acquired it", revision, list[0].by))
			continue
		}
		who, shared := []string{list[0].by}, len(list[0].files)
		for _, other := range list[1:] {
			n, err := compareSnapshots(list[0], other)
			if err != nil {
				return "", err
			}
			who, shared = append(who, other.by), min(shared, n)
		}
		words = append(words, fmt.Sprintf("%d files of %s agree, as acquired by %s", shared, revision, strings.Join(who, " and by ")))
	}
	return strings.Join(words, "; "), nil
}

// compareSnapshots returns how many files both have.
func compareSnapshots(one, two snapshot) (int, error) {
	differ := func(file, got, want string) error {
		return &SourcesDifferError{one.revision, one.by, two.by, file, got, want, [2]godigest.Digest{one.claim, two.claim}}
	}
	names := map[string]bool{}
	for _, s := range []snapshot{one, two} {
		for name := range s.files {
			names[name] = true
		}
	}
	shared := 0
	for _, name := range sortedKeys(names) {
		want, inOne := one.files[name]
		got, inTwo := two.files[name]
		switch {
		case inOne && inTwo && got != want:
			return 0, differ(name, got.String(), want.String())
		case inOne && inTwo:
			shared++
		case !slices.Equal(one.allow, two.allow):
		case inOne:
			return 0, differ(name, "no such file", want.String())
		default:
			return 0, differ(name, got.String(), "no such file")
		}
	}
	return shared, nil
}

// snapshots gives the newest snapshot by each signer and machine, in the order of their first.
func snapshots(claims []attest.Claim) []snapshot {
	gone := withdrawnClaims(claims)
	var list []snapshot
	runs, _ := policy.Runs(claims)
	for _, run := range runs {
		pin := run.External.Publisher
		if run.Uses != "acquire" || pin == nil {
			continue
		}
		if _, withdrawn := gone[run.PAE()]; withdrawn {
			continue
		}
		s := snapshot{revision: pin.Repository + "@" + pin.Revision, claim: run.PAE(), allow: pin.Allow, files: map[string]godigest.Digest{}}
		s.by = run.Claims[0].Functionary()
		if run.External.Machine != "" {
			s.by += " on " + run.External.Machine
		}
		folder := false
		for _, subject := range run.Subjects {
			name, isFolder := strings.CutSuffix(subject.Name, "/")
			if isFolder {
				folder = true
				for _, f := range run.Subjects {
					if file, inside := strings.CutPrefix(f.Name, name+"/"); inside && file != "" {
						s.files[file] = f.Digest
					}
				}
			}
		}
		if !folder { // a run that came to nothing
			continue
		}
		at := slices.IndexFunc(list, func(old snapshot) bool { return old.by == s.by && old.revision == s.revision })
		if at < 0 {
			list = append(list, s)
		} else {
			list[at] = s
		}
	}
	return list
}
