package main

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/modelsigning"
	"github.com/weighmaster/weighmaster/schemas"
)

// modelVerifyOptions say what to verify and whom to believe.
type modelVerifyOptions struct {
	model, signature, trust, root, subject string
	leave                                  []string
}

// modelVerified is what model verify answers.
type modelVerified struct {
	Verdict     schemas.Verdict           `json:"verdict"`
	Model       string                    `json:"model"`
	Signer      string                    `json:"signer"`
	Key         godigest.Digest           `json:"key"`
	SignedAt    *time.Time                `json:"signedAt,omitempty"` // vouched; absent without a timestamp
	Files       int                       `json:"files"`              // that were signed
	Left        []string                  `json:"left"`               // there, and not looked at because the caller said so
	Differences []modelsigning.Difference `json:"differences"`
}

func (a *app) modelVerifyCommand() *cobra.Command {
	var opt modelVerifyOptions
	cmd := &cobra.Command{
		Use: "verify MODEL", Short: "Check a model, a folder or one file, against its model signature, offline", Args: cobra.ExactArgs(1),
		Long: "Verify checks a model signature (OMS 1.0) by a key or keyless identity that the trust file names, or by a certificate under --root whose\n" +
			"name is --subject, and then that the model has exactly the files that were signed. A file that was not signed is an error, empty or not, whatever the\n" +
			"signature says is to be ignored; leave it out with --leave if you know what it is. Symbolic links are never followed. Exit code 0: it is the signed\n" +
			"model; 1: the signature or the model does not hold; 2: it could not be checked.",
		Example: "  weighmaster model verify snapshot/ --trust trust.yaml\n  weighmaster model verify snapshot/ --signature model.sig --root ca.pem --subject models@example.org --leave .gitattributes",
		RunE: func(cmd *cobra.Command, args []string) error {
			opt.model = args[0]
			res, err := verifyModel(cmd.Context(), opt)
			if err != nil {
				return err
			}
			if err := a.answer(res, func() { a.printModel(opt, res) }); err != nil {
				return err
			}
			return answered(res.Verdict)
		},
	}
	cmd.Flags().StringVar(&opt.signature, "signature", "", "the signature (default: MODEL/"+modelSignatureName+" or MODEL.sig)")
	cmd.Flags().StringVar(&opt.trust, "trust", "", "the trust file, for keys and keyless identities")
	cmd.Flags().StringVar(&opt.root, "root", "", "certificates of the authorities to trust, in PEM, for signatures by certificate")
	cmd.Flags().StringVar(&opt.subject, "subject", "", "whose certificate it must be: its alternative name, or common name where it has none")
	cmd.Flags().StringArrayVar(&opt.leave, "leave", nil, "a file or folder of the model that is not looked at; may be repeated")
	return cmd
}

func (a *app) printModel(opt modelVerifyOptions, res modelVerified) {
	for _, d := range res.Differences {
		a.printf("%s %s: %s\n       got  %s\n       want %s\n", mark(schemas.Failed), d.Check, d.Name, d.Got, d.Want)
	}
	for _, p := range res.Left {
		a.printf("not looked at: %s\n", p)
	}
	a.printf("%s: %s: %d files signed by %s\n", opt.model, res.Verdict, res.Files, res.Signer)
}

func verifyModel(ctx context.Context, opt modelVerifyOptions) (modelVerified, error) {
	var none modelVerified
	info, err := os.Stat(opt.model)
	if err != nil {
		return none, usage("%v", err)
	}
	if opt.signature == "" {
		opt.signature = modelSignature(opt.model, info.IsDir())
	}
	leave, err := cleanPaths(opt.leave)
	if err != nil {
		return none, err
	}
	if name := insideModel(opt.model, opt.signature); name != "" {
		leave = append(leave, name)
	}
	bundle, err := readBounded(opt.signature, attest.MaxBundleBytes)
	if err != nil {
		return none, usage("%v; name the model's signature with --signature", err)
	}
	s, err := opt.verify(ctx, bundle)
	if err != nil {
		var refused *attest.VerificationError
		if errors.As(err, &refused) {
			return none, &exitError{exitFalse, fmt.Errorf("%s: %w", opt.signature, err)}
		}
		return none, err
	}
	m, err := modelsigning.Scan(ctx, opt.model, s.Manifest.ShardSize, leave)
	if err != nil {
		var unsigned *modelsigning.FileError
		if errors.As(err, &unsigned) {
			return none, &exitError{exitFalse, fmt.Errorf("%s: %w", opt.model, err)}
		}
		return none, usage("%v", err)
	}
	res := modelVerified{Verdict: schemas.Passed, Model: m.Name, Signer: s.Functionary, Key: s.Key, Files: len(s.Manifest.Resources), Left: m.Left, Differences: s.Manifest.Compare(m)}
	if !s.SignedAt.IsZero() {
		res.SignedAt = &s.SignedAt
	}
	if len(res.Differences) > 0 {
		res.Verdict = schemas.Failed
	}
	return res, nil
}

// verify verifies the signature by whom the caller trusts: one way, chosen by the caller.
func (opt modelVerifyOptions) verify(ctx context.Context, bundle []byte) (modelsigning.Signature, error) {
	var none modelsigning.Signature
	switch {
	case opt.trust != "" && (opt.root != "" || opt.subject != ""):
		return none, usage("got --trust and a certificate authority, want one of them: it decides whose word counts")
	case opt.root != "" && opt.subject != "":
		roots := x509.NewCertPool()
		doc, err := os.ReadFile(opt.root)
		if err != nil {
			return none, usage("%v", err)
		}
		if !roots.AppendCertsFromPEM(doc) {
			return none, usage("--root: %s holds no certificate in PEM", opt.root)
		}
		return modelsigning.VerifyCertificate(bundle, roots, opt.subject, time.Now())
	case opt.root != "" || opt.subject != "":
		return none, usage("want --root and --subject together: an authority vouches for many, one of them signed")
	case opt.trust == "":
		return none, usage("--trust is required, or --root with --subject: without it nothing can be decided")
	}
	trust, err := readTrust(opt.trust)
	if err != nil {
		return none, err
	}
	v, err := claimVerifier(trust, opt.trust)
	if err != nil {
		return none, err
	}
	var pubs []crypto.PublicKey
	for _, f := range trust.Functionaries {
		fn, err := functionary(f)
		if err != nil {
			return none, usage("%s: functionary %s: %v", opt.trust, f.Name, err)
		}
		if fn.PublicKey != nil {
			pubs = append(pubs, fn.PublicKey)
		}
		for _, k := range fn.Keys {
			pubs = append(pubs, k.PublicKey)
		}
	}
	return modelsigning.Verify(ctx, bundle, v, pubs, time.Now())
}
