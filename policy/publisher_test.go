package policy_test

import (
	"testing"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// requireMore lets a decision of a world require further rules.
func requireMore(w *policytest.World, decision string, rules ...string) {
	d := w.Policy.Decisions[decision]
	d.Requires = append(append([]string{}, d.Requires...), rules...)
	w.Policy.Decisions[decision] = d
}

func scanned(t testing.TB, allowed ...string) *policytest.World {
	t.Helper()
	w := newWorld(t)
	w.Policy.Scans = &schemas.ScanRule{Allowed: allowed}
	requireMore(w, policy.Redistribute, "scans")
	return w
}

// A file is as safe as its own scan says: queued, absent and unscanned are not safe.
func TestScanStatesAreJudgedByFile(t *testing.T) {
	failed, undecided, ok := schemas.Failed, schemas.Undecided, schemas.Passed
	for _, c := range []struct {
		name, state string
		allowed     []string
		verdict     schemas.Verdict
		words       string
	}{
		{"all safe", "safe", []string{"safe"}, ok, "scan states of 2 files: passed: got safe"},
		{"one queued", "queued", []string{"safe"}, undecided, "scan state of model.safetensors: undecided: got queued, want safe"},
		{"one without a scan", "absent", []string{"safe"}, undecided, "got absent, want safe"},
		{"one not scanned", "unscanned", []string{"safe"}, undecided, "got unscanned, want safe"},
		{"one unsafe", "unsafe", []string{"safe"}, failed, "got unsafe, want safe"},
		{"one suspicious", "suspicious", []string{"safe", "queued"}, failed, "got suspicious, want safe or queued"},
		{"a state of tomorrow", "pristine", []string{"safe"}, failed, "got pristine, want safe"},
		{"safe in capitals", "Safe", []string{"safe"}, failed, "got Safe, want safe"},
		{"queued, which the policy allows", "queued", []string{"safe", "queued"}, ok, "scan states of 1 files: passed: got queued"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := scanned(t, c.allowed...)
			w.Step(t, "source").Listing.Files[2].Scan = c.state
			check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), c.verdict, want{"scans", c.verdict, c.words})
		})
	}
	t.Run("a file that was not taken does not matter", func(t *testing.T) {
		w := scanned(t, "safe")
		w.Step(t, "source").Listing.Files[1].Scan = "unsafe"
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), ok)
	})
	t.Run("the summary of the run is not the scan of a file", func(t *testing.T) {
		w := scanned(t, "safe")
		w.Step(t, "source").Listing = nil
		w.Step(t, "source").Result.Facts["scan"] = "22 safe"
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), undecided, want{"scans", undecided, "no byproduct named listing/publisher"})
	})
	t.Run("a listing of another revision", func(t *testing.T) {
		w := scanned(t, "safe")
		w.Step(t, "source").Listing.Revision = "ffffffffffffffffffffffffffffffffffffffff"
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), undecided, want{"scans", undecided, "which the run does not name"})
	})
	t.Run("no file taken", func(t *testing.T) {
		w := scanned(t, "safe")
		for i := range w.Step(t, "source").Listing.Files {
			w.Step(t, "source").Listing.Files[i].Taken = false
		}
		check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), undecided, want{"scans", undecided, "no file was taken"})
	})
	t.Run("a listing that is not in the evidence", func(t *testing.T) {
		w := scanned(t, "safe")
		ev := w.Sign(t).Evidence
		for _, run := range runsOf(ev) {
			if run.Uses == "acquire" {
				delete(ev.Objects, run.Evidence()[1])
			}
		}
		check(t, decide(t, w, ev, policy.Redistribute), undecided, want{"scans", undecided, "is not in the evidence"})
	})
}

// The licence is followed over every link, and the notice files come along.
func TestTheLicenceChain(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	listing := func(do func(*schemas.Listing)) func(*testing.T, *policytest.World) {
		return func(t *testing.T, w *policytest.World) { do(w.Step(t, "source").Listing) }
	}
	declares := func(step, licence string) func(*testing.T, *policytest.World) {
		return func(t *testing.T, w *policytest.World) { w.Step(t, step).Result.Facts["licence"] = licence }
	}
	base := func(upstreams map[string]string) func(*testing.T, *policytest.World) {
		return func(t *testing.T, w *policytest.World) {
			w.Step(t, "source").Listing.BaseModels = []string{"origin/model"}
			w.Policy.Notices = &schemas.NoticeRule{Files: []string{"LICENSE"}, Upstreams: upstreams}
		}
	}
	refusals(t, policy.Redistribute, []change{
		{"a publisher whose licence is not allowed", listing(func(l *schemas.Listing) { l.Licence = "cc-by-nc-4.0" }), failed,
			[]want{{"notices", failed, "licence of the publisher: failed: got cc-by-nc-4.0, want cc0-1.0"}}},
		{"a publisher who declares none", listing(func(l *schemas.Listing) { l.Licence = "absent" }), undecided,
			[]want{{"notices", undecided, "licence of the publisher: undecided: got none is declared"}}},
		{"a converter who declares another", declares("bf16", "proprietary"), failed,
			[]want{{"notices", failed, "licence of bf16 (convert): failed: got proprietary"}}},
		{"a quantizer who declares another", declares("q8", "cc-by-nc-4.0"), failed,
			[]want{{"notices", failed, "licence of q8 (quantize): failed: got cc-by-nc-4.0"}}},
		{"a base model of which nothing is known", base(nil), undecided,
			[]want{{"notices", undecided, "licence of the base model origin/model: undecided: got the policy knows nothing of it"}}},
		{"the licence file left behind", listing(func(l *schemas.Listing) { l.Files[0].Taken = false }), failed,
			[]want{{"notices", failed, "notice file LICENSE: failed: got left behind"}}},
		{"a NOTICE that the policy does not name, left behind", listing(func(l *schemas.Listing) {
			l.Files = append(l.Files, schemas.ListedFile{Path: "legal/NOTICE.txt", Scan: "safe"})
		}), failed, []want{{"notices", failed, "notice file legal/NOTICE.txt: failed: got left behind"}}},
		{"a revision without the licence file", listing(func(l *schemas.Listing) { l.Files = l.Files[1:] }), failed,
			[]want{{"notices", failed, "notice file LICENSE: failed: got the publisher's revision has none"}}},
		{"a licence file that the acquire claim does not hold", func(t *testing.T, w *policytest.World) {
			w.Step(t, "source").Outputs = []policy.NamedDigest{policytest.Snapshot, policytest.Weights}
		}, failed, []want{{"notices", failed, "no such subject with the listed digest"}}},
		{"a licence file with another digest than listed", listing(func(l *schemas.Listing) { l.Files[0].SHA256 = policytest.Weights.Digest }), failed,
			[]want{{"notices", failed, "no such subject with the listed digest"}}},
	})
	for name, do := range map[string]func(*testing.T, *policytest.World){
		"a converter who declares an allowed one":             declares("bf16", "mit"),
		"a base model under a licence that the policy states": base(map[string]string{"origin/model": "apache-2.0"}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			do(t, w)
			check(t, decide(t, w, w.Sign(t).Evidence, policy.Redistribute), schemas.Passed, want{"notices", schemas.Passed, "notice file LICENSE: passed: got sha256:"})
		})
	}
}
