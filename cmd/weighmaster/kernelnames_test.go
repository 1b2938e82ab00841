package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/schemas"
)

// The names that a policy may use are those of the kernels that there are, and
// what a kernel measures stands there with its unit.
func TestPoliciesKnowTheKernels(t *testing.T) {
	reg, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, k := range reg.List() {
		there[k.Name] = true
		known := schemas.KernelMetrics(k.Name)
		check := func(metric, unit string) {
			t.Helper()
			got, ok := known[metric]
			if start, _, cut := strings.Cut(metric, "/"); !ok && cut {
				got = known[start+"/"]
			}
			if got != unit {
				t.Errorf("kernel %s, metric %s: policies know the unit %q, want %q", k.Name, metric, got, unit)
			}
		}
		for _, g := range k.Gates {
			check(g.Metric, g.Unit)
		}
		rep, err := k.SelfCheck(context.Background())
		if err != nil {
			t.Fatalf("%s: %v", k.Name, err)
		}
		for _, m := range rep.Metrics {
			check(m.Name, m.Unit)
			for id := range m.Identity {
				if !slices.Contains(schemas.MetricIdentities(), id) {
					t.Errorf("kernel %s, metric %s: policies do not know the identity %q", k.Name, m.Name, id)
				}
			}
		}
	}
	for _, name := range schemas.TensorTypes() {
		if _, ok := gguf.ParseType(name); !ok {
			t.Errorf("policies know the tensor type %q, which there is none of", name)
		}
	}
	for n := range uint32(256) {
		if typ := gguf.Type(n); !strings.Contains(typ.String(), " ") && !slices.Contains(schemas.TensorTypes(), typ.String()) {
			t.Errorf("policies do not know the tensor type %s", typ)
		}
	}
	for _, name := range schemas.KernelNames() {
		if !there[name] {
			t.Errorf("policies know kernel %q, which there is none of", name)
		}
	}
}
