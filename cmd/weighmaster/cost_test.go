package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/fixtures"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/policy/policytest"
	"github.com/weighmaster/weighmaster/schemas"
)

// A cheaper run is no better model: whoever decides cannot even see what was paid.
func TestNoPolicyCanReadACost(t *testing.T) {
	for _, p := range listPackages(t) {
		if room := roomOf(p.ImportPath); room == "policy" || room == "verify" || room == "schemas" || room == "stages" {
			if slices.Contains(p.Imports, module+"kernels/cost") {
				t.Errorf("%s imports kernels/cost", p.ImportPath)
			}
		}
	}
	if slices.Contains(schemas.KernelNames(), "cost") {
		t.Error("policies know a kernel cost")
	}
	reg, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range reg.List() {
		if strings.Contains(k.Name, "cost") {
			t.Errorf("kernel %s is registered: its reports could be gates", k.Name)
		}
	}
	body := strings.NewReplacer("@REPOSITORY@", policytest.Repository, "@REVISION@", policytest.Revision).Replace(fixtures.Policy)
	if _, err := policy.Read("policy.yaml", []byte(body)); err != nil {
		t.Fatal(err)
	}
	gate := "    gates:\n      - {name: cheap, kernel: cost, metric: total, unit: USD, compare: \"<=\", value: 32, origin: a budget}\n"
	if !strings.Contains(body, "    gates:\n") {
		t.Fatal("the policy has no gates: the test changes nothing")
	}
	if _, err := policy.Read("policy.yaml", []byte(strings.Replace(body, "    gates:\n", gate, 1))); err == nil || !strings.Contains(err.Error(), "cost") {
		t.Errorf("got %v, want a gate on a cost refused", err)
	}
	// What a release leaves for cost sheets is no evidence that a policy is shown.
	w := policytest.New(t, fixtures.Policy)
	allocation := godigest.FromString("an allocation")
	w.Add(t, "", &policytest.Step{Name: "given-back", Uses: "release", By: []string{policytest.Producer},
		Result: schemas.Result{Schema: schemas.ResultURI, Verdict: schemas.Passed, Facts: map[string]string{}},
		Change: func(p *provenance.Provenance, _ *attest.Statement) {
			p.RunDetails.Byproducts = append(p.RunDetails.Byproducts, policytest.Descriptor("cost/allocation", allocation))
		}})
	s := w.Sign(t)
	runs, _ := policy.Runs(s.Claims)
	last := runs[len(runs)-1]
	if last.Uses != "release" || len(last.Evidence()) != 1 || slices.Contains(last.Evidence(), allocation) {
		t.Errorf("%s: a policy is shown %v", last.Uses, last.Evidence())
	}
}

func TestIntervalsComeFromReleasesOfThatMachine(t *testing.T) {
	machine, other := "sha256:"+strings.Repeat("ab", 32), "sha256:"+strings.Repeat("cd", 32)
	w := policytest.New(t, fixtures.Policy)
	n := 0
	add := func(uses, of, allocated string, verdict schemas.Verdict) {
		n++
		r := schemas.Result{Schema: schemas.ResultURI, Verdict: verdict, Facts: map[string]string{"machine": of, "allocated": allocated}}
		if verdict != schemas.Passed {
			r.Failure = "why"
		}
		w.Add(t, "", &policytest.Step{Name: fmt.Sprint("run-", n), Uses: uses, By: []string{policytest.Producer}, Result: r})
	}
	add("release", machine, "2026-11-30T10:00:00Z/2026-11-30T12:00:00Z", schemas.Passed)
	add("release", machine, "2026-11-30T10:00:00Z/2026-11-30T14:00:00Z", schemas.Passed) // found deallocated later: the same rent
	add("release", other, "2026-11-30T15:00:00Z/2026-11-30T16:00:00Z", schemas.Passed)
	add("release", machine, "2026-11-30T17:00:00Z/2026-11-30T18:00:00Z", schemas.Undecided)
	add("observe", machine, "2026-11-30T19:00:00Z/2026-11-30T20:00:00Z", schemas.Passed)
	add("release", machine, "", schemas.Passed)
	add("release", machine, "2026-11-30T21:00:00+01:00/2026-11-30T20:30:00Z", schemas.Passed)
	list, err := allocatedIntervals(w.Sign(t).Evidence, machine)
	if err != nil || len(list) != 2 || list[0].To.Sub(list[0].From) != 2*time.Hour || list[1].To.Sub(list[1].From) != 30*time.Minute {
		t.Errorf("%v: got %v", err, list)
	}
}
