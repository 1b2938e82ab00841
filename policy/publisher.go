package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
)

// listingName is the byproduct in which an acquire run keeps what the publisher declares.
const listingName = "listing/publisher"

// Listing reads what the publisher declared about the revision that an acquire run took.
func (r *Run) Listing(objects map[godigest.Digest][]byte) (schemas.Listing, error) {
	var l schemas.Listing
	if r.listing == nil {
		return l, fmt.Errorf("the Statement has no byproduct named %s", listingName)
	}
	body, err := object(objects, r.listing)
	if err != nil {
		return l, err
	}
	if err := schemas.DecodeJSON(schemas.ListingURI, body, &l); err != nil {
		return l, err
	}
	if pin := r.External.Publisher; pin == nil || pin.Revision != l.Revision {
		return l, fmt.Errorf("%s lists revision %s, which the run does not name", listingName, l.Revision)
	}
	return l, nil
}

// publisher is the acquire run that the chain starts from, with its listing.
func (in *inquiry) publisher(what, want string) (*Run, schemas.Listing, *Reason) {
	if in.path[0] == nil {
		r := undecided(what, "the chain does not reach an acquire claim", want)
		return nil, schemas.Listing{}, &r
	}
	l, err := in.path[0].Listing(in.ev.Objects)
	if err != nil {
		return nil, l, &Reason{What: what, Verdict: schemas.Undecided, Got: err.Error(), Want: want, Claim: in.path[0].PAE()}
	}
	if !slices.ContainsFunc(l.Files, func(f schemas.ListedFile) bool { return f.Taken }) {
		return nil, l, &Reason{What: what, Verdict: schemas.Undecided, Got: "no file was taken", Want: want, Claim: in.path[0].PAE()}
	}
	return in.path[0], l, nil
}

// ruleScans wants the publisher's scan state of every file taken to be one that
// the policy allows. A scan that is queued or absent says nothing good of a file.
func ruleScans(in *inquiry) []Reason {
	want := strings.Join(in.policy.Scans.Allowed, " or ")
	run, listing, fault := in.publisher("scan states", want)
	if fault != nil {
		return []Reason{*fault}
	}
	var reasons []Reason
	good := map[string]int{}
	for _, f := range listing.Files {
		what := "scan state of " + f.Path
		switch {
		case !f.Taken:
		case slices.Contains(in.policy.Scans.Allowed, f.Scan):
			good[f.Scan]++
		case f.Scan == "absent" || f.Scan == "queued" || f.Scan == "unscanned":
			reasons = append(reasons, Reason{What: what, Verdict: schemas.Undecided, Got: f.Scan, Want: want, Claim: run.PAE()})
		default:
			reasons = append(reasons, failed(what, f.Scan, want, run.PAE()))
		}
	}
	for _, state := range sortedKeys(good) {
		reasons = append(reasons, passed(fmt.Sprintf("scan states of %d files", good[state]), state, want, run.PAE()))
	}
	return reasons
}

// ruleNotices follows the licence from the publisher to the artifact.
//
// The publisher's declared licence must be allowed, and so must be any licence
// that a run on the path declares for what it made; one that declares none
// passes its source's on. Every licence and notice file of the revision must
// have been taken, so that the acquire Statement holds it by digest and it can
// travel on. A base model that the publisher names is his word for a link before
// him, of which no claim speaks: it passes only where the policy states under which
// allowed licence that model's own publisher released it.
func ruleNotices(in *inquiry) []Reason {
	want := strings.Join(in.policy.Licences, ", ")
	run, listing, fault := in.publisher("licence chain", want)
	if fault != nil {
		return []Reason{*fault}
	}
	reasons := []Reason{in.judgeLicence("licence of the publisher", listing.Licence, run.PAE())}
	for _, step := range in.path[1:] {
		if step == nil {
			reasons = append(reasons, undecided("licence chain", "a link of the chain is missing", want))
			continue
		}
		what := "licence of " + step.name()
		res, err := step.Result(in.ev.Objects)
		switch got := res.Facts["licence"]; {
		case err != nil:
			reasons = append(reasons, Reason{What: what, Verdict: schemas.Undecided, Got: err.Error(), Want: want, Claim: step.PAE()})
		case got == "":
			reasons = append(reasons, passed(what, "none of its own: its source's applies", want, step.PAE()))
		default:
			reasons = append(reasons, in.judgeLicence(what, got, step.PAE()))
		}
	}
	for _, model := range listing.BaseModels {
		what := "licence of the base model " + model
		got, known := in.policy.Notices.Upstreams[model]
		if !known {
			reasons = append(reasons, Reason{What: what, Verdict: schemas.Undecided, Got: "the policy knows nothing of it", Want: want, Claim: run.PAE()})
			continue
		}
		reasons = append(reasons, in.judgeLicence(what, got, run.PAE()))
	}
	return append(reasons, in.judgeNoticeFiles(run, listing)...)
}

func (in *inquiry) judgeLicence(what, got string, claim godigest.Digest) Reason {
	want := strings.Join(in.policy.Licences, ", ")
	switch {
	case got == "" || got == "absent":
		return Reason{What: what, Verdict: schemas.Undecided, Got: "none is declared", Want: want, Claim: claim}
	case !slices.Contains(in.policy.Licences, got):
		return failed(what, got, want, claim)
	}
	return passed(what, got, want, claim)
}

// judgeNoticeFiles wants the files that the policy names, and all others that
// look like a licence or a notice, to have been taken with a digest of their own.
func (in *inquiry) judgeNoticeFiles(run *Run, listing schemas.Listing) []Reason {
	var reasons []Reason
	const want = "taken, with its digest in the acquire claim"
	listed := map[string]bool{}
	for _, f := range listing.Files {
		listed[f.Path] = true
		if !slices.Contains(in.policy.Notices.Files, f.Path) && !isNotice(f.Path) {
			continue
		}
		what := "notice file " + f.Path
		digest := run.subjectNamed(f.Path)
		switch {
		case !f.Taken:
			reasons = append(reasons, failed(what, "left behind", want, run.PAE()))
		case digest == "" || (f.SHA256 != "" && f.SHA256 != digest):
			reasons = append(reasons, failed(what, fmt.Sprintf("no such subject with the listed digest (%q)", digest), want, run.PAE()))
		default:
			reasons = append(reasons, passed(what, digest.String(), want, run.PAE()))
		}
	}
	for _, name := range in.policy.Notices.Files {
		if !listed[name] {
			reasons = append(reasons, failed("notice file "+name, "the publisher's revision has none", want, run.PAE()))
		}
	}
	return reasons
}

// isNotice tells whether a file's name says that it is a licence or a notice.
func isNotice(name string) bool {
	base := strings.ToUpper(path.Base(name))
	base = strings.TrimSuffix(strings.TrimSuffix(base, path.Ext(base)), "-2.0")
	return slices.ContainsFunc([]string{"LICENSE", "LICENCE", "NOTICE", "COPYING", "USE_POLICY"}, func(word string) bool {
		return base == word || strings.HasPrefix(base, word+"-") || strings.HasPrefix(base, word+"_") || strings.HasPrefix(base, word+".")
	})
}

// subjectNamed finds a file of the folder that the run made: its subjects are named <folder>/<file>.
func (r *Run) subjectNamed(file string) godigest.Digest {
	for _, s := range r.Subjects {
		if _, rest, ok := strings.Cut(s.Name, "/"); ok && rest == file {
			return s.Digest
		}
	}
	return ""
}
