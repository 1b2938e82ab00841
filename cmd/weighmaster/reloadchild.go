package main

import (
	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/stages"
)

// reloadChildCommand is what the reload stage starts in its box. It reads its
// job on standard input and answers on standard output.
func (a *app) reloadChildCommand() *cobra.Command {
	return &cobra.Command{
		Use: stages.ReloadVerb, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return stages.ReloadChild(cmd.Context(), a.in, a.out) },
	}
}
