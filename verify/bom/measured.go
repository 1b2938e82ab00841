package bom

import (
	"fmt"
	"sort"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	godigest "github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// measured adds what evaluations of exactly the artifact's bytes report. Reports
// of withdrawn claims do not count; those that did not pass, or that missed a
// planted fault, are limits and give no numbers.
func (r *reader) measured(c Chain) (Chain, error) {
	seen := map[godigest.Digest]bool{}
	for _, run := range r.runs {
		if _, gone := r.withdrawn[run.PAE()]; gone || run.Uses != "evaluate" || !has(run.Inputs, c.Artifact.Digest) {
			continue
		}
		reports, err := run.Reports(r.objects)
		if err != nil {
			return Chain{}, fmt.Errorf("stage %s (claim %s): %w", run.External.Stage, run.PAE(), err)
		}
		for _, rep := range reports {
			if !over(rep, c.Artifact.Digest) {
				continue
			}
			if rep.Verdict != schemas.Passed || rep.Controls.Missed > 0 || rep.Controls.Planted == 0 {
				c.Limits = append(c.Limits, fmt.Sprintf("%s: kernel %s %s: %s, %d of %d planted faults missed", run.External.Stage, rep.Kernel, rep.Version, rep.Verdict, rep.Controls.Missed, rep.Controls.Planted))
				continue
			}
			for _, m := range rep.Metrics {
				c.Metrics = append(c.Metrics, Metric{rep.Kernel, m.Name, m.Unit, m.Value, identity(m.Identity)})
			}
		}
		for _, n := range corpora(run) {
			if !seen[n.Digest] {
				seen[n.Digest] = true
				c.Corpora = append(c.Corpora, n)
			}
		}
	}
	return c, nil
}

func over(rep schemas.Report, d godigest.Digest) bool {
	for _, in := range rep.Inputs {
		if in.Digest == d {
			return true
		}
	}
	return false
}

func identity(m map[string]string) string {
	list := make([]string, 0, len(m))
	for k, v := range m {
		list = append(list, k+"="+v)
	}
	sort.Strings(list)
	return strings.Join(list, ", ")
}

func corpora(run *policy.Run) []Named {
	p := &provenance.Provenance{}
	if protojson.Unmarshal(run.Claims[0].Predicate(), p) != nil {
		return nil
	}
	var list []Named
	for _, dep := range p.GetBuildDefinition().GetResolvedDependencies() {
		if name, ok := strings.CutPrefix(dep.GetName(), "corpus/"); ok && dep.GetDigest()["sha256"] != "" {
			list = append(list, Named{name, godigest.NewDigestFromEncoded(godigest.SHA256, dep.GetDigest()["sha256"])})
		}
	}
	return list
}
