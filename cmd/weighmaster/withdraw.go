package main

import (
	"context"
	"encoding/json"
	"fmt"

	godigest "github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// mayWithdraw refuses a withdrawal that would count for nothing.
func (p *project) mayWithdraw(ctx context.Context, claims []attest.Claim, signer string, w schemas.Withdrawal) error {
	doc, ev, err := p.questionable(ctx, claims)
	if err != nil {
		return err
	}
	if err := policy.MayWithdraw(doc, ev, signer, w.Claim); err != nil {
		return &exitError{exitFalse, fmt.Errorf("nothing was withdrawn: %w", err)}
	}
	now, err := p.standing(ctx, claims, p.places)
	if err != nil {
		return err
	}
	if t, gone := now.taken[w.Claim]; gone && (w.Successor == "" || w.Successor == t.Successor) {
		return usage("claim %s is withdrawn already, by entry %d: %s; withdraw it again only to name another --successor", w.Claim, now.entries[t.By], t.Reason)
	}
	return nil
}

func (a *app) withdrawCommand() *cobra.Command {
	var reason, successor, signer string
	cmd := &cobra.Command{
		Use: "withdraw CLAIM", Short: "Take an earlier claim back, on the record; nothing is removed", Args: cobra.ExactArgs(1),
		Long: "Withdraw appends a withdrawal of the claim with that digest (the PAE digest that policy explain and log show print). Later decisions do not look at the claim,\n" +
			"and decisions that rest on it, or on a decision that does, are named: they no longer count. The claim's own signer may withdraw it, unless it speaks against\n" +
			"something; those whom the policy's signers.withdraw names may withdraw any. A withdrawal is never taken back: make the claim again instead.",
		Example: "  weighmaster withdraw sha256:… --reason 'measured beside another server'",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w := schemas.Withdrawal{Claim: godigest.Digest(args[0]), Reason: reason, Successor: godigest.Digest(successor)}
			if w.Claim.Validate() != nil {
				return usage("claim: got %q, want a digest (sha256:…)", args[0])
			}
			p, err := a.open(ctx, true)
			if err != nil {
				return err
			}
			defer p.close()
			claims, err := p.allClaims(ctx)
			if err != nil {
				return err
			}
			var subject []*attest.ResourceDescriptor
			for _, c := range claims {
				if c.PAE() == w.Claim {
					subject = c.Statement().GetSubject()
				}
			}
			if subject == nil {
				return usage("the ledger has no claim %s; weighmaster log show --json lists them", w.Claim)
			}
			signers, err := a.signers(cmd.Context(), p)
			if err != nil {
				return err
			}
			if signers[signer] == nil {
				return usage("--signer: %s has no key in keys/", signer)
			}
			if err := p.mayWithdraw(ctx, claims, signer, w); err != nil {
				return err
			}
			body, err := json.Marshal(w)
			if err != nil {
				return err
			}
			if err := schemas.Validate(schemas.WithdrawalURI, body); err != nil {
				return usage("%v", err)
			}
			predicate := &structpb.Struct{}
			if err := protojson.Unmarshal(body, predicate); err != nil {
				return err
			}
			statement, err := attest.NewStatement(subject, attest.WithdrawalType, predicate)
			if err != nil {
				return err
			}
			entry, err := p.say(ctx, signers[signer], statement)
			if err != nil {
				return err
			}
			if claims, err = p.allClaims(ctx); err != nil {
				return err
			}
			now, err := p.standing(ctx, claims, p.places)
			if err != nil {
				return err
			}
			fallen := now.decisions(w.Claim)
			return a.answer(map[string]any{"entry": entry.Index, "claim": w.Claim, "successor": w.Successor, "fallen": fallen}, func() {
				a.printf("withdrawn by entry %d\n", entry.Index)
				if w.Successor != "" {
					a.printf("use instead: %s\n", w.Successor)
				}
				for _, d := range fallen {
					d.print(a)
				}
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why (required)")
	cmd.Flags().StringVar(&successor, "successor", "", "the digest of the artifact to use instead")
	cmd.Flags().StringVar(&signer, "signer", "gatekeeper", "whose key signs")
	if err := cmd.MarkFlagRequired("reason"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}
