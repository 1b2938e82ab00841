package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weighmaster/weighmaster/ledger/postgres/postgrestest"
)

// TestPostgres runs scripts against a private server. $LEDGER names an empty
// database of it, with no log yet.
func TestPostgres(t *testing.T) {
	server := postgrestest.Start(t)
	scripts, err := os.ReadDir("testdata/postgres")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/postgres",
		Cmds: scriptCommands(map[string]func(*testscript.TestScript, bool, []string){
			// pgsql STATEMENT... as the superuser, in one session.
			"pgsql": func(ts *testscript.TestScript, _ bool, args []string) {
				server.Exec(t, ts.Getenv("DATABASE"), args...)
			},
		}),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			database := server.Database(t)
			env.Setenv("DATABASE", database)
			env.Setenv("LEDGER", server.URL(database))
			env.Setenv("SOCKET", server.Socket())
			env.Setenv("PRODUCT", "p/delivered/example-llama-2m-Q8_0.gguf")
			return usePlain(env)
		},
	})
}
