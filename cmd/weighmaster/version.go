package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/stages"
)

// version is the module's version where the binary was installed from one, else "devel".
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version and the digest of this binary", Args: cobra.NoArgs,
		Example: "  weighmaster version --json",
		RunE: func(*cobra.Command, []string) error {
			digest, err := stages.BinaryDigest()
			if err != nil {
				return err
			}
			v := map[string]string{"version": version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "binary": digest.String()}
			return a.answer(v, func() {
				a.printf("weighmaster %s, %s, %s\n%s\n", v["version"], v["go"], v["platform"], v["binary"])
			})
		},
	}
}
