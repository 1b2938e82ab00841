package main

import (
	"context"

	godigest "github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/verify/bom"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

func (a *app) exportCommand() *cobra.Command {
	var out, classic, signer, summary, lines, cyclonedx, spdx, oci string
	var private, plain bool
	cmd := &cobra.Command{
		Use: "export FILE", Short: "Write what the ledger knows of a file, for us or for other tools", Args: cobra.ExactArgs(1),
		Long: "Export writes everything that the ledger says about a file into one package: its lineage, examinations, decisions, proofs, checkpoint, public evidence and the policy.\n" +
			"With --private the package also holds private evidence, logs and arrays: for another machine of one's own; it is marked, and nothing here publishes it.\n" +
			"With --oci ADDRESS the public package and its bundles are attached to the file in a registry, where deliver put it, as referrers.\n" +
			"For other tools it writes one of these instead, from claims that it has verified:\n" +
			"  --in-toto DIR     for in-toto-verify: root.layout, its public key root.pub and a link a stage, signed anew with --signer's key\n" +
			"  --jsonl FILE      every bundle on a line of its own, as gh attestation download writes them\n" +
			"  --vsa FILE        the newest verification summary over the file as a DSSE envelope, for slsa-verifier verify-vsa\n" +
			"  --cyclonedx FILE  a CycloneDX 1.6 ML-BOM: model card with the metrics of its evaluations, lineage as pedigree, stages as formulation\n" +
			"  --spdx FILE       an SPDX 3.0.1 document in JSON-LD with the same, by the AI, Dataset and Build profiles",
		Example: "  weighmaster export delivered/model-Q8_0.gguf --out model-Q8_0.gguf.evidence.zip\n" +
			"  weighmaster export delivered/model-Q8_0.gguf --in-toto links/\n" +
			"  weighmaster export delivered/model-Q8_0.gguf --vsa model-Q8_0.gguf.vsa.json\n" +
			"  weighmaster export delivered/model-Q8_0.gguf --cyclonedx model-Q8_0.cdx.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer p.close()
			var names []string
			switch ctx := cmd.Context(); {
			case classic != "":
				names, err = a.exportClassic(ctx, p, args[0], classic, signer)
			case summary != "":
				names, err = p.exportSummary(ctx, args[0], summary)
			case lines != "":
				names, err = p.exportLines(ctx, args[0], lines)
			case cyclonedx != "":
				names, err = p.exportBOM(ctx, args[0], cyclonedx, bom.CycloneDX)
			case spdx != "":
				names, err = p.exportBOM(ctx, args[0], spdx, bom.SPDX)
			case oci != "":
				names, err = p.exportRegistry(ctx, args[0], oci, plain)
			case private:
				var name string
				if name, err = p.exportPrivate(ctx, args[0], out); err != nil {
					return err
				}
				return a.answer(map[string]any{"package": name, "private": true}, func() { a.printf("%s", sayPrivate(name)) })
			default:
				return a.exportPackage(ctx, p, args[0], out)
			}
			if err != nil {
				return err
			}
			return a.answer(map[string][]string{"files": names}, func() {
				for _, n := range names {
					a.printf("%s\n", n)
				}
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "where to write the package (default: FILE"+packageSuffix+")")
	cmd.Flags().StringVar(&classic, "in-toto", "", "write a classic in-toto layout and links into this new folder instead")
	cmd.Flags().StringVar(&signer, "signer", "producer", "whose key signs the layout and the links")
	cmd.Flags().StringVar(&summary, "vsa", "", "write the newest verification summary into this new file instead")
	cmd.Flags().StringVar(&lines, "jsonl", "", "write every bundle into this new file, or a new one in this folder, instead: one a line")
	cmd.Flags().StringVar(&cyclonedx, "cyclonedx", "", "write a CycloneDX 1.6 ML-BOM into this new file instead")
	cmd.Flags().StringVar(&spdx, "spdx", "", "write an SPDX 3.0.1 document into this new file instead")
	cmd.Flags().StringVar(&oci, "oci", "", "attach the evidence to the file in this registry instead: oci://registry/repository:tag")
	cmd.Flags().BoolVar(&private, "private", false, "also private evidence, for another machine of one's own (default name: FILE"+ownSuffix+")")
	cmd.Flags().BoolVar(&plain, "plain-http", false, "talk to the registry without TLS, also where it is not on loopback")
	cmd.MarkFlagsMutuallyExclusive("out", "in-toto", "vsa", "jsonl", "cyclonedx", "spdx", "oci")
	cmd.MarkFlagsMutuallyExclusive("private", "in-toto", "vsa", "jsonl", "cyclonedx", "spdx", "oci")
	return cmd
}

func (a *app) exportPackage(ctx context.Context, p *project, artifact, out string) error {
	if out == "" {
		out = artifact + packageSuffix
	}
	if err := p.pack(ctx, artifact, out); err != nil {
		return err
	}
	return a.answer(map[string]string{"package": out}, func() { a.printf("%s\n", out) })
}

// lineageOf verifies the whole log and picks the claims that an artifact's
// package would hold, in log order. Claims about nothing are an error.
func (p *project) lineageOf(ctx context.Context, artifact string) (godigest.Digest, []attest.Claim, error) {
	d, err := digestArgument(ctx, artifact)
	if err != nil {
		return "", nil, err
	}
	claims, err := p.allClaims(ctx)
	if err != nil {
		return "", nil, err
	}
	chosen := evidence.Select(claims, d)
	var lineage []attest.Claim
	for _, c := range claims {
		if chosen[c.Bundle()] {
			lineage = append(lineage, c)
		}
	}
	if len(lineage) == 0 {
		return "", nil, usage("%s: the ledger says nothing about %s", artifact, d)
	}
	return d, lineage, nil
}
