package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/policy"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy", Short: "Ask the policy", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.askCommand("check", "Answer with the exit code: 0 allowed, 1 refused, 2 undecided", false),
		a.askCommand("explain", "Show each rule: what it looked at, the value, the bound, the verdict, the claim", true),
		a.policyEvidenceCommand())
	return cmd
}

func (a *app) askCommand(name, short string, all bool) *cobra.Command {
	var decision, class string
	var files reportFiles
	cmd := &cobra.Command{
		Use: name + " FILE|DIGEST", Short: short, Args: cobra.ExactArgs(1),
		Example: "  weighmaster policy " + name + " delivered/model-Q8_0.gguf --decision redistribute",
		RunE: func(cmd *cobra.Command, args []string) error {
			var d policy.Decision
			q, err := a.inquire(cmd.Context(), args[0], decision, class)
			if err == nil {
				d, err = q.answer()
			}
			d.Decision, d.At = decision, time.Now()
			if writing := files.write(args[0], d, err); err == nil {
				err = writing
			}
			if err != nil {
				return err
			}
			if err := a.answer(d, func() {
				for _, r := range d.Reasons {
					if all || r.Verdict != "passed" {
						a.printf("%s %-13s %s\n       got  %s\n       want %s\n", mark(r.Verdict), r.Rule, r.What, r.Got, r.Want)
						if r.Claim != "" {
							a.printf("       from claim %s\n", r.Claim)
						}
					}
				}
				a.printf("%s of %s as %s: %s\n", d.Decision, args[0], d.Class, d.Verdict)
			}); err != nil {
				return err
			}
			return answered(d.Verdict)
		},
	}
	cmd.Flags().StringVar(&files.junit, "junit", "", "also write the answer to this file as JUnit XML: undecided is an error")
	cmd.Flags().StringVar(&files.sarif, "sarif", "", "also write the answer to this file as SARIF 2.1.0: undecided is of level error")
	cmd.Flags().StringVar(&decision, "decision", policy.Redistribute, "accept, deliver or redistribute")
	cmd.Flags().StringVar(&class, "class", "", "the artifact's class (default: as it was accepted)")
	return cmd
}

// policyEvidenceCommand prints what the policy would look at, for another engine.
func (a *app) policyEvidenceCommand() *cobra.Command {
	var decision, class string
	cmd := &cobra.Command{
		Use: "evidence FILE|DIGEST", Short: "Print what the policy looks at as one JSON document, for OPA or an engine of your own", Args: cobra.ExactArgs(1),
		Long:    "Evidence prints the claims that verified, the runs with their results and reports, the decisions, reviews and withdrawals, the witnesses and the policy itself\nas one document in RFC 8785 JSON (schemas/policy-evidence.v1.json). It decides nothing: exit code 0 says only that the document is whole.",
		Example: "  weighmaster policy evidence delivered/model-Q8_0.gguf | opa eval --data weighmaster.rego --data tools.rego --stdin-input data.weighmaster.allow",
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := a.inquire(cmd.Context(), args[0], decision, class)
			if err != nil {
				return err
			}
			if _, err := q.answer(); err != nil { // a question that makes no sense has no evidence
				return err
			}
			body, err := policy.Document(q.doc, q.evidence, q.question)
			if err != nil {
				return err
			}
			a.printf("%s\n", body)
			return nil
		},
	}
	cmd.Flags().StringVar(&decision, "decision", policy.Redistribute, "accept, deliver or redistribute")
	cmd.Flags().StringVar(&class, "class", "", "the artifact's class (default: as it was accepted)")
	return cmd
}
