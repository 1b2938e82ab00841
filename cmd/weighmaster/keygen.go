package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/kms"
)

func (a *app) keygenCommand() *cobra.Command {
	var algorithm, dir, reference string
	var noPassword bool
	cmd := &cobra.Command{
		Use: "keygen NAME", Short: "Make a signing key: NAME.pem and NAME.pub",
		Args: cobra.ExactArgs(1),
		Long: "Keygen makes a signing key: the private half in NAME.pem, encrypted as cosign does, the public half in NAME.pub.\n" +
			"With --kms the key is at a service already: NAME.kms has its reference, NAME.pub the public key that the service shows now.\n" +
			"A reference PLUGIN://KEY is answered by the program sigstore-kms-PLUGIN on the PATH, as Sigstore's tools do.",
		Example: "  weighmaster keygen auditor --dir keys\n  weighmaster keygen builder --algorithm ed25519\n  weighmaster keygen producer --dir keys --kms myhsm://slot/4",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if name != filepath.Base(name) || name == "." || name == ".." || name == logKeyName {
				return usage("key name: got %q, want a plain name other than %q", name, logKeyName)
			}
			if reference != "" && (noPassword || cmd.Flags().Changed("algorithm")) {
				return usage("--kms: the service made the key; it takes neither --algorithm nor --no-password")
			}
			public, err := a.keygen(cmd.Context(), dir, name, algorithm, reference, noPassword)
			if err != nil {
				return err
			}
			return a.answer(map[string]string{"name": name, "public": string(public)}, func() {
				a.printf("%s", public)
			})
		},
	}
	cmd.Flags().StringVar(&algorithm, "algorithm", keys.ECDSA, "ecdsa-p256, ecdsa-p384 or ed25519")
	cmd.Flags().StringVar(&dir, "dir", ".", "the folder to write to")
	cmd.Flags().StringVar(&reference, "kms", "", "the reference of a key at a service, PLUGIN://KEY")
	cmd.Flags().BoolVar(&noPassword, "no-password", false, "leave the private key unencrypted")
	return cmd
}

func (a *app) keygen(ctx context.Context, dir, name, algorithm, reference string, noPassword bool) ([]byte, error) {
	var password []byte
	if !noPassword && reference == "" {
		var err error
		if password, err = a.newPassword("key " + name); err != nil {
			return nil, err
		}
		defer clear(password)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if reference != "" {
		return writeReference(ctx, dir, name, reference)
	}
	public, err := writeKey(dir, name, algorithm, password)
	if err != nil {
		return nil, usage("%v", err)
	}
	return public, nil
}

// writeReference declares a key at a service as <name>.kms and <name>.pub.
func writeReference(ctx context.Context, dir, name, reference string) ([]byte, error) {
	for _, half := range []string{referenceSuffix, publicSuffix, privateSuffix} {
		if path := filepath.Join(dir, name+half); exists(path) {
			return nil, usage("key file %s exists; choose another name or move it away, keys are never overwritten", path)
		}
	}
	key, err := kms.PublicKey(ctx, reference, 0)
	if err != nil {
		return nil, usage("--kms: %v", err)
	}
	public, err := keys.EncodePublic(key)
	if err != nil {
		return nil, err
	}
	return public, errors.Join(
		keys.WriteNew(filepath.Join(dir, name+referenceSuffix), []byte(reference+"\n")),
		keys.WriteNewPublic(filepath.Join(dir, name+publicSuffix), public))
}
