package main

import (
	"context"

	godigest "github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/stages"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy", Short: "Ask the policy", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.askCommand("check", "Answer with the exit code: 0 allowed, 1 refused, 2 undecided", false),
		a.askCommand("explain", "Show each rule: what it looked at, the value, the bound, the verdict, the claim", true))
	return cmd
}

func (a *app) askCommand(name, short string, all bool) *cobra.Command {
	var decision, class string
	cmd := &cobra.Command{
		Use: name + " FILE|DIGEST", Short: short, Args: cobra.ExactArgs(1),
		Example: "  weighmaster policy " + name + " delivered/model-Q8_0.gguf --decision redistribute",
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.ask(cmd.Context(), args[0], decision, class)
			if err != nil {
				return err
			}
			if err := a.answer(d, func() {
				for _, r := range d.Reasons {
					if all || r.Verdict != "passed" {
						a.printf("%s %-13s %s\n       got  %s\n       want %s\n", mark(r.Verdict), r.Rule, r.What, r.Got, r.Want)
						if all && r.Claim != "" {
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
	cmd.Flags().StringVar(&decision, "decision", policy.Redistribute, "accept, deliver or redistribute")
	cmd.Flags().StringVar(&class, "class", "", "the artifact's class (default: as it was accepted)")
	return cmd
}

// ask puts a question to the project's policy over the project's ledger.
func (a *app) ask(ctx context.Context, artifact, decision, class string) (policy.Decision, error) {
	p, err := a.open(ctx, false)
	if err != nil {
		return policy.Decision{}, err
	}
	defer p.close()
	doc, body, err := p.readPolicy()
	if err != nil {
		return policy.Decision{}, err
	}
	d, err := digestArgument(ctx, artifact)
	if err != nil {
		return policy.Decision{}, err
	}
	claims, err := p.allClaims(ctx)
	if err != nil {
		return policy.Decision{}, err
	}
	if class == "" {
		if class, err = policy.ClassOf(claims, d); err != nil {
			return policy.Decision{}, usage("%v", err)
		}
	}
	ev, err := stages.PolicyEvidence(ctx, claims, evidenceStore{p.objects})
	if err != nil {
		return policy.Decision{}, err
	}
	answer, err := policy.Decide(doc, ev, policy.Question{Decision: decision, Class: class, Artifact: d, Policy: godigest.FromBytes(body)})
	if err != nil {
		return policy.Decision{}, usage("%v", err)
	}
	return answer, nil
}
