package main

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/ledger/witness/witnesstest"
)

// cmdWitness: witness DIR NUMBER [URL]. Starts a witness of a project's log on
// loopback until the script ends and adds it to the project's trust.yaml, with
// another address if one is given.
func cmdWitness(ts *testscript.TestScript, _ bool, args []string) {
	path := filepath.Join(ts.MkAbs(args[0]), trustFile)
	trust, err := readTrust(path)
	ts.Check(err)
	verifier, err := note.NewVerifier(strings.TrimSpace(trust.Log.Key))
	ts.Check(err)
	key := witnesstest.NewKey("witness.example/w"+args[1], args[1][0])
	server := httptest.NewServer(&witnesstest.Server{Key: key, Log: verifier})
	ts.Defer(server.Close)
	url := server.URL
	if len(args) > 2 {
		url = args[2]
	}
	body, err := os.ReadFile(path)
	ts.Check(err)
	if !strings.Contains(string(body), "\nwitnesses:\n") {
		body = append(body, "\nwitnesses:\n"...)
	}
	body = fmt.Appendf(body, "  - origin: %s\n    key: %s\n    url: %s\n", key.Name, key, url)
	ts.Check(os.WriteFile(path, body, 0o644))
}

// cmdCosigned: cosigned DIR. Alters w1's cosignature on the checkpoint that has one.
func cmdCosigned(ts *testscript.TestScript, _ bool, args []string) {
	found := 0
	ts.Check(filepath.WalkDir(filepath.Join(ts.MkAbs(args[0]), checkDir), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "latest" {
			return err
		}
		body, err := os.ReadFile(path)
		at := strings.Index(string(body), "— witness.example/w1 ")
		if err != nil || at < 0 {
			return err
		}
		found++
		at += len("— witness.example/w1 ") + 20
		body[at] = map[bool]byte{true: 'B', false: 'A'}[body[at] == 'A']
		return errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, body, 0o644))
	}))
	if found != 1 {
		ts.Fatalf("%d checkpoints are cosigned, want 1", found)
	}
}

// cmdFork: fork CHECKPOINT DIR OUT. Signs with the log key of the project a
// checkpoint of the same size with another root.
func cmdFork(ts *testscript.TestScript, _ bool, args []string) {
	lines := strings.SplitN(ts.ReadFile(args[0]), "\n", 4)
	body, err := os.ReadFile(filepath.Join(ts.MkAbs(args[1]), keysDir, logKeyName+".pem"))
	ts.Check(err)
	secret, err := keys.LoadLogKey(body, nil)
	ts.Check(err)
	signer, err := note.NewSigner(secret)
	ts.Check(err)
	msg, err := note.Sign(&note.Note{Text: lines[0] + "\n" + lines[1] + "\n" + strings.Repeat("A", 43) + "=\n"}, signer)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), msg, 0o644))
}
