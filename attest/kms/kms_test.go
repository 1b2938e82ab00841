package kms_test

import (
	"context"
	"crypto"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/common"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin/handler"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/attest/kms"
	"github.com/weighmaster/weighmaster/attest/sigstore"
)

const prefix = "sigstore-kms-"

// The test binary, under the name of a plugin, is one: its name says how it lies.
func TestMain(m *testing.M) {
	name, isPlugin := strings.CutPrefix(filepath.Base(os.Args[0]), prefix)
	if !isPlugin {
		os.Exit(m.Run())
	}
	if err := plugin(name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// plugin serves the private key whose file the reference names.
func plugin(name string) error {
	args, err := handler.GetPluginArgs(os.Args)
	if err != nil {
		return err
	}
	signing := args.MethodName == common.SignMessageMethodName
	file := args.InitOptions.KeyResourceID
	switch {
	case name == "hang":
		time.Sleep(time.Minute)
	case name == "orphan": // a child outlives the plugin and keeps its output open
		child := exec.Command("sleep", "30")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			return err
		}
		time.Sleep(time.Minute)
	case name == "hang-signing" && signing:
		time.Sleep(time.Minute)
	case name == "garbage":
		fmt.Print("not JSON")
		return nil
	case name == "empty":
		fmt.Print("{}")
		return nil
	case name == "empty-signing" && signing:
		fmt.Print("{}")
		return nil
	case name == "refuses" && signing:
		return handler.WriteErrorResponse(os.Stdout, fmt.Errorf("the token is locked"))
	case name == "other-public" && !signing, name == "other-key" && signing:
		file += ".other"
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
	var message io.Reader = os.Stdin
	if name == "other-message" && signing {
		message = strings.NewReader("something else")
		args.SignMessage.SignOptions.MessageOptions.Digest = nil
	}
	if name == "no-signature" && signing {
		return handler.WriteResponse(os.Stdout, &common.PluginResp{SignMessage: &common.SignMessageResp{}})
	}
	_, err = handler.Dispatch(os.Stdout, message, args, service{sv})
	return err
}

// service completes a signer to the plugin's interface.
type service struct{ signature.SignerVerifier }

func (service) CreateKey(context.Context, string) (crypto.PublicKey, error) {
	return nil, fmt.Errorf("no new keys")
}

func (service) CryptoSigner(context.Context, func(error)) (crypto.Signer, crypto.SignerOpts, error) {
	return nil, nil, fmt.Errorf("not over the wire")
}

func (service) SupportedAlgorithms() []string { return nil }

func (service) DefaultAlgorithm() string { return "" }

// install puts the plugin on the PATH under a name and gives the reference of a new key.
func install(t *testing.T, name, algorithm string) (reference string, declared crypto.PublicKey) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, prefix+name)); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("this machine makes no links to programs: %v", err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	file := filepath.Join(dir, "token.pem")
	for _, path := range []string{file + ".other", file} {
		key, err := keys.Generate(algorithm)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := keys.EncodePlain(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := keys.WriteNew(path, doc); err != nil {
			t.Fatal(err)
		}
		declared = key.Public()
	}
	return name + "://" + file, declared
}

func statement(t *testing.T) *attest.Statement {
	t.Helper()
	s, err := attest.NewStatement([]*attest.ResourceDescriptor{{Name: "model.gguf", Digest: map[string]string{"sha256": strings.Repeat("ab", 32)}}},
		"https://example.org/said/v1", &structpb.Struct{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A key that never leaves its service signs bundles that verify like any other.
func TestPluginSigns(t *testing.T) {
	for _, algorithm := range []string{keys.ECDSA, keys.ECDSAP384, keys.Ed25519} {
		t.Run(algorithm, func(t *testing.T) {
			ctx := context.Background()
			reference, declared := install(t, "honest", algorithm)
			shown, err := kms.PublicKey(ctx, reference, 0)
			if err != nil || !shown.(interface{ Equal(crypto.PublicKey) bool }).Equal(declared) {
				t.Fatalf("public key %v, %v", shown, err)
			}
			key, err := kms.Open(ctx, reference, declared, 0)
			if err != nil {
				t.Fatal(err)
			}
			signer, err := sigstore.NewSigner(key)
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := signer.Sign(ctx, statement(t))
			if err != nil {
				t.Fatal(err)
			}
			v, err := sigstore.NewVerifier([]sigstore.Functionary{{Name: "producer", PublicKey: declared}}, sigstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := v.Verify(ctx, bundle, time.Time{}); err != nil {
				t.Error(err)
			}
			// By a digest as well, as a crypto.Signer is asked.
			hash, data := crypto.SHA256, make([]byte, 32)
			switch algorithm {
			case keys.ECDSAP384:
				hash, data = crypto.SHA384, make([]byte, 48)
			case keys.Ed25519:
				hash = 0
			}
			if _, err := key.Sign(nil, data, hash); err != nil {
				t.Error(err)
			}
			if _, err := key.Sign(nil, make([]byte, 64), crypto.SHA512); err == nil || !strings.Contains(err.Error(), "got the hash SHA-512") {
				t.Errorf("another hash gave %v", err)
			}
		})
	}
}

// A plugin that lies, fails or hangs signs nothing.
func TestPluginThatLies(t *testing.T) {
	for _, c := range []struct {
		name  string
		opens bool // it lies only when it signs
		words string
	}{
		{"other-public", false, "another public key than the declared one"},
		{"other-key", true, "not by the declared key"},
		{"other-message", true, "not by the declared key"},
		{"no-signature", true, "not by the declared key"},
		{"garbage", false, "parsing plugin response"},
		{"empty", false, "lacks what was asked"},
		{"empty-signing", true, "lacks what was asked"},
		{"refuses", true, "the token is locked"},
		{"hang", false, "no answer within"},
		{"hang-signing", true, "no answer within"},
		{"orphan", false, "no answer within"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			timeout := 20 * time.Second
			if c.name == "hang" || c.name == "orphan" {
				timeout = time.Second
			}
			if c.name == "hang-signing" {
				timeout = 5 * time.Second // it must answer for its public key first
			}
			reference, declared := install(t, c.name, keys.ECDSA)
			key, err := kms.Open(ctx, reference, declared, timeout)
			if !c.opens {
				if err == nil || !strings.Contains(err.Error(), c.words) {
					t.Errorf("got %v, want an error with %q", err, c.words)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			signer, err := sigstore.NewSigner(key)
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := signer.Sign(ctx, statement(t))
			if err == nil || bundle != nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %d bytes and %v, want an error with %q", len(bundle), err, c.words)
			}
		})
	}
}

func TestReferences(t *testing.T) {
	key, err := keys.Generate(keys.ECDSA)
	if err != nil {
		t.Fatal(err)
	}
	for reference, words := range map[string]string{
		"":                                    "NAME://KEY",
		"producer.pem":                        "NAME://KEY",
		"../../bin/x://key":                   "NAME://KEY",
		"x/../../bin/y://key":                 "NAME://KEY",
		"AWSKMS://key":                        "NAME://KEY",
		"none://two words":                    "NAME://KEY",
		"none://" + strings.Repeat("k", 2000): "at most 1024 bytes",
		"none-installed://key":                "install the service's plugin program",
	} {
		if _, err := kms.Open(context.Background(), reference, key.Public(), 0); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%.40q: got %v, want an error with %q", reference, err, words)
		}
	}
	if _, err := kms.Open(context.Background(), "none://key", nil, 0); err == nil || !strings.Contains(err.Error(), "public key") {
		t.Errorf("no declared key gave %v", err)
	}
}
