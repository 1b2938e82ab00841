package main

import (
	"fmt"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/derive"
)

func (a *app) printRelation(source, target string, rel derive.Relation) {
	class := string(rel.Class)
	if class == "" {
		class = "none"
	}
	how, tensors := "", len(rel.Tensors)
	if said := fmt.Sprint(rel.Recipe); said != "" {
		how = ", recipe " + said
	}
	if rel.Same != nil {
		tensors = rel.Same.Tensors
	}
	a.printf("%s is to %s: %s\n  class of proof %s%s, %d tensors\n", target, source, rel.Kind, class, how, tensors)
	a.printf("  unproven: %s\n", rel.Unproven)
	if rel.Build != "" {
		a.printf("  build of the quantizers: %s\n", rel.Build)
	}
	if rel.Intermediate != "" {
		a.printf("  intermediate: the weights passed through %s\n", rel.Intermediate)
	}
	a.printRecipe(rel.Recipe)
	a.printMatrix(rel.Matrix)
	a.printWhole(rel.Whole)
	a.printBijection(rel.Bijection)
	if rel.Change != "" {
		a.printf("  change: %s\n", rel.Change)
	}
	for _, n := range rel.Notes {
		a.printf("  note: %s\n", n)
	}
	for _, f := range rel.Findings[:min(shown, len(rel.Findings))] {
		a.printf("%s %s\n", findingMark(rel, f.Check), f)
	}
	a.printMore(len(rel.Findings), "findings")
	for _, f := range rel.Metadata[:min(shown, len(rel.Metadata))] {
		a.printf("%s %s\n", metadataMark(rel, f), f)
	}
	a.printMore(len(rel.Metadata), "findings beside the weights")
	if rel.TemplateDiff != "" {
		a.printf("%s", indent(rel.TemplateDiff))
	}
	a.printTensors(rel.Tensors)
}

// findingMark tells what failed from what could not be told.
func findingMark(rel derive.Relation, check string) string {
	if rel.Kind == derive.NotDerived && check != derive.CheckUnmade {
		return "FAIL"
	}
	return "??? "
}

// metadataMark is findingMark for what stands beside the weights.
func metadataMark(rel derive.Relation, f kernels.Finding) string {
	rel.Metadata = []kernels.Finding{f}
	switch rel.MetadataVerdict() {
	case kernels.Failed:
		return "FAIL"
	case kernels.Undecided:
		return "??? "
	}
	return "    "
}

func (a *app) printRecipe(r derive.RecipeUse) {
	if r.Name == "" {
		return
	}
	a.printf("  types: %s\n", r.Types)
	if r.Claim != "" {
		a.printf("  recipe claim: %s\n", r.Claim)
	}
	for _, d := range r.Differences {
		a.printf("     not the recipe's: %s\n", d)
	}
	if len(r.Others) > 0 {
		a.printf("  fits as well or next nearest: %s\n", strings.Join(r.Others, ", "))
	}
}

func (a *app) printMatrix(m *derive.MatrixUse) {
	if m == nil {
		return
	}
	if m.Digest != "" {
		a.printf("  importance matrix: %s, %d entries; %d tensors fit it bit for bit, %d do not fit this matrix\n", m.Digest, m.Entries, len(m.Used), len(m.Unfit))
	}
	if m.Claim != "" {
		a.printf("  importance matrix claimed: %s (a name, not a digest)\n", m.Claim)
	}
	for _, f := range m.Findings {
		a.printf("     importance matrix: %s\n", f)
	}
}

func (a *app) printWhole(w *derive.Whole) {
	if w == nil {
		return
	}
	if w.Fits {
		name := "not hashed"
		if w.Digest != "" {
			name = w.Digest.String()
		}
		a.printf("  whole file recomputed: %s, %d bytes\n", name, w.Size)
		if len(w.Given) > 0 {
			a.printf("     with these keys as it claims them: %s\n", strings.Join(w.Given, ", "))
		}
		return
	}
	a.printf("  whole file not recomputed: the header differs\n")
	for _, f := range w.Findings {
		a.printf("     %s\n", f)
	}
}

func (a *app) printBijection(b *derive.Bijection) {
	if b == nil {
		return
	}
	moved := 0
	for _, m := range b.Matches {
		if m.Moved {
			moved++
		}
	}
	a.printf("  content: %d tensors of the target are in the source, %d of them with rows in another order\n", len(b.Matches), moved)
}

// printTensors lists the tensors that are not class A, by what remains unproven of them.
func (a *app) printTensors(list []derive.TensorRelation) {
	var order []string
	groups := map[string][]derive.TensorRelation{}
	for _, t := range list {
		if t.Class == derive.ClassA {
			continue
		}
		class := "class " + string(t.Class)
		if t.Class == derive.None {
			class = "of no class"
		}
		head := class + ", unproven: " + t.Unproven
		if groups[head] == nil {
			order = append(order, head)
		}
		groups[head] = append(groups[head], t)
	}
	for _, head := range order {
		group := groups[head]
		a.printf("  %d tensors %s\n", len(group), head)
		for _, t := range group[:min(shown, len(group))] {
			a.printf("     %s %s%s\n", t.Name, t.Type, tensorNumbers(t))
		}
		a.printMore(len(group), "tensors")
	}
}

// shown is how many findings or tensors of a kind are printed.
const shown = 12

func (a *app) printMore(n int, what string) {
	if n > shown {
		a.printf("     and %d more %s; --json lists all\n", n-shown, what)
	}
}

func tensorNumbers(t derive.TensorRelation) string {
	numbers := ""
	if t.Differing > 0 { // else nothing was recomputed beside it
		numbers += fmt.Sprintf(", %d of %d blocks differ", t.Differing, t.Blocks)
	}
	if t.Error != nil {
		numbers += fmt.Sprintf(", relative RMS error %.3g", *t.Error)
	}
	if t.ErrorRatio != nil {
		numbers += fmt.Sprintf(", %.4g of the recomputed one's", *t.ErrorRatio)
	}
	if t.Class == derive.ClassD {
		numbers += "; not verified"
	}
	return numbers
}

func indent(text string) string {
	return "     " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n     ") + "\n"
}
