package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/attest/keys"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
	"github.com/weighmaster/weighmaster/ledger/objects"
	"github.com/weighmaster/weighmaster/schemas"
)

// initOptions say what a new project is about.
type initOptions struct {
	Repository, Revision string
	NoPassword           bool
	Tools                string // who does the work: see init_tools.go
	Device               string // on which weights lie while a matrix is measured
	Rented               string // where the machine is rented; empty for one's own
}

var (
	revisionForm   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	repositoryForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

func (a *app) initCommand() *cobra.Command {
	var opt initOptions
	cmd := &cobra.Command{
		Use: "init [FOLDER]", Short: "Make a project folder: pipeline, policy, trust, keys, ledger",
		Args:    cobra.MaximumNArgs(1),
		Example: "  weighmaster init my-model --repository owner/name --revision 0123456789abcdef0123456789abcdef01234567",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if err := a.initProject(cmd.Context(), dir, opt); err != nil {
				return err
			}
			return a.answer(map[string]string{"project": dir}, func() {
				a.printf("%s is a project now. Edit %s and %s, then: weighmaster --project %s run\n", dir, pipelineFile, policyFile, dir)
			})
		},
	}
	cmd.Flags().StringVar(&opt.Repository, "repository", "", "the publisher's repository, owner/name (required)")
	cmd.Flags().StringVar(&opt.Revision, "revision", "", "the revision to pin, 40 hex digits (required)")
	cmd.Flags().BoolVar(&opt.NoPassword, "no-password", false, "leave the private keys unencrypted")
	cmd.Flags().StringVar(&opt.Tools, "tools", ownTools, "who converts and quantizes: "+ownTools+", or "+llamaCpp+", built for the run and boxed")
	cmd.Flags().StringVar(&opt.Device, "device", "CPU", "with --tools "+llamaCpp+": where every weight lies while the importance matrix is measured: CPU, CUDA0, CUDA0,CUDA1 …")
	cmd.Flags().StringVar(&opt.Rented, "rented", "", "with --tools "+llamaCpp+": where the machine is rented (azure); its release is then demanded")
	return cmd
}

// initProject makes a project in a folder that is empty or does not exist.
func (a *app) initProject(ctx context.Context, dir string, opt initOptions) error {
	if !repositoryForm.MatchString(opt.Repository) {
		return usage("--repository: got %q, want owner/name", opt.Repository)
	}
	if !revisionForm.MatchString(opt.Revision) {
		return usage("--revision: got %q, want a full commit of 40 lower-case hex digits; a branch name can move", opt.Revision)
	}
	if opt.Tools == "" {
		opt.Tools, opt.Device = ownTools, "CPU"
	}
	documents, err := opt.documents(strings.NewReplacer("@REPOSITORY@", opt.Repository, "@REVISION@", opt.Revision, "@NAME@", path.Base(opt.Repository)))
	if err != nil {
		return err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return usage("%s is not empty; init starts a project and never changes one", dir)
	}
	if err := a.checkVacant(ctx); err != nil {
		return err
	}
	var password []byte
	if !opt.NoPassword { // asked before anything is made
		if password, err = a.newPassword("the new keys"); err != nil {
			return err
		}
	}
	for _, sub := range []string{keysDir, workDir, deliveredDir, "eval"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	trust, logSigner, err := makeKeys(dir, password)
	if err != nil {
		return err
	}
	documents[trustFile] = trust
	if opt.Tools == llamaCpp { // the build keeps its compiler's results there
		if err := os.MkdirAll(filepath.Join(dir, "ccache"), 0o755); err != nil {
			return err
		}
	}
	for name, text := range documents {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return err
		}
		if err := keys.WriteNewPublic(filepath.Join(dir, name), []byte(text)); err != nil {
			return err
		}
	}
	return a.createLedger(ctx, dir, logSigner)
}

// makeKeys makes the producer's, the gatekeeper's and the log's key, unencrypted
// without a password, and returns the trust file that names them.
func makeKeys(dir string, password []byte) (string, note.Signer, error) {
	var id [8]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	origin := "weighmaster.example/log/" + hex.EncodeToString(id[:])
	var trust strings.Builder
	fmt.Fprintf(&trust, "# Whose word counts. There is no default trust.\nschema: %s\nfunctionaries:\n", schemas.TrustURI)
	for _, name := range []string{"producer", "gatekeeper"} {
		public, err := writeKey(filepath.Join(dir, keysDir), name, keys.ECDSA, password)
		if err != nil {
			return "", nil, err
		}
		fmt.Fprintf(&trust, "  - name: %s\n    key: |\n      %s\n", name, strings.ReplaceAll(strings.TrimSpace(string(public)), "\n", "\n      "))
	}
	fmt.Fprint(&trust, "# Who may decide under a policy that nobody pinned.\ndeciders: [gatekeeper]\n")
	secret, verifierKey, err := keys.GenerateLogKey(origin)
	if err != nil {
		return "", nil, err
	}
	encode := keys.EncodeLogKeyPlain
	if password != nil {
		encode = func(secret string) ([]byte, error) { return keys.EncodeLogKey(secret, password) }
	}
	pem, err := encode(secret)
	if err != nil {
		return "", nil, err
	}
	if err := keys.WriteNew(filepath.Join(dir, keysDir, logKeyName+".pem"), pem); err != nil {
		return "", nil, err
	}
	fmt.Fprintf(&trust, "log:\n  origin: %s\n  key: %s\n", origin, verifierKey)
	signer, err := note.NewSigner(secret)
	return trust.String(), signer, err
}

// writeKey makes a key pair as <name>.pem and <name>.pub and returns the public
// PEM. Without a password the private key lies unencrypted.
func writeKey(dir, name, algorithm string, password []byte) ([]byte, error) {
	for _, half := range []string{".pem", ".pub"} { // neither half without the other
		if path := filepath.Join(dir, name+half); exists(path) {
			return nil, usage("key file %s exists; choose another name or move it away, keys are never overwritten", path)
		}
	}
	key, err := keys.Generate(algorithm)
	if err != nil {
		return nil, err
	}
	encode := keys.EncodePlain
	if password != nil {
		encode = func(key crypto.Signer) ([]byte, error) { return keys.Encode(key, password) }
	}
	private, err := encode(key)
	if err != nil {
		return nil, err
	}
	public, err := keys.EncodePublic(key.Public())
	if err != nil {
		return nil, err
	}
	if err := keys.WriteNew(filepath.Join(dir, name+".pem"), private); err != nil {
		return nil, err
	}
	return public, keys.WriteNewPublic(filepath.Join(dir, name+".pub"), public)
}

func (a *app) createLedger(ctx context.Context, dir string, signer note.Signer) error {
	trust, err := readTrust(filepath.Join(dir, trustFile))
	if err != nil {
		return err
	}
	key, err := note.NewVerifier(trust.Log.Key)
	if err != nil {
		return err
	}
	kept, err := checkpoints.Create(filepath.Join(dir, checkDir))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, evidenceDir), 0o755); err != nil {
		return err
	}
	if _, err := objects.Open(filepath.Join(dir, evidenceDir)); err != nil {
		return err
	}
	store, err := a.createStore(ctx, dir)
	if err != nil {
		return err
	}
	_, err = ledger.Create(ctx, store, ledger.Options{Origin: trust.Log.Origin, Signer: signer, Verifier: key, Checkpoints: kept, Index: indexBundle, Now: time.Now})
	if closeErr := store.Close(); err == nil {
		err = closeErr
	}
	return err
}
