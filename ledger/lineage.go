package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	godigest "github.com/opencontainers/go-digest"
)

// Graph is the lineage of one artifact: up, everything that it was made of;
// down, everything that was made of it.
type Graph struct {
	Root      godigest.Digest
	Nodes     []Node // ordered by digest; the root is one of them if any entry names it
	Edges     []Edge // ordered by entry
	Truncated bool   // a limit was reached and the graph is not complete
}

// Node is one artifact.
type Node struct {
	Digest godigest.Digest
	Names  []string // under which the edges' entries name it, sorted, at most MaxNodeNames
}

// Edge is one entry that leads from what it depended on to what it is about.
// Reached from below, it has all dependencies and those subjects that lie on
// the way; reached from above, all subjects and the dependencies on the way.
type Edge struct {
	Entry         LeafIndex
	PredicateType string
	Dependencies  []godigest.Digest // sorted
	Subjects      []godigest.Digest // sorted
}

// Lineage follows the log from one artifact in both directions. An artifact
// that no entry names gives a graph without nodes. Each artifact is visited
// once in each direction, so cycles end.
func (l *Log) Lineage(ctx context.Context, artifact godigest.Digest) (Graph, error) {
	return l.follow(ctx, artifact, Subject, Dependency)
}

// Ancestors is the part of [Log.Lineage] that leads up, to what the artifact
// was made of.
func (l *Log) Ancestors(ctx context.Context, artifact godigest.Digest) (Graph, error) {
	return l.follow(ctx, artifact, Subject)
}

// Descendants is the part of [Log.Lineage] that leads down, to what was made of
// the artifact.
func (l *Log) Descendants(ctx context.Context, artifact godigest.Digest) (Graph, error) {
	return l.follow(ctx, artifact, Dependency)
}

func (l *Log) follow(ctx context.Context, artifact godigest.Digest, arriving ...Role) (Graph, error) {
	if err := checkDigest(artifact); err != nil {
		return Graph{}, fmt.Errorf("ledger: lineage: %w", err)
	}
	w := walk{log: l, names: map[godigest.Digest]map[string]bool{}, edges: map[LeafIndex]*edge{}}
	for _, arrive := range arriving {
		if err := w.from(ctx, artifact, arrive); err != nil {
			return Graph{}, err
		}
	}
	return w.graph(artifact), nil
}

type edge struct {
	predicateType string
	sides         [2]map[godigest.Digest]bool
}

type walk struct {
	log   *Log
	names map[godigest.Digest]map[string]bool
	edges map[LeafIndex]*edge
	refs  int // digests on all edges
	full  bool
}

// lookAhead is how many entries one look-up asks for.
const lookAhead = 256

// from visits every artifact that can be reached from start through entries
// that have it in the arriving role, leaving by the other role.
func (w *walk) from(ctx context.Context, start godigest.Digest, arrive Role) error {
	seen := map[godigest.Digest]bool{start: true}
	queue := []godigest.Digest{start}
	for len(queue) > 0 && !w.full {
		at := queue[0]
		queue = queue[1:]
		for next := LeafIndex(0); !w.full; {
			entries, err := w.log.store.ByArtifact(ctx, at, arrive, next, lookAhead)
			if err != nil {
				return fmt.Errorf("ledger: lineage of %s: %w", at, err)
			}
			for _, i := range entries {
				reached, err := w.cross(ctx, i, at, arrive)
				if err != nil {
					return err
				}
				for _, d := range reached {
					if !seen[d] {
						seen[d] = true
						queue = append(queue, d)
					}
				}
			}
			if len(entries) < lookAhead {
				break
			}
			next = entries[len(entries)-1] + 1
		}
	}
	return nil
}

// cross notes one entry as an edge, and returns the artifacts on its far side.
func (w *walk) cross(ctx context.Context, i LeafIndex, at godigest.Digest, arrive Role) ([]godigest.Digest, error) {
	r, _, err := w.log.record(ctx, i)
	if err != nil {
		return nil, err
	}
	near, far := r.Subjects, r.Dependencies
	leave := Dependency
	if arrive == Dependency {
		near, far, leave = far, near, Subject
	}
	e := w.edges[i]
	if e == nil {
		e = &edge{predicateType: r.Leaf.PredicateType}
		e.sides[Subject], e.sides[Dependency] = map[godigest.Digest]bool{}, map[godigest.Digest]bool{}
		w.edges[i] = e
	}
	for _, ref := range near {
		if ref.Digest == at {
			w.note(e, arrive, ref)
		}
	}
	var reached []godigest.Digest
	for _, ref := range far {
		if w.note(e, leave, ref) {
			reached = append(reached, ref.Digest)
		}
	}
	return reached, nil
}

// note puts one artifact on one side of an edge, unless a limit is reached.
func (w *walk) note(e *edge, side Role, ref Ref) bool {
	names := w.names[ref.Digest]
	if names == nil {
		if len(w.names) >= MaxGraphNodes {
			w.full = true
			return false
		}
		names = map[string]bool{}
		w.names[ref.Digest] = names
	}
	if ref.Name != "" && len(names) < MaxNodeNames {
		names[ref.Name] = true
	}
	if !e.sides[side][ref.Digest] {
		if w.refs >= MaxGraphRefs {
			w.full = true
			return false
		}
		w.refs++
		e.sides[side][ref.Digest] = true
	}
	return true
}

func (w *walk) graph(root godigest.Digest) Graph {
	g := Graph{Root: root, Truncated: w.full}
	for _, d := range sorted(w.names) {
		g.Nodes = append(g.Nodes, Node{Digest: d, Names: sorted(w.names[d])})
	}
	for _, i := range sorted(w.edges) {
		e := w.edges[i]
		g.Edges = append(g.Edges, Edge{
			Entry: i, PredicateType: e.predicateType,
			Dependencies: sorted(e.sides[Dependency]), Subjects: sorted(e.sides[Subject]),
		})
	}
	return g
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
