package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// lineageAnswer is a graph, where each edge came from, and what of it stands.
type lineageAnswer struct {
	Root      godigest.Digest
	Nodes     []ledger.Node
	Edges     []lineageEdge
	Truncated bool
	Withdrawn []takenBack      `json:"withdrawn"`
	Fallen    []fallenDecision `json:"fallen"`
}

type lineageEdge struct {
	ledger.Edge
	Log       string // origin of the log that the entry came from
	Withdrawn string `json:",omitempty"` // why
}

func (a *app) lineageCommand() *cobra.Command {
	var up, down bool
	cmd := &cobra.Command{
		Use: "lineage FILE|DIGEST", Short: "Show what a file was made of and what was made of it",
		Args: cobra.ExactArgs(1),
		Long: "Lineage follows the ledger from a file or digest up to the publisher and down to everything made of it, across every log that was imported.\n" +
			"Entries that came from another log name it. What was withdrawn is marked, and decisions that rest on it are named.",
		Example: "  weighmaster lineage delivered/model-Q8_0.gguf\n  weighmaster lineage sha256:… --down",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer p.close()
			d, err := digestArgument(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			follow := p.log.Lineage
			switch {
			case up && !down:
				follow = p.log.Ancestors
			case down && !up:
				follow = p.log.Descendants
			}
			graph, err := follow(cmd.Context(), d)
			if err != nil {
				return err
			}
			if len(graph.Nodes) == 0 {
				return usage("%s: the ledger says nothing about %s%s", args[0], d, direction(up, down))
			}
			answer, lines, err := p.describeEdges(cmd.Context(), graph)
			if err != nil {
				return err
			}
			return a.answer(answer, func() {
				for _, l := range lines {
					a.printf("%s\n", l)
				}
				for _, t := range answer.Withdrawn {
					t.print(a)
				}
				for _, d := range answer.Fallen {
					d.print(a)
				}
			})
		},
	}
	cmd.Flags().BoolVar(&up, "up", false, "only what it was made of")
	cmd.Flags().BoolVar(&down, "down", false, "only what was made of it")
	return cmd
}

func direction(up, down bool) string {
	switch {
	case up && !down:
		return " upwards: nothing says that it was made"
	case down && !up:
		return " downwards: nothing was made of it"
	}
	return ""
}

// digestArgument takes a digest as it is, or hashes the file of that name.
func digestArgument(ctx context.Context, arg string) (godigest.Digest, error) {
	if d := godigest.Digest(arg); d.Validate() == nil {
		return d, nil
	}
	if _, err := os.Stat(arg); err != nil {
		return "", usage("%q is neither a digest (sha256:…) nor a file: %v", arg, err)
	}
	sums, err := digest.File(ctx, arg)
	return sums.SHA256, err
}

// describeEdges gives a line an entry: number, stage, what came of it, what went
// into it, and the log that it came from where that is another one.
func (p *project) describeEdges(ctx context.Context, graph ledger.Graph) (lineageAnswer, []string, error) {
	answer := lineageAnswer{Root: graph.Root, Nodes: graph.Nodes, Edges: []lineageEdge{}, Truncated: graph.Truncated, Withdrawn: []takenBack{}, Fallen: []fallenDecision{}}
	names := map[godigest.Digest]string{}
	for _, n := range graph.Nodes {
		names[n.Digest] = strings.Join(n.Names, " = ")
	}
	claims, at, err := p.near(ctx, graph)
	if err != nil {
		return answer, nil, err
	}
	now, err := p.standing(ctx, claims, at)
	if err != nil {
		return answer, nil, err
	}
	runs, _ := policy.Runs(claims)
	byPAE := map[godigest.Digest]*policy.Run{}
	for _, r := range runs {
		byPAE[r.PAE()] = r
	}
	here := map[ledger.LeafIndex]bool{}
	var lines []string
	for _, e := range graph.Edges {
		entry, err := p.log.Entry(ctx, e.Entry)
		if err != nil {
			return answer, nil, err
		}
		origin, _, err := p.origin(entry.Leaf)
		if err != nil {
			return answer, nil, err
		}
		here[e.Entry] = true
		what := entry.Leaf.PredicateType
		if run := byPAE[entry.Leaf.PAE]; run != nil {
			what = fmt.Sprintf("%s (%s)", run.External.Stage, run.Uses)
		}
		what = strings.TrimPrefix(what, schemas.BaseURI)
		lines = append(lines, fmt.Sprintf("%4d  %-34s %s", e.Entry, what, nameList(e.Subjects, names)))
		if len(e.Dependencies) > 0 {
			lines = append(lines, "        from "+nameList(e.Dependencies, names))
		}
		if origin != p.trust.Log.Origin {
			lines = append(lines, "        in the log "+origin)
		}
		edge := lineageEdge{Edge: e, Log: origin}
		if t, gone := now.taken[entry.Leaf.PAE]; gone {
			edge.Withdrawn = t.Reason
			lines = append(lines, "        WITHDRAWN: "+t.Reason)
		}
		answer.Edges = append(answer.Edges, edge)
	}
	if graph.Truncated {
		lines = append(lines, "      … and more: the graph is larger than a query returns")
	}
	for _, t := range now.back() {
		if here[t.Entry] {
			answer.Withdrawn = append(answer.Withdrawn, t)
		}
	}
	for _, d := range now.decisions("") {
		if here[d.Entry] {
			answer.Fallen = append(answer.Fallen, d)
		}
	}
	return answer, lines, nil
}

// near verifies the entries of a graph and those about the same artifacts, such
// as withdrawals, and tells where each lies. It looks them up: the rest of the
// log, however long, is not read.
func (p *project) near(ctx context.Context, graph ledger.Graph) ([]attest.Claim, map[godigest.Digest]policy.Place, error) {
	wanted := map[ledger.LeafIndex]bool{}
	looked := map[godigest.Digest]bool{}
	for _, e := range graph.Edges {
		wanted[e.Entry] = true
		entry, err := p.log.Entry(ctx, e.Entry)
		if err != nil {
			return nil, nil, err
		}
		for _, s := range entry.Subjects {
			if looked[s.Digest] {
				continue
			}
			looked[s.Digest] = true
			about, err := p.store.ByArtifact(ctx, s.Digest, ledger.Subject, 0, ledger.MaxFound)
			if err != nil {
				return nil, nil, err
			}
			for _, i := range about {
				wanted[i] = true
			}
		}
	}
	var claims []attest.Claim
	at := map[godigest.Digest]policy.Place{}
	for _, i := range slices.Sorted(maps.Keys(wanted)) {
		entry, err := p.log.Entry(ctx, i)
		if err != nil {
			return nil, nil, err
		}
		claim, err := p.claim(ctx, entry)
		if err != nil {
			return nil, nil, err
		}
		claims = append(claims, claim)
		if at[claim.Bundle()], err = p.place(entry); err != nil {
			return nil, nil, err
		}
	}
	return policy.InOrder(claims, at), at, nil
}

// nameList names at most four digests.
func nameList(list []godigest.Digest, names map[godigest.Digest]string) string {
	var out []string
	for _, d := range list {
		if len(out) == 4 {
			out = append(out, fmt.Sprintf("and %d more", len(list)-4))
			break
		}
		out = append(out, fmt.Sprintf("%s (%s)", names[d], d.Encoded()[:12]))
	}
	return strings.Join(out, ", ")
}
