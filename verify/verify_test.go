package verify_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
	"github.com/weighmaster/weighmaster/ledger/sqlite"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/verify"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

const origin = "example.com/log"

// delivery is a delivered file with its package, and whom its reader believes.
type delivery struct {
	verify.Verifier
	verify.Input
	file  []byte
	world *policytest.World
	log   *ledger.Log
}

func index(bundle []byte) (ledger.Index, error) {
	pae, predicateType, subjects, dependencies, err := attest.UnverifiedIndex(bundle)
	refs := func(list []attest.NamedDigest) []ledger.Ref {
		var out []ledger.Ref
		for _, n := range list {
			out = append(out, ledger.Ref{Name: n.Name, Digest: n.Digest})
		}
		return out
	}
	return ledger.Index{PAE: pae, PredicateType: predicateType, Subjects: refs(subjects), Dependencies: refs(dependencies)}, err
}

// newLog starts a real log on disk with its checkpoints beside it.
func newLog(t testing.TB, name string) (*ledger.Log, note.Verifier) {
	t.Helper()
	return logAt(t, name, policytest.Now)
}

// logAt is a log with a clock that stands still.
func logAt(t testing.TB, name string, now time.Time) (*ledger.Log, note.Verifier) {
	t.Helper()
	skey, vkey, err := keys.GenerateLogKey(name)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store, err := sqlite.Create(t.Context(), filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	kept, err := checkpoints.Create(filepath.Join(dir, "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := ledger.Create(t.Context(), store, ledger.Options{Origin: name, Signer: signer, Verifier: verifier, Checkpoints: kept, Index: index, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return log, verifier
}

// deliver signs a world into a log and packs the artifact's evidence.
func deliver(t testing.TB, w *policytest.World) *delivery {
	t.Helper()
	log, key := newLog(t, origin)
	signed := w.Sign(t)
	for _, b := range signed.Bundles {
		if _, err := log.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	checkpoint, err := log.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := []byte(policytest.ArtifactBytes)
	pkg := &evidence.Package{
		Index: evidence.Index{
			Schema: evidence.IndexURI, Origin: origin, Entries: []evidence.Entry{}, Objects: []evidence.Object{}, Withheld: []evidence.Object{},
			File: evidence.File{Name: policytest.Artifact.Name, Size: int64(len(file)), Digest: policytest.Artifact.Digest},
		},
		Checkpoint: checkpoint, Objects: map[godigest.Digest][]byte{}, Policy: w.PolicyBody,
	}
	chosen := evidence.Select(signed.Claims, policytest.Artifact.Digest)
	for e, err := range log.Entries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if !chosen[e.Leaf.Bundle] {
			continue
		}
		proof, err := log.Prove(t.Context(), e.Index, checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		pkg.Index.Entries = append(pkg.Index.Entries, evidence.Entry{Index: e.Index, Leaf: e.Leaf})
		pkg.Bundles, pkg.Proofs = append(pkg.Bundles, e.Bundle), append(pkg.Proofs, proof)
	}
	for d, body := range signed.Objects {
		pkg.Index.Objects = append(pkg.Index.Objects, evidence.Object{Digest: d, Size: int64(len(body)), MediaType: "application/json"})
		pkg.Objects[d] = body
	}
	return &delivery{
		Verifier: verify.Verifier{Claims: w.Verifier, Log: key, Origin: origin, Decision: policy.Redistribute, At: policytest.Now.Add(time.Hour), Deciders: []string{policytest.Gatekeeper}},
		Input:    verify.Input{Name: policytest.Artifact.Name, Package: reread(t, pkg)},
		file:     file, world: w, log: log,
	}
}

// reread writes a package and reads it back, as its receiver does.
func reread(t testing.TB, pkg *evidence.Package) *evidence.Package {
	t.Helper()
	var b bytes.Buffer
	if err := pkg.Write(&b); err != nil {
		t.Fatal(err)
	}
	read, err := evidence.Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func (d *delivery) verify(t testing.TB) verify.Result {
	t.Helper()
	d.Size, d.File = int64(len(d.file)), bytes.NewReader(d.file)
	res, err := d.Verify(t.Context(), d.Input)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// want asserts the whole verdict and one check's, with words in what it found.
func want(t *testing.T, res verify.Result, whole schemas.Verdict, check string, verdict schemas.Verdict, words ...string) {
	t.Helper()
	if res.Verdict != whole {
		t.Errorf("got the verdict %s, want %s", res.Verdict, whole)
	}
	found := false
	for _, c := range res.Checks {
		if c.Name != check {
			continue
		}
		found = true
		text := c.Note
		for _, f := range c.Findings {
			text += "\n" + f.String()
		}
		if c.Verdict != verdict {
			t.Errorf("check %s: got %s, want %s:\n%s", check, c.Verdict, verdict, text)
		}
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("check %s: no words %q in:\n%s", check, w, text)
			}
		}
	}
	if !found {
		t.Errorf("there is no check %s", check)
	}
}

func TestAWholePackageVerifies(t *testing.T) {
	d := deliver(t, policytest.New(t, fixtures.Policy))
	d.Policies = []godigest.Digest{policyDigest(t)} // nobody's signature stands behind the policy of an acceptance
	for _, decision := range []string{policy.Accept, policy.Deliver, policy.Redistribute} {
		d.Decision = decision
		res := d.verify(t)
		if res.Verdict != schemas.Passed {
			for _, c := range res.Checks {
				t.Log(c.Number, c.Name, c.Verdict, c.Findings)
			}
			t.Fatalf("%s: got %s, want passed", decision, res.Verdict)
		}
		names := map[string]bool{}
		last := 0
		for _, c := range res.Checks {
			if c.Number == 0 || c.Spec == "" || names[c.Name] || c.Note == "" {
				t.Errorf("check %+v has no number, specification or note of its own", c)
			}
			if c.Number <= last {
				t.Errorf("check %d is made after check %d", c.Number, last)
			}
			last = c.Number
			names[c.Name] = true
		}
		if len(res.Checks) < 18 || res.Policy == nil || res.Policy.Decision != decision {
			t.Errorf("%s: got %d checks and the decision %+v", decision, len(res.Checks), res.Policy)
		}
	}
}

func TestThereIsNoDefaultTrust(t *testing.T) {
	d := deliver(t, policytest.New(t, fixtures.Policy))
	for name, less := range map[string]verify.Verifier{
		"claims":   {Log: d.Log, Origin: d.Origin, Decision: d.Decision, At: d.At},
		"log":      {Claims: d.Claims, Origin: d.Origin, Decision: d.Decision, At: d.At},
		"origin":   {Claims: d.Claims, Log: d.Log, Decision: d.Decision, At: d.At},
		"decision": {Claims: d.Claims, Log: d.Log, Origin: d.Origin, At: d.At},
		"time":     {Claims: d.Claims, Log: d.Log, Origin: d.Origin, Decision: d.Decision},
	} {
		if _, err := less.Verify(t.Context(), d.Input); err == nil || !strings.Contains(err.Error(), "no default trust") {
			t.Errorf("without %s: got %v, want a refusal", name, err)
		}
	}
}
