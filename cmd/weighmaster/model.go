package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// modelSignatureName is the signature of a folder, beside its files.
const modelSignatureName = "model.sig"

// modelCommand is the OpenSSF format: it needs no project and no ledger, and its
// trust is in a model's files alone, so it is no flag of verify or export.
func (a *app) modelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "model", Short: "Sign or verify a model in the OpenSSF model signing format", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.modelSignCommand(), a.modelVerifyCommand())
	return cmd
}

// modelSignature is where the signature of a model lies when nobody says.
func modelSignature(model string, folder bool) string {
	if folder {
		return filepath.Join(model, modelSignatureName)
	}
	return model + ".sig"
}

// insideModel is a file's path from a model's folder, with slashes; empty outside.
func insideModel(model, file string) string {
	from, err1 := filepath.Abs(model)
	to, err2 := filepath.Abs(file)
	if err1 != nil || err2 != nil {
		return ""
	}
	name, err := filepath.Rel(from, to)
	if name = filepath.ToSlash(name); err != nil || name == "." || name == ".." || strings.HasPrefix(name, "../") {
		return ""
	}
	return name
}

// cleanPaths are paths of --leave as the scan compares them.
func cleanPaths(list []string) ([]string, error) {
	out := make([]string, 0, len(list))
	for _, p := range list {
		clean := strings.TrimSuffix(filepath.ToSlash(p), "/")
		if clean == "." || !filepath.IsLocal(clean) || filepath.ToSlash(filepath.Clean(clean)) != clean {
			return nil, usage("--leave: got %q, want a path from the model's folder, within it", p)
		}
		out = append(out, clean)
	}
	return out, nil
}
