package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/attest/keys"
)

func (a *app) keygenCommand() *cobra.Command {
	var kind, dir string
	var noPassword bool
	cmd := &cobra.Command{
		Use: "keygen NAME", Short: "Make a signing key: NAME.pem and NAME.pub",
		Args:    cobra.ExactArgs(1),
		Example: "  weighmaster keygen auditor --dir keys\n  weighmaster keygen builder --type ed25519",
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			if name != filepath.Base(name) || name == "." || name == ".." || name == logKeyName {
				return usage("key name: got %q, want a plain name other than %q", name, logKeyName)
			}
			var password []byte
			if !noPassword {
				var err error
				if password, err = a.newPassword("key " + name); err != nil {
					return err
				}
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			public, err := writeKey(dir, name, kind, password)
			if err != nil {
				return usage("%v", err)
			}
			return a.answer(map[string]string{"name": name, "public": string(public)}, func() {
				a.printf("%s", public)
			})
		},
	}
	cmd.Flags().StringVar(&kind, "type", keys.ECDSA, "ecdsa-p256 or ed25519")
	cmd.Flags().StringVar(&dir, "dir", ".", "the folder to write to")
	cmd.Flags().BoolVar(&noPassword, "no-password", false, "leave the private key unencrypted")
	return cmd
}
