package main

import (
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/ledger"
)

func (a *app) logCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "log", Short: "Show, check and prove the ledger's Merkle log", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.logShowCommand(), a.logCheckpointCommand(), a.logProveCommand(), a.logVerifyCommand(), a.logExportCommand(), a.logWitnessCommand())
	return cmd
}

func (a *app) logShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "List the entries", Args: cobra.NoArgs, Example: "  weighmaster log show --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer p.close()
			type row struct {
				Index ledger.LeafIndex `json:"index"`
				Leaf  ledger.Leaf      `json:"leaf"`
				About []string         `json:"about"`
			}
			rows := []row{}
			for e, err := range p.log.Entries(cmd.Context()) {
				if err != nil {
					return err
				}
				r := row{Index: e.Index, Leaf: e.Leaf}
				for _, s := range e.Subjects {
					r.About = append(r.About, s.Name)
				}
				rows = append(rows, r)
			}
			return a.answer(rows, func() {
				for _, r := range rows {
					about := ""
					if len(r.About) > 0 {
						about = r.About[0]
					}
					a.printf("%4d  %s  %-52s %s\n", r.Index, r.Leaf.Appended, r.Leaf.PredicateType, about)
				}
			})
		},
	}
}

func (a *app) logCheckpointCommand() *cobra.Command {
	return &cobra.Command{
		Use: "checkpoint", Short: "Print the newest signed checkpoint; keep it where the ledger is not", Args: cobra.NoArgs, Example: "  weighmaster log checkpoint > somewhere-else/checkpoint",
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer p.close()
			cp, err := p.log.Checkpoint(cmd.Context())
			if err != nil {
				return err
			}
			return a.answer(map[string]string{"checkpoint": string(cp)}, func() { a.printf("%s", cp) })
		},
	}
}

func (a *app) logProveCommand() *cobra.Command {
	var checkpoint string
	cmd := &cobra.Command{
		Use: "prove INDEX", Short: "Print an entry's inclusion proof (C2SP tlog-proof)", Args: cobra.ExactArgs(1),
		Example: "  weighmaster log prove 7 > entry-7.proof",
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || n < 0 {
				return usage("entry: got %q, want a number from 0", args[0])
			}
			p, err := a.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer p.close()
			var cp []byte
			if checkpoint != "" {
				cp, err = os.ReadFile(checkpoint)
			} else {
				cp, err = p.log.Checkpoint(cmd.Context())
			}
			if err != nil {
				return err
			}
			proof, err := p.log.Prove(cmd.Context(), ledger.LeafIndex(n), cp)
			if err != nil {
				return err
			}
			return a.answer(map[string]string{"proof": string(proof)}, func() { a.printf("%s", proof) })
		},
	}
	cmd.Flags().StringVar(&checkpoint, "checkpoint", "", "prove against the checkpoint in this file (default: the newest)")
	return cmd
}
