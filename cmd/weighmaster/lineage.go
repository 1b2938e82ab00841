package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	godigest "github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

func (a *app) lineageCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lineage FILE|DIGEST", Short: "Show what a file was made of and what was made of it",
		Args:    cobra.ExactArgs(1),
		Example: "  weighmaster lineage delivered/model-Q8_0.gguf\n  weighmaster lineage sha256:…",
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
			graph, err := p.log.Lineage(cmd.Context(), d)
			if err != nil {
				return err
			}
			if len(graph.Nodes) == 0 {
				return usage("%s: the ledger says nothing about %s", args[0], d)
			}
			lines, err := p.describeEdges(cmd.Context(), graph)
			if err != nil {
				return err
			}
			return a.answer(graph, func() {
				for _, l := range lines {
					a.printf("%s\n", l)
				}
			})
		},
	}
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

// describeEdges gives a line an entry: number, stage, what came of it, what went into it.
func (p *project) describeEdges(ctx context.Context, graph ledger.Graph) ([]string, error) {
	names := map[godigest.Digest]string{}
	for _, n := range graph.Nodes {
		names[n.Digest] = strings.Join(n.Names, " = ")
	}
	claims, err := p.allClaims(ctx)
	if err != nil {
		return nil, err
	}
	runs, _ := policy.Runs(claims)
	byPAE := map[godigest.Digest]*policy.Run{}
	for _, r := range runs {
		byPAE[r.PAE()] = r
	}
	var lines []string
	for _, e := range graph.Edges {
		entry, err := p.log.Entry(ctx, e.Entry)
		if err != nil {
			return nil, err
		}
		what := entry.Leaf.PredicateType
		if run := byPAE[entry.Leaf.PAE]; run != nil {
			what = fmt.Sprintf("%s (%s)", run.External.Stage, run.Uses)
		}
		what = strings.TrimPrefix(what, schemas.BaseURI)
		lines = append(lines, fmt.Sprintf("%4d  %-34s %s", e.Entry, what, nameList(e.Subjects, names)))
		if len(e.Dependencies) > 0 {
			lines = append(lines, "        from "+nameList(e.Dependencies, names))
		}
	}
	if graph.Truncated {
		lines = append(lines, "      … and more: the graph is larger than a query returns")
	}
	return lines, nil
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
