package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/intoto"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// layoutValidity is how long an exported classic layout is valid.
const layoutValidity = 365 * 24 * time.Hour

func (a *app) exportCommand() *cobra.Command {
	var out, classic, signer string
	cmd := &cobra.Command{
		Use: "export FILE", Short: "Write what the ledger knows of a file: an evidence package, or a classic in-toto layout", Args: cobra.ExactArgs(1),
		Long: "Export writes everything that the ledger says about a file into one package: its lineage, examinations, decisions, proofs, checkpoint, public evidence and the policy.\n" +
			"With --in-toto it writes a folder for in-toto-verify instead: root.layout, its public key root.pub and a link a stage, signed anew with --signer's key.",
		Example: "  weighmaster export delivered/model-Q8_0.gguf --out model-Q8_0.gguf.evidence.zip\n" +
			"  weighmaster export delivered/model-Q8_0.gguf --in-toto links/",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer p.close()
			if classic != "" {
				names, err := a.exportClassic(cmd.Context(), p, args[0], classic, signer)
				if err != nil {
					return err
				}
				return a.answer(map[string][]string{"files": names}, func() {
					for _, n := range names {
						a.printf("%s\n", n)
					}
				})
			}
			if out == "" {
				out = args[0] + packageSuffix
			}
			if err := p.pack(cmd.Context(), args[0], out); err != nil {
				return err
			}
			return a.answer(map[string]string{"package": out}, func() { a.printf("%s\n", out) })
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "where to write the package (default: FILE"+packageSuffix+")")
	cmd.Flags().StringVar(&classic, "in-toto", "", "write a classic in-toto layout and links into this new folder instead")
	cmd.Flags().StringVar(&signer, "signer", "producer", "whose key signs the layout and the links")
	return cmd
}

// exportClassic writes the stage runs of a file's lineage as classic in-toto metadata.
func (a *app) exportClassic(ctx context.Context, p *project, artifact, dir, signer string) ([]string, error) {
	d, err := digestArgument(ctx, artifact)
	if err != nil {
		return nil, err
	}
	claims, err := p.allClaims(ctx)
	if err != nil {
		return nil, err
	}
	chosen := evidence.Select(claims, d)
	var lineage []attest.Claim
	for _, c := range claims {
		if chosen[c.Bundle()] {
			lineage = append(lineage, c)
		}
	}
	runs, err := intoto.Runs(lineage)
	if err != nil {
		return nil, usage("%v", err)
	}
	if len(runs) == 0 {
		return nil, usage("%s: the ledger says nothing about %s", artifact, d)
	}
	key, err := a.loadKey(filepath.Join(p.dir, keysDir, signer+".pem"))
	if err != nil {
		return nil, err
	}
	public, err := keys.EncodePublic(key.Public())
	if err != nil {
		return nil, err
	}
	layout, err := intoto.ExportLayout(runs, time.Now().Add(layoutValidity), key)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, usage("%v; name a folder that does not exist", err)
	}
	names := []string{"root.layout", "root.pub"}
	files := map[string][]byte{"root.layout": layout, "root.pub": public}
	for _, run := range runs {
		name, body, err := intoto.ExportLink(run, key)
		if err != nil {
			return nil, err
		}
		names, files[name] = append(names, name), body
	}
	for _, name := range names {
		if err := keys.WriteNewPublic(filepath.Join(dir, name), files[name]); err != nil {
			return nil, err
		}
	}
	return names, nil
}
