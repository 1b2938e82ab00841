package derive

import (
	"context"
	"fmt"

	"github.com/weighmaster/weighmaster/kernels"
)

// unmapped tells that the names of both sides cannot be brought together: one is
// a snapshot of an architecture that has no mapping, the other is not.
func unmapped(src, dst *side) bool { return (src.unknown == "") != (dst.unknown == "") }

// compareContent is Compare without a mapping: what both sides have in common by content.
func compareContent(ctx context.Context, src, dst *side) (Relation, error) {
	found, err := matchContent(ctx, src, dst)
	if err != nil {
		return Relation{}, err
	}
	found.Architecture = src.unknown + dst.unknown
	r := Relation{
		Kind: ContentFound, Types: map[string]int{}, Tensors: []TensorRelation{}, Notes: []string{}, Moved: []Move{}, Bijection: &found,
		Findings: found.findings(), Metadata: []kernels.Finding{},
	}
	for i := range dst.tensors {
		r.Types[typeName(dst.tensors[i].typ)]++
	}
	r.Recipe, _ = recognize(dst, false)
	r.Unproven = fmt.Sprintf("Which tensor plays which part: %q has no mapping, so that names, hyper-parameters and tokens were not compared.", found.Architecture)
	if len(found.OnlySource)+len(found.OnlyTarget) > 0 {
		r.Kind = ContentPartly
		r.Unproven = fmt.Sprintf("What the %d tensors of the source and %d of the target that are left over have to do with each other, and which part any tensor plays: %q has no mapping.",
			len(found.OnlySource), len(found.OnlyTarget), found.Architecture)
	}
	return r, nil
}

// findings names the missing mapping and what is left over on either side.
func (b *Bijection) findings() []kernels.Finding {
	total := len(b.Matches) + len(b.OnlyTarget)
	list := []kernels.Finding{{
		Check: "architecture", Where: "config.json", Got: fmt.Sprintf("%q, which has no mapping", b.Architecture), Want: "an architecture that has one",
		Hint: fmt.Sprintf("%d of %d tensors of the target have content that the source has", len(b.Matches), total),
	}}
	if len(b.OnlySource) > 0 {
		list = append(list, kernels.Finding{Check: "content", Where: "source", Got: fmt.Sprintf("%d tensors whose content the target does not have: %s", len(b.OnlySource), names(b.OnlySource)), Want: "every one of them"})
	}
	if len(b.OnlyTarget) > 0 {
		list = append(list, kernels.Finding{Check: "content", Where: "target", Got: fmt.Sprintf("%d tensors whose content the source does not have: %s", len(b.OnlyTarget), names(b.OnlyTarget)), Want: "none"})
	}
	return list
}

// checkContent is Check without a mapping: undecided at best.
func checkContent(ctx context.Context, src, dst *side, report *kernels.Report) error {
	found, err := matchContent(ctx, src, dst)
	if err != nil {
		return err
	}
	found.Architecture = src.unknown + dst.unknown
	for _, f := range found.findings() {
		report.Find(f)
	}
	report.Metric("tensors", "tensors", float64(len(dst.tensors)))
	report.Metric("bytes_of_source", "bytes", float64(src.size()))
	report.Metric("tensors_found_by_content", "tensors", float64(len(found.Matches)))
	report.Metric("tensors_differing", "tensors", float64(len(found.OnlyTarget)))
	if err := report.Finish(); err != nil {
		return err
	}
	report.Verdict = kernels.Undecided
	return nil
}
