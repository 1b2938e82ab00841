package main

import "github.com/spf13/cobra"

func (a *app) exportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "export FILE", Short: "Write the evidence package of a file that the ledger knows", Args: cobra.ExactArgs(1),
		Long:    "Export writes everything that the ledger says about a file into one package: its lineage, examinations, decisions, proofs, checkpoint, public evidence and the policy.",
		Example: "  weighmaster export delivered/model-Q8_0.gguf --out model-Q8_0.gguf.evidence.zip",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer p.close()
			if out == "" {
				out = args[0] + packageSuffix
			}
			if err := p.pack(cmd.Context(), args[0], out); err != nil {
				return err
			}
			return a.answer(map[string]string{"package": out}, func() { a.printf("%s\n", out) })
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "where to write it (default: FILE"+packageSuffix+")")
	return cmd
}
