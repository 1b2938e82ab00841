package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/imported"
	oci "github.com/weighmaster/weighmaster/stages/registry"
	"github.com/weighmaster/weighmaster/verify/evidence"
)

// importResult is what an import did.
type importResult struct {
	Origin   string `json:"origin"`   // the other log
	Size     int64  `json:"size"`     // entries under its checkpoint
	Entries  int    `json:"entries"`  // looked at
	Added    int    `json:"added"`    // of them new in this ledger
	Objects  int    `json:"objects"`  // public evidence objects that were new
	Withheld int    `json:"withheld"` // private ones: their digests came, they did not
	Private  int    `json:"private"`  // private ones that came, of a package for another machine of one's own
	Sources  string `json:"sources"`  // what was found of the machines' snapshots, held against each other
}

func (a *app) importCommand() *cobra.Command {
	var artifact string
	var plain bool
	cmd := &cobra.Command{
		Use: "import PACKAGE|PROJECT|oci://…", Short: "Take over what another log says, after checking all of it", Args: cobra.ExactArgs(1),
		Long: "Import adds the entries of an evidence package, or of another project's ledger, to this one: what one machine made becomes what the next one goes on from.\n" +
			"Before anything is written it checks the other log's signature against logs: in trust.yaml, the proof of every entry, the signature of every bundle by a\n" +
			"functionary of trust.yaml at the moment for which the other log vouches, and the digest of every evidence object. One failure imports nothing.\n" +
			"The other log's checkpoint and proofs are kept in " + importedDir + "/: a log that was cut back or forked since the last import is found out (exit code 3).\n" +
			"From oci://registry/repository:tag it takes every package that is attached to the file there.\n" +
			"Where both machines acquired the source, their manifests are held against each other, file by file; one difference imports nothing.\n" +
			"Private evidence stays behind, unless it was exported with --private. A second import of the same adds nothing.",
		Example: "  weighmaster export work/bf16/model-BF16.gguf --out model-BF16.zip        (on the one machine, also of a file that was never delivered)\n  weighmaster import model-BF16.zip\n  weighmaster import ../other-project --artifact sha256:…",
		RunE: func(cmd *cobra.Command, args []string) error {
			res, err := a.importFrom(cmd.Context(), args[0], artifact, plain)
			if err != nil {
				return err
			}
			return a.answer(res, func() {
				if res.Added == 0 && res.Private == 0 {
					a.printf("nothing new: all %d entries of %s are in the ledger already\n", res.Entries, res.Origin)
					return
				}
				a.printf("%d of %d entries of %s are new and were added, %d evidence objects; %d private ones stayed behind\n", res.Added, res.Entries, res.Origin, res.Objects, res.Withheld)
				if res.Private > 0 {
					a.printf("%d private evidence objects came too and stay private here\n", res.Private)
				}
				a.printf("sources: %s\n", res.Sources)
			})
		},
	}
	cmd.Flags().BoolVar(&plain, "plain-http", false, "talk to the registry without TLS, also where it is not on loopback")
	cmd.Flags().StringVar(&artifact, "artifact", "", "of a project, only the lineage and evidence of this file or digest")
	return cmd
}

// incoming is what is to be imported.
type incoming struct {
	pkg     *evidence.Package
	extends func(ctx context.Context, checkpoint []byte) error
}

func (a *app) importFrom(ctx context.Context, path, artifact string, plain bool) (importResult, error) {
	p, err := a.open(ctx, true)
	if err != nil {
		return importResult{}, err
	}
	defer p.close()
	if strings.HasPrefix(path, oci.Scheme) {
		if artifact != "" {
			return importResult{}, usage("--artifact is for a project; a registry's address names one artifact already")
		}
		return a.importRegistry(ctx, p, path, plain)
	}
	kind, err := evidenceKind(path, "name an evidence package or another project's folder")
	if err != nil {
		return importResult{}, err
	}
	var in incoming
	switch kind {
	case kindProject:
		there := *a
		there.project, there.ownLedger = path, true
		other, err := there.open(ctx, false)
		if err != nil {
			return importResult{}, fmt.Errorf("%s: %w", path, err)
		}
		defer other.close()
		if in, err = other.offer(ctx, artifact); err != nil {
			return importResult{}, fmt.Errorf("%s: %w", path, err)
		}
	case kindPackage:
		if artifact != "" {
			return importResult{}, usage("--artifact is for a project; an evidence package is about one artifact already")
		}
		if in.pkg, err = readPackage(path); err != nil {
			return importResult{}, err
		}
	default:
		return importResult{}, usage("%s is neither an evidence package nor a project; loose bundles cannot be imported, since nothing vouches for when they were signed", path)
	}
	res, err := p.take(ctx, in)
	var lied *ledger.Contradiction
	if errors.As(err, &lied) {
		return res, errors.Join(a.showContradiction(lied, in.pkg.Checkpoint), err)
	}
	return res, err
}

// showContradiction prints both sides: what the log signed before, and what it
// says now.
func (a *app) showContradiction(lied *ledger.Contradiction, now []byte) error {
	other := lied.Other
	if other == nil {
		other = now
	}
	return a.answer(map[string]string{"contradiction": lied.Reason, "signed": string(lied.Signed), "other": string(other)}, func() {
		a.printf("The log contradicts itself: %s.\nIt signed:\n\n%s\nand says now:\n\n%s\n", lied.Reason, quoted(string(lied.Signed)), quoted(string(other)))
	})
}

