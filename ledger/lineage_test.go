package ledger_test

import (
	"context"
	"fmt"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// made maps each edge of a graph to "entry: dependencies -> subjects".
func made(g ledger.Graph) map[string]bool {
	names := map[godigest.Digest]string{}
	for _, n := range g.Nodes {
		if len(n.Names) > 0 {
			names[n.Digest] = n.Names[0]
		}
	}
	list := func(digests []godigest.Digest) (s string) {
		set := map[string]bool{}
		for _, d := range digests {
			set[names[d]] = true
		}
		for _, n := range []string{"src", "sib", "bf16", "q4", "q8", "tool", "a", "b"} {
			if set[n] {
				s += " " + n
			}
		}
		return s
	}
	edges := map[string]bool{}
	for _, e := range g.Edges {
		edges[fmt.Sprintf("%d:%s ->%s", e.Entry, list(e.Dependencies), list(e.Subjects))] = true
	}
	return edges
}

func TestLineage(t *testing.T) {
	for name, s := range map[string]*site{"memory": inMemory(), "disk": onDisk(t)} {
		t.Run(name, func(t *testing.T) {
			log := s.create(t)
			for i, step := range [][2][]string{
				{{"src", "sib"}, nil},
				{{"bf16"}, {"src", "tool"}},
				{{"q4"}, {"bf16", "tool"}},
				{{"q8"}, {"bf16", "tool"}},
				{{"q4"}, nil}, // a decision about q4
				{{"a"}, {"b"}},
				{{"b"}, {"a"}}, // a cycle
			} {
				if _, err := log.Append(t.Context(), storetest.Bundle(fmt.Sprint("step ", i), step[0], step[1])); err != nil {
					t.Fatal(err)
				}
			}
			for artifact, want := range map[string][]string{
				"q4":      {"0: -> src", "1: src tool -> bf16", "2: bf16 tool -> q4", "4: -> q4"},
				"src":     {"0: -> src", "1: src -> bf16", "2: bf16 -> q4", "3: bf16 -> q8"},
				"bf16":    {"0: -> src", "1: src tool -> bf16", "2: bf16 -> q4", "3: bf16 -> q8"},
				"a":       {"5: b -> a", "6: a -> b"},
				"unknown": nil,
			} {
				g, err := log.Lineage(t.Context(), storetest.Digest(artifact))
				if err != nil || g.Truncated {
					t.Fatal(err, g.Truncated)
				}
				got := made(g)
				for _, w := range want {
					if !got[w] {
						t.Errorf("%s: no edge %q in %v", artifact, w, got)
					}
				}
				if len(got) != len(want) {
					t.Errorf("%s: %v, want %v", artifact, got, want)
				}
			}
		})
	}
}

func TestLineageIsCapped(t *testing.T) {
	log := inMemory().create(t)
	names := make([]string, ledger.MaxGraphNodes/2+1)
	for part := range 2 {
		for i := range names {
			names[i] = fmt.Sprint(part, " ", i)
		}
		if _, err := log.Append(t.Context(), storetest.Bundle(fmt.Sprint(part), []string{"product"}, names)); err != nil {
			t.Fatal(err)
		}
	}
	g, err := log.Lineage(t.Context(), storetest.Digest("product"))
	if err != nil || !g.Truncated || len(g.Nodes) != ledger.MaxGraphNodes {
		t.Errorf("%d nodes, truncated %v, %v; want %d and truncated", len(g.Nodes), g.Truncated, err, ledger.MaxGraphNodes)
	}
}

// TestLineageOfAThousandStages follows a chain of a thousand stages between
// other entries, from its middle, up, down and both ways.
func TestLineageOfAThousandStages(t *testing.T) {
	const n = 1000
	for name, s := range map[string]*site{"memory": inMemory(), "disk": onDisk(t)} {
		t.Run(name, func(t *testing.T) {
			log := s.create(t)
			var bundles [][]byte
			for i := range n {
				bundles = append(bundles, step(i), storetest.Bundle(fmt.Sprint("other ", i), []string{fmt.Sprint("other ", i)}, []string{"tool"}))
			}
			if _, err := log.AppendAll(t.Context(), bundles); err != nil {
				t.Fatal(err)
			}
			middle := storetest.Digest("file 400")
			for _, c := range []struct {
				name   string
				follow func(context.Context, godigest.Digest) (ledger.Graph, error)
				edges  int
			}{{"both", log.Lineage, n}, {"up", log.Ancestors, 400}, {"down", log.Descendants, n - 400}} {
				g, err := c.follow(t.Context(), middle)
				if err != nil || g.Truncated || len(g.Edges) != c.edges {
					t.Errorf("%s: %d edges, truncated %v, %v; want %d", c.name, len(g.Edges), g.Truncated, err, c.edges)
				}
			}
		})
	}
}

// TestLineageFansOut follows one source into many products, and one tool that
// is in everything; the graph is whole, or says that it is not.
func TestLineageFansOut(t *testing.T) {
	const n = ledger.MaxBatchEntries
	log := inMemory().create(t)
	var bundles [][]byte
	for i := range n {
		bundles = append(bundles, storetest.Bundle(fmt.Sprint("product ", i), []string{fmt.Sprint("product ", i)}, []string{"source", "tool"}))
	}
	if _, err := log.AppendAll(t.Context(), bundles); err != nil {
		t.Fatal(err)
	}
	g, err := log.Descendants(t.Context(), storetest.Digest("source"))
	if err != nil || g.Truncated || len(g.Edges) != n || len(g.Nodes) != n+1 {
		t.Errorf("%d edges and %d nodes, truncated %v, %v; want %d and %d", len(g.Edges), len(g.Nodes), g.Truncated, err, n, n+1)
	}
	// One of many: its own way up and down, not its siblings.
	g, err = log.Lineage(t.Context(), storetest.Digest("product 7"))
	if err != nil || g.Truncated || len(g.Edges) != 1 || len(g.Nodes) != 3 {
		t.Errorf("%d edges and %d nodes, truncated %v, %v; want 1 and 3", len(g.Edges), len(g.Nodes), g.Truncated, err)
	}
}
