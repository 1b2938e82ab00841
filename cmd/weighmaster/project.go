package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
	"github.com/weighmaster/weighmaster/ledger/imported"
	"github.com/weighmaster/weighmaster/ledger/objects"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// Names in a project folder.
const (
	pipelineFile = "pipeline.yaml"
	policyFile   = "policy.yaml"
	trustFile    = "trust.yaml"
	keysDir      = "keys"
	ledgerFile   = "ledger.db"
	checkDir     = "checkpoints"
	evidenceDir  = "evidence"
	workDir      = "work"
	deliveredDir = "delivered"
	logKeyName   = "log"
)

// project is an open project folder.
type project struct {
	dir      string // absolute
	trust    schemas.Trust
	verifier attest.Verifier
	log      *ledger.Log
	logKey   note.Verifier
	store    ledger.Store
	objects  *objects.Store
	claims   map[godigest.Digest]attest.Claim // verified before, by bundle
	places   map[godigest.Digest]policy.Place // of all claims, once they were verified, by bundle
	imported *imported.Store                  // what other logs vouched for
	others   []*imported.Log                  // the logs in it, once listed
}

// findProject returns --project, or the first folder from here upwards that holds a pipeline.yaml and a ledger.
func (a *app) findProject() (string, error) {
	if a.project != "" {
		if !exists(filepath.Join(a.project, pipelineFile)) {
			return "", usage("--project: %s is not a project: it has no %s; make one with weighmaster init", a.project, pipelineFile)
		}
		return filepath.Abs(a.project)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if isProject(dir) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", usage("no project here or above (a folder with %s and %s); make one with weighmaster init, or name it with --project", pipelineFile, ledgerFile)
		}
		dir = parent
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// open opens the project's trust, ledger and evidence store. With signing the
// ledger's key is loaded too, which may ask for a password.
func (a *app) open(ctx context.Context, signing bool) (*project, error) {
	p, opt, err := a.unopened(ctx, signing)
	if err != nil {
		return nil, err
	}
	if p.log, err = ledger.Open(ctx, p.store, opt); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// unopened is open up to the log itself, which may be one that nobody can open.
func (a *app) unopened(ctx context.Context, signing bool) (*project, ledger.Options, error) {
	var opt ledger.Options
	dir, err := a.findProject()
	if err != nil {
		return nil, opt, err
	}
	p := &project{dir: dir, claims: map[godigest.Digest]attest.Claim{}, imported: openImported(dir)}
	if p.trust, err = readTrust(filepath.Join(dir, trustFile)); err != nil {
		return nil, opt, err
	}
	if p.verifier, err = claimVerifier(p.trust, filepath.Join(dir, trustFile)); err != nil {
		return nil, opt, err
	}
	if p.logKey, err = note.NewVerifier(strings.TrimSpace(p.trust.Log.Key)); err != nil {
		return nil, opt, usage("%s: log.key: %v", trustFile, err)
	}
	opt = ledger.Options{Origin: p.trust.Log.Origin, Verifier: p.logKey, Index: indexBundle, Now: time.Now}
	if signing {
		if opt.Signer, err = a.logSigner(dir); err != nil {
			return nil, opt, err
		}
	}
	if opt.Checkpoints, err = checkpoints.Open(filepath.Join(dir, checkDir)); err != nil {
		return nil, opt, err
	}
	if p.objects, err = objects.Open(filepath.Join(dir, evidenceDir)); err != nil {
		return nil, opt, err
	}
	if p.store, err = a.openStore(ctx, dir); err != nil {
		return nil, opt, err
	}
	return p, opt, nil
}

func (p *project) close() error { return p.store.Close() }

// indexBundle reads what a bundle is about; the ledger asks it, never a caller.
func indexBundle(bundle []byte) (ledger.Index, error) {
	pae, predicateType, subjects, dependencies, err := attest.UnverifiedIndex(bundle)
	if err != nil {
		return ledger.Index{}, err
	}
	return ledger.Index{PAE: pae, PredicateType: predicateType, Subjects: refs(subjects), Dependencies: refs(dependencies)}, nil
}

func refs(list []attest.NamedDigest) []ledger.Ref {
	out := make([]ledger.Ref, len(list))
	for i, n := range list {
		out[i] = ledger.Ref{Name: n.Name, Digest: n.Digest}
	}
	return out
}

// allClaims verifies every entry of the log. The claims come in the order in
// which they were said, see [policy.InOrder].
func (p *project) allClaims(ctx context.Context) ([]attest.Claim, error) {
	var list []attest.Claim
	places := map[godigest.Digest]policy.Place{}
	for entry, err := range p.log.Entries(ctx) {
		if err != nil {
			return nil, err
		}
		claim, err := p.claim(ctx, entry)
		if err != nil {
			return nil, err
		}
		if places[claim.Bundle()], err = p.place(entry); err != nil {
			return nil, err
		}
		list = append(list, claim)
	}
	p.places = places
	return policy.InOrder(list, places), nil
}

// place is where an entry lies, and when it was said.
func (p *project) place(entry ledger.Entry) (policy.Place, error) {
	origin, _, err := p.origin(entry.Leaf)
	if err != nil {
		return policy.Place{}, err
	}
	at, err := p.appended(entry.Leaf)
	if err != nil {
		return policy.Place{}, fmt.Errorf("ledger entry %d: %w", entry.Index, err)
	}
	return policy.Place{Index: int64(entry.Index), Appended: at, Imported: origin != p.trust.Log.Origin}, nil
}

// claim verifies an entry at the moment the log took it in, or the log that it
// was imported from. An entry that is no claim is an error: a project's own log
// holds nothing that its trust file does not name.
func (p *project) claim(ctx context.Context, entry ledger.Entry) (attest.Claim, error) {
	if claim, known := p.claims[entry.Leaf.Bundle]; known {
		return claim, nil
	}
	at, err := p.appended(entry.Leaf)
	if err != nil {
		return attest.Claim{}, fmt.Errorf("ledger entry %d: %w", entry.Index, err)
	}
	claim, err := p.verifier.Verify(ctx, entry.Bundle, at)
	if err != nil {
		return attest.Claim{}, &exitError{exitFalse, fmt.Errorf("ledger entry %d: %w; name its signer in %s or withdraw what rests on it", entry.Index, err, trustFile)}
	}
	p.claims[entry.Leaf.Bundle] = claim
	return claim, nil
}

func (p *project) readPipeline() (schemas.Pipeline, []byte, error) {
	var doc schemas.Pipeline
	body, err := readDocument(p.dir, pipelineFile, schemas.PipelineURI, &doc)
	return doc, body, err
}

func readDocument(dir, name, uri string, v any) ([]byte, error) {
	path := filepath.Join(dir, name)
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("%v", err)
	}
	if err := unedited(path, body); err != nil {
		return nil, err
	}
	if err := schemas.DecodeYAML(path, body, uri, v); err != nil {
		return nil, usage("%v", err)
	}
	return body, nil
}

// evidenceStore adapts the ledger's object store to what stages are handed.
type evidenceStore struct{ s *objects.Store }

func (e evidenceStore) Put(ctx context.Context, mediaType string, public bool, r io.Reader) (godigest.Digest, int64, error) {
	o, err := e.s.Put(ctx, mediaType, public, r)
	return o.Digest, o.Size, err
}

func (e evidenceStore) Get(ctx context.Context, d godigest.Digest) ([]byte, error) {
	body, _, err := e.s.Get(ctx, d)
	return body, err
}