// offer collects what a project has for another one: all of its log, or what an
// export of one artifact would hold.
func (p *project) offer(ctx context.Context, artifact string) (incoming, error) {
	in := incoming{extends: func(ctx context.Context, checkpoint []byte) error {
		_, err := p.log.Extends(ctx, checkpoint)
		return err
	}}
	var err error
	if artifact == "" {
		in.pkg, err = p.collectAll(ctx, evidence.File{})
		return in, err
	}
	file, err := describe(ctx, artifact)
	if err != nil {
		return in, err
	}
	in.pkg, err = p.collect(ctx, file)
	return in, err
}

// take checks everything and then stores it.
func (p *project) take(ctx context.Context, in incoming) (importResult, error) {
	i, err := p.examine(ctx, in)
	if err != nil {
		return importResult{}, err
	}
	res := importResult{Origin: in.pkg.Index.Origin, Size: i.size, Entries: len(in.pkg.Bundles), Added: len(i.bundles), Withheld: len(in.pkg.Index.Withheld)}
	for _, o := range in.pkg.Index.Objects {
		if _, err := p.objects.Stat(ctx, o.Digest); err == nil {
			continue
		}
		if _, err := p.objects.Put(ctx, o.MediaType, true, bytes.NewReader(in.pkg.Objects[o.Digest])); err != nil {
			return res, err
		}
		res.Objects++
	}
	res.Sources = i.sources
	for _, o := range in.pkg.Index.Private {
		if _, err := p.objects.Stat(ctx, o.Digest); err == nil {
			continue
		}
		// Nobody signed how the package marks it: what came as private stays private.
		if _, err := p.objects.Put(ctx, o.MediaType, false, bytes.NewReader(in.pkg.Private[o.Digest])); err != nil {
			return res, err
		}
		res.Private++
	}
	if i.own {
		return res, nil
	}
	if err := p.imported.Log(in.pkg.Index.Origin).Keep(ctx, i.size, in.pkg.Checkpoint, i.entries); err != nil {
		return res, err
	}
	for _, e := range i.earlier {
		if err := p.imported.Log(e.origin).Keep(ctx, e.size, e.checkpoint, []imported.Entry{e.entry}); err != nil {
			return res, err
		}
	}
	for from := 0; from < len(i.bundles); from += ledger.MaxBatchEntries {
		if _, err := p.log.AppendAll(ctx, i.bundles[from:min(from+ledger.MaxBatchEntries, len(i.bundles))]); err != nil {
			return res, err
		}
	}
	return res, nil
}

// collectAll gathers the whole log with its public evidence, for one file or none.
func (p *project) collectAll(ctx context.Context, file evidence.File) (*evidence.Package, error) {
	claims, err := p.allClaims(ctx)
	if err != nil {
		return nil, err
	}
	all := map[godigest.Digest]bool{}
	for _, c := range claims {
		all[c.Bundle()] = true
	}
	return p.collectChosen(ctx, file, all)
}

// importedDir holds what other logs vouched for.
const importedDir = "imported"

// appended is the moment for which a log vouches that it had the entry: of an
// imported entry the other log's, which was earlier than ours.
func (p *project) appended(leaf ledger.Leaf) (time.Time, error) {
	origin, kept, err := p.origin(leaf)
	if err != nil {
		return time.Time{}, err
	}
	if origin != p.trust.Log.Origin {
		leaf = kept.Leaf
	}
	return time.Parse(time.RFC3339, leaf.Appended)
}

// origin tells which log an entry of this one came from: of the others whose
// proofs verify the one that had it first, or else the project's own. A log that
// had it later than this one copied it, and its word makes no entry newer.
func (p *project) origin(own ledger.Leaf) (string, imported.Entry, error) {
	bundle := own.Bundle
	if p.others == nil {
		logs, err := p.imported.Logs()
		if err != nil {
			return "", imported.Entry{}, err
		}
		p.others = append([]*imported.Log{}, logs...)
	}
	origin, first := p.trust.Log.Origin, imported.Entry{}
	for _, l := range p.others {
		kept, err := l.Entry(bundle)
		if errors.Is(err, ledger.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", imported.Entry{}, err
		}
		key, err := p.keyOf(l.Origin())
		if err != nil {
			return "", imported.Entry{}, err
		}
		if _, err := ledger.VerifyProof(kept.Proof, kept.Leaf, key); err != nil {
			return "", imported.Entry{}, &exitError{exitFalse, fmt.Errorf("%s: bundle %s of log %s: %w", importedDir, bundle, l.Origin(), err)}
		}
		if kept.Leaf.Appended > own.Appended { // RFC 3339 of one form sorts by time
			continue
		}
		if first.Proof == nil || kept.Leaf.Appended < first.Leaf.Appended {
			origin, first = l.Origin(), kept
		}
	}
	return origin, first, nil
}

func openImported(dir string) *imported.Store { return imported.Open(filepath.Join(dir, importedDir)) }
