package main

import (
	"encoding/json"

	godigest "github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/schemas"
)

func (a *app) withdrawCommand() *cobra.Command {
	var reason, successor, signer string
	cmd := &cobra.Command{
		Use: "withdraw CLAIM", Short: "Take an earlier claim back, on the record; nothing is removed", Args: cobra.ExactArgs(1),
		Long:    "Withdraw appends a withdrawal of the claim with that digest (the PAE digest that policy explain and log show print). Later decisions do not look at the claim.",
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
			bundle, err := signers[signer].Sign(ctx, statement)
			if err != nil {
				return err
			}
			entry, err := p.record(ctx, bundle)
			if err != nil {
				return err
			}
			if _, err := p.packDelivered(ctx); err != nil {
				return err
			}
			return a.answer(map[string]ledger.LeafIndex{"entry": entry.Index}, func() { a.printf("withdrawn by entry %d\n", entry.Index) })
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
