package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/attest/modelsigning"
)

// modelSigned is what model sign answers.
type modelSigned struct {
	Signature string   `json:"signature"` // path
	Model     string   `json:"model"`
	Files     int      `json:"files"`
	Left      []string `json:"left"` // what is there and not signed
}

func (a *app) modelSignCommand() *cobra.Command {
	var key, out string
	var leave []string
	cmd := &cobra.Command{
		Use: "sign MODEL", Short: "Sign every file of a model, a folder or one file", Args: cobra.ExactArgs(1),
		Long: "Sign writes a model signature (OMS 1.0) that model_signing verify key takes. Every file is signed, empty ones too; what git keeps in the folder\n" +
			"(.git, .gitattributes, .github, .gitignore) is left out, as the format demands, and --leave leaves out more. Symbolic links are refused.",
		Example: "  weighmaster model sign snapshot/ --key keys/producer.pem\n  model_signing verify key --public_key keys/producer.pub --signature snapshot/model.sig snapshot/",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.signModel(cmd.Context(), args[0], key, out, leave)
			if err != nil {
				return err
			}
			return a.answer(s, func() {
				a.printf("%s: %d files signed\n", s.Signature, s.Files)
				for _, p := range s.Left {
					a.printf("not signed: %s\n", p)
				}
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the private key, ECDSA (required)")
	cmd.Flags().StringVar(&out, "signature", "", "where to write the signature (default: MODEL/"+modelSignatureName+" or MODEL.sig)")
	cmd.Flags().StringArrayVar(&leave, "leave", nil, "a file or folder of the model that is not signed; may be repeated")
	if err := cmd.MarkFlagRequired("key"); err != nil {
		panic(err) // the flag was defined three lines up
	}
	return cmd
}

func (a *app) signModel(ctx context.Context, model, keyFile, out string, leave []string) (modelSigned, error) {
	var none modelSigned
	info, err := os.Stat(model)
	if err != nil {
		return none, usage("%v", err)
	}
	if out == "" {
		out = modelSignature(model, info.IsDir())
	}
	left, err := cleanPaths(leave)
	if err != nil {
		return none, err
	}
	left = append(left, modelsigning.GitPaths()...)
	if name := insideModel(model, out); name != "" {
		left = append(left, name)
	}
	key, err := a.loadKey(keyFile)
	if err != nil {
		return none, err
	}
	m, err := modelsigning.Scan(ctx, model, 0, left)
	if err != nil {
		return none, usage("%v", err)
	}
	bundle, err := modelsigning.Sign(ctx, key, m, left)
	if err != nil {
		return none, usage("%v", err)
	}
	if _, err := writeNew(out, bundle); err != nil {
		return none, err
	}
	return modelSigned{Signature: out, Model: m.Name, Files: len(m.Resources), Left: m.Left}, nil
}
