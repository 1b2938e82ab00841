package main

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/common"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/handler"

	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/sigstore/virtual"
	"github.com/weighmaster/weighmaster/schemas"
)

// keyServices are the plugin programs that scripts find on the PATH: one that
// signs with the key whose file the reference names, and one that shows that
// key's public half and signs with the key beside it.
func keyServices(into map[string]func()) map[string]func() {
	into["sigstore-kms-honest"] = func() { servePlugin("") }
	into["sigstore-kms-liar"] = func() { servePlugin(".other") }
	return into
}

func servePlugin(signsWith string) {
	if err := answerPlugin(signsWith); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func answerPlugin(signsWith string) error {
	args, err := handler.GetPluginArgs(os.Args)
	if err != nil {
		return err
	}
	file := args.InitOptions.KeyResourceID
	if args.MethodName == common.SignMessageMethodName {
		file += signsWith
	}
	doc, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	key, err := keys.Load(doc, nil)
	if err != nil {
		return err
	}
	sv, err := signature.LoadDefaultSignerVerifier(key)
	if err != nil {
		return err
	}
	_, err = handler.Dispatch(os.Stdout, os.Stdin, args, keyService{sv})
	return err
}

type keyService struct{ signature.SignerVerifier }

func (keyService) CreateKey(context.Context, string) (crypto.PublicKey, error) {
	return nil, errors.New("it makes no keys")
}

func (keyService) CryptoSigner(context.Context, func(error)) (crypto.Signer, crypto.SignerOpts, error) {
	return nil, nil, errors.New("not over the wire")
}

func (keyService) SupportedAlgorithms() []string { return nil }

func (keyService) DefaultAlgorithm() string { return "" }

// scriptTB lets helpers for tests run in a script.
type scriptTB struct {
	testing.TB
	ts *testscript.TestScript
}

func (s scriptTB) Helper()            {}
func (s scriptTB) Fatal(args ...any)  { s.ts.Fatalf("%s", fmt.Sprint(args...)) }
func (s scriptTB) Cleanup(end func()) { s.ts.Defer(end) }

// cmdAuthority: authority ROOT.json VARIABLE. Serves a timestamp authority on
// the loopback until the script ends, writes the trusted root that names it,
// and puts its URL into the variable.
func cmdAuthority(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("authority: got %q, want ROOT.json VARIABLE", args)
	}
	t := scriptTB{ts: ts}
	d := virtual.New(t)
	url := virtual.Identity{D: d, At: d.Now.Add(-2 * time.Minute)}.Serve(t)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), d.TrustedRoot(t, virtual.RootOptions{}), 0o600))
	ts.Setenv(args[1], url+"/api/v1/timestamp")
}

// cmdIdentity: identity SUBJECT ROOT.json CONFIG.json. Serves a whole Sigstore
// deployment that certifies everybody as SUBJECT, and writes its trusted root
// and its signing config.
func cmdIdentity(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("identity: got %q, want SUBJECT ROOT.json CONFIG.json", args)
	}
	t := scriptTB{ts: ts}
	d := virtual.New(t)
	url := virtual.Identity{D: d, Issuer: "https://issuer.example", Subject: args[0], At: d.Now.Add(-2 * time.Minute)}.Serve(t)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), d.TrustedRoot(t, virtual.RootOptions{}), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), virtual.SigningConfig(url), 0o600))
	ts.Setenv("TOKEN", virtual.Token(args[0]))
}

// cmdRotate: rotate TRUST NAME RETIRED NEW.pub. Gives a functionary of a trust
// file a list of keys: the one that it had, which expires in that many seconds
// from now, and a new one that is good at once.
func cmdRotate(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	trust, err := readTrust(path)
	ts.Check(err)
	in, err := time.ParseDuration(args[2])
	ts.Check(err)
	retired := time.Now().Add(in).UTC().Truncate(time.Second)
	for i, f := range trust.Functionaries {
		if f.Name == args[1] {
			trust.Functionaries[i].Keys = []schemas.FunctionaryKey{{Key: f.Key, NotAfter: &retired}, {Key: ts.ReadFile(args[3])}}
			trust.Functionaries[i].Key = ""
		}
	}
	body, err := json.Marshal(trust) // JSON is YAML
	ts.Check(err)
	ts.Check(os.WriteFile(path, body, 0o600))
}

// cmdAddRoot: addroot TRUST ROOT.json [NAME SUBJECT]. Names a trusted root in a
// trust file, and a functionary who is a certificate identity.
func cmdAddRoot(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	trust, err := readTrust(path)
	ts.Check(err)
	trust.TrustedRoot = args[1]
	if len(args) == 4 {
		trust.Functionaries = append(trust.Functionaries, schemas.Functionary{Name: args[2], Issuer: "https://issuer.example", Subject: args[3]})
	}
	body, err := json.Marshal(trust) // JSON is YAML
	ts.Check(err)
	ts.Check(os.WriteFile(path, body, 0o600))
}
