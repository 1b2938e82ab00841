package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every verb says in one line what it does, shows how it is used, and says how
// many arguments it takes.
func TestEveryVerbHasAnExample(t *testing.T) {
	verbs := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if !sub.Hidden && sub.Name() != "completion" && sub.Name() != "help" {
				walk(sub)
			}
		}
		if cmd.HasSubCommands() || !cmd.Runnable() {
			return
		}
		verbs++
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: in one line: %q", cmd.CommandPath(), cmd.Short)
		}
		if !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s has no example of its own: %q", cmd.CommandPath(), cmd.Example)
		}
		if cmd.Args == nil && !strings.Contains(cmd.Use, "...]") {
			t.Errorf("%s takes any arguments", cmd.CommandPath())
		}
	}
	walk((&app{}).root())
	if verbs < 30 {
		t.Errorf("%d verbs: some were not looked at", verbs)
	}
}
