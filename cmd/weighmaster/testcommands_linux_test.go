package main

import "os"

// testCommands are the programs that tests start by name.
func testCommands() map[string]func() {
	return map[string]func(){"weighmaster": func() { os.Exit(run()) }, "crashing": crashing}
}
