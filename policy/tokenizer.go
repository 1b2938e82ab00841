package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// tokenizersLeft are the tokenizers, by digest, of which a derive report leaves keys
// to a comparison; one that it does not name is the empty digest.
func tokenizersLeft(rep schemas.Report) []string {
	var list []string
	for _, m := range rep.Metrics {
		if m.Name == schemas.MetricTokenizerKeysLeft {
			list = append(list, m.Identity[schemas.FactTokenizer])
		}
	}
	return list
}

// judgeLeft refuses a derive report that leaves keys where nothing asks for the comparison.
func (in *inquiry) judgeLeft(what string, run *Run, rep schemas.Report) []Reason {
	if len(tokenizersLeft(rep)) == 0 || slices.Contains(in.decision.Requires, "parity") {
		return nil
	}
	return []Reason{undecided(what, "a derivation that leaves keys of the tokenizer to a comparison", "the rule parity, which this decision does not require").from(run.PAE())}
}

// comparedTokenizers wants every tokenizer of which a derivation left keys to have
// been compared: the very same, by its digest. compared are those of parity runs that passed.
func (in *inquiry) comparedTokenizers(compared []string) []Reason {
	list, reasons := in.reportsOf("derive")
	for _, f := range list {
		for _, sum := range tokenizersLeft(f.report) {
			const what = "tokenizer whose keys a derivation left"
			want := "a comparison of tokenizer " + cmp.Or(sum, "that the report names")
			if sum != "" && slices.Contains(compared, sum) {
				reasons = append(reasons, passed(what, "it was compared", want, f.run.PAE()))
				continue
			}
			got := "none was compared"
			if len(compared) > 0 {
				got = "compared was " + strings.Join(compared, ", ")
			}
			reasons = append(reasons, undecided(what, got, want).from(f.run.PAE()))
		}
	}
	return reasons
}
