package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/schemas"
)

func (a *app) reviewCommand() *cobra.Command {
	var signer, verdict string
	r := schemas.Review{}
	cmd := &cobra.Command{
		Use: "review FILE", Short: "Put a person's word on an artifact on the record", Args: cobra.ExactArgs(1),
		Long:    "Review appends a signed review of exactly these bytes: that a person looked at them, and what came of it. A policy counts it where it names the person among its reviewers\nand the person did not make the artifact. The newest review of each person counts; a no is taken back only by a later yes.",
		Example: "  weighmaster review delivered/model-Q8_0.gguf --signer alice --verdict passed --note 'read the evaluation, asked it ten questions'",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			r.Verdict, r.Reviewed = schemas.Verdict(verdict), time.Now().UTC().Truncate(time.Second)
			p, err := a.open(ctx, true)
			if err != nil {
				return err
			}
			defer p.close()
			signers, err := a.signers(ctx, p)
			if err != nil {
				return err
			}
			if signers[signer] == nil {
				return usage("--signer: %s has no key in keys/", signer)
			}
			statement, err := reviewStatement(ctx, args[0], r)
			if err != nil {
				return err
			}
			entry, err := p.say(ctx, signers[signer], statement)
			if err != nil {
				return err
			}
			return a.answer(map[string]ledger.LeafIndex{"entry": entry.Index}, func() { a.printf("reviewed by entry %d: %s\n", entry.Index, verdict) })
		},
	}
	cmd.Flags().StringVar(&signer, "signer", "", "whose key signs (required)")
	cmd.Flags().StringVar(&verdict, "verdict", "", "passed or failed (required)")
	cmd.Flags().StringVar(&r.Note, "note", "", "what was looked at, and what was found (required)")
	cmd.Flags().StringVar(&r.Link, "link", "", "where the full review is")
	for _, name := range []string{"signer", "verdict", "note"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return cmd
}

// reviewStatement is about the file's bytes and name.
func reviewStatement(ctx context.Context, file string, r schemas.Review) (*attest.Statement, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if err := schemas.Validate(schemas.ReviewURI, body); err != nil {
		return nil, usage("%v", err)
	}
	predicate := &structpb.Struct{}
	if err := protojson.Unmarshal(body, predicate); err != nil {
		return nil, err
	}
	sums, err := digest.File(ctx, file)
	if err != nil {
		return nil, usage("%v", err)
	}
	subject := []*attest.ResourceDescriptor{{Name: filepath.Base(file), Digest: map[string]string{"sha256": sums.SHA256.Encoded()}}}
	return attest.NewStatement(subject, schemas.ReviewURI, predicate)
}
