package verify_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// loosen takes the log away from a delivery, and hands the policy over beside the bundles.
func loosen(d *delivery) {
	var objects [][]byte
	for _, body := range d.Package.Objects {
		objects = append(objects, body)
	}
	d.Input.Policy = d.Package.Policy
	d.Package = evidence.Loose(d.Package.Bundles, objects)
}

func loose(t *testing.T) *delivery {
	t.Helper()
	d := deliver(t, policytest.New(t, fixtures.Policy))
	loosen(d)
	return d
}

func TestLooseBundlesAreUndecidedWithoutALog(t *testing.T) {
	d := loose(t)
	for _, check := range []string{"checkpoint", "bundles", "inclusion"} {
		want(t, d.verify(t), schemas.Undecided, check, schemas.Undecided, "which no log vouches for", "--without-log")
	}
}

func TestLooseBundlesVerifyWhenNoLogIsAskedFor(t *testing.T) {
	d := loose(t)
	d.WithoutLog = true
	for range 3 { // in whatever order they come
		slices.Reverse(d.Package.Bundles)
		d.Package.Bundles = append(d.Package.Bundles[1:], d.Package.Bundles[0])
		res := d.verify(t)
		want(t, res, schemas.Passed, "signatures", schemas.Passed, "claims")
		for _, c := range res.Checks {
			if c.Name == "checkpoint" || c.Name == "bundles" || c.Name == "inclusion" {
				t.Errorf("check %s was made, and not asked for", c.Name)
			}
		}
	}
}

// A package has a log: asking for none does not skip its checks.
func TestAPackageIsAlwaysHeldAgainstItsLog(t *testing.T) {
	d := deliver(t, policytest.New(t, fixtures.Policy))
	d.WithoutLog = true
	d.Package.Checkpoint = append(d.Package.Checkpoint, '\n')
	want(t, d.verify(t), schemas.Failed, "checkpoint", schemas.Failed)
}

func TestAlteredLooseBundlesAreNamed(t *testing.T) {
	failed, undecided := schemas.Failed, schemas.Undecided
	for _, c := range []tampering{
		{"a byte of the file", func(t *testing.T, d *delivery) { d.file[0] ^= 1 }, failed, "name", undecided, []string{"no claim is about sha256:"}},
		{"another name", func(t *testing.T, d *delivery) { d.Name = "other.gguf" }, failed, "name", failed, []string{"the name it was made under"}},
		{"no policy", func(t *testing.T, d *delivery) { d.Input.Policy = nil }, undecided, "policy document", undecided, []string{"--policy"}},
		{"another policy", func(t *testing.T, d *delivery) { d.Input.Policy = append([]byte("#\n"), d.Input.Policy...) }, failed, "accepted", failed, []string{"decided under policy"}},
		{"no objects", func(t *testing.T, d *delivery) { d.Package = evidence.Loose(d.Package.Bundles, nil) }, undecided, "objects", undecided, []string{"is not in the package"}},
		{"no bundles", func(t *testing.T, d *delivery) { d.Package = evidence.Loose(nil, nil) }, undecided, "signatures", undecided, []string{"at least one"}},
		{"a bundle that nobody signed", func(t *testing.T, d *delivery) {
			d.Package.Bundles = append(d.Package.Bundles, []byte(`{}`))
		}, failed, "signatures", failed, []string{"bundle 14", "want a DSSE envelope"}},
		{"the examination left out", func(t *testing.T, d *delivery) { d.Package.Bundles = slices.Delete(d.Package.Bundles, 4, 5) }, undecided, "checks", undecided, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := loose(t)
			d.WithoutLog = true
			c.do(t, d)
			whole := c.whole
			if c.name == "a byte of the file" {
				whole = undecided // nothing is about that file
			}
			want(t, d.verify(t), whole, c.check, c.verdict, c.words...)
		})
	}
}

// A key that is over now signed nothing that counts now, when nobody vouches for the time.
func TestLooseBundlesNeedKeysThatAreValidNow(t *testing.T) {
	d := loose(t)
	d.WithoutLog = true
	d.At = time.Time{}
	if _, err := d.Verify(t.Context(), d.Input); err == nil {
		t.Error("a verifier without a time was taken")
	}
}

// A later refusal counts whatever order the bundles are handed over in.
func TestALaterRefusalCountsInAnyOrder(t *testing.T) {
	w := policytest.New(t, fixtures.Policy)
	w.Add(t, "", policytest.Withdrawal("back", "q8-evaluated", "the speed was wrong", policytest.Producer))
	d := deliver(t, w)
	loosen(d)
	d.WithoutLog = true
	slices.Reverse(d.Package.Bundles)
	want(t, d.verify(t), schemas.Failed, "accepted", schemas.Failed, "withdrawn: the speed was wrong")
}
