package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/tiles"
)

func (a *app) logExportCommand() *cobra.Command {
	var folder string
	cmd := &cobra.Command{
		Use: "export", Short: "Write the log as a static folder that anybody can serve and check (C2SP tlog-tiles)", Args: cobra.NoArgs,
		Long: "Export writes checkpoint, tile/… and tile/entries/… of C2SP tlog-tiles: the entries' leaves and the whole Merkle tree, no bundles and no evidence.\n" +
			"Into a folder that has an earlier export only what is new is written; the checkpoint is replaced last.",
		Example: "  weighmaster log export --tiles public/log",
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer p.close()
			res, err := tiles.Export(cmd.Context(), p.log, folder)
			if err != nil {
				return a.contradicted(err, p.trust.Log.Key)
			}
			return a.answer(map[string]any{"folder": folder, "size": res.Size, "root": res.Root, "previous": res.Previous, "files": res.Files}, func() {
				a.printf("%d entries, root %s, %d files written to %s\n", res.Size, res.Root, res.Files, folder)
			})
		},
	}
	cmd.Flags().StringVar(&folder, "tiles", "", "the folder to write to (required)")
	_ = cmd.MarkFlagRequired("tiles")
	return cmd
}

// verifyElsewhere are the flags of log verify for what lies outside a project.
type verifyElsewhere struct {
	tiles, trust string
	against      []string
}

func (e *verifyElsewhere) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.tiles, "tiles", "", "check this exported folder instead of a project's ledger; needs no database")
	cmd.Flags().StringVar(&e.trust, "trust", "", "with --tiles: the trust file that has the log's key (default: the project's)")
	cmd.Flags().StringArrayVar(&e.against, "against", nil, "compare with the checkpoint in this file, which was kept elsewhere (repeatable)")
}

// checkpoints reads the files of --against.
func (e *verifyElsewhere) checkpoints() ([][]byte, error) {
	var list [][]byte
	for _, path := range e.against {
		msg, err := readBounded(path, ledger.MaxCheckpointBytes)
		if err != nil {
			return nil, usage("--against: %v", err)
		}
		list = append(list, msg)
	}
	return list, nil
}

// verifyTiles checks an exported folder against a trust file.
func (a *app) verifyTiles(ctx context.Context, e verifyElsewhere) error {
	if e.trust == "" {
		dir, err := a.findProject()
		if err != nil {
			return usage("--tiles: name the trust file that has the log's key with --trust; there is no default trust")
		}
		e.trust = dir + string(os.PathSeparator) + trustFile
	}
	trust, err := readTrust(e.trust)
	if err != nil {
		return err
	}
	key, err := note.NewVerifier(strings.TrimSpace(trust.Log.Key))
	if err != nil {
		return usage("%s: log.key: %v", e.trust, err)
	}
	if key.Name() != trust.Log.Origin {
		return usage("%s: log: the key is named %q and the origin is %q, want one name", e.trust, key.Name(), trust.Log.Origin)
	}
	witnesses, err := witnessKeys(trust)
	if err != nil {
		return usage("%s: witnesses: %v", e.trust, err)
	}
	elsewhere, err := e.checkpoints()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(e.tiles) // links that lead out of the folder are not followed
	if err != nil {
		return usage("--tiles: %v", err)
	}
	defer root.Close()
	v, err := tiles.Verify(ctx, root.FS(), key, elsewhere...)
	if errors.Is(err, fs.ErrNotExist) {
		return usage("--tiles: %s has no checkpoint; name a folder that weighmaster log export wrote", e.tiles)
	}
	if err != nil {
		return &exitError{exitUndecided, err}
	}
	cosigned, err := ledger.Cosignatures(v.Signed, key, witnesses)
	if err != nil {
		return &exitError{exitFalse, err}
	}
	if err := a.answer(tilesAnswer(v, trust.Log.Key, cosigned), func() { a.printTiles(v, trust.Log.Key, cosigned) }); err != nil {
		return err
	}
	switch {
	case v.Contradiction != nil:
		return &exitError{code: exitContradicts}
	case !v.OK():
		return &exitError{code: exitFalse}
	}
	return nil
}

func tilesAnswer(v tiles.Verification, key string, cosigned []ledger.Cosignature) map[string]any {
	answer := map[string]any{
		"size": v.Size, "root": v.Root, "files": v.Files, "ahead": v.Ahead, "compared": v.Compared,
		"cosignatures": cosigned, "findings": append([]ledger.Finding{}, v.Findings...), "truncated": v.Truncated,
	}
	if c := v.Contradiction; c != nil {
		answer["contradiction"] = proofOf(c, key)
	}
	return answer
}

func (a *app) printTiles(v tiles.Verification, key string, cosigned []ledger.Cosignature) {
	report := logReport{Findings: v.Findings, Truncated: v.Truncated}
	if c := v.Contradiction; c != nil {
		report.Proof = proofOf(c, key)
	}
	if !v.OK() {
		a.printf("%s", report.failures())
		return
	}
	a.printf("%d entries, root %s, %d files, %d checkpoints from elsewhere hold\n", v.Size, v.Root, v.Files, v.Compared)
	for _, c := range cosigned {
		a.printf("cosigned by %s at %s\n", c.Name, c.Time.Format(timeFormat))
	}
	if v.Ahead > 0 {
		a.printf("%d files are of a larger tree than the checkpoint signs and were not checked: an export is running or was interrupted\n", v.Ahead)
	}
}

// proofOf is what a third party needs to see that the log lied.
func proofOf(c *ledger.Contradiction, key string) *logProof {
	return &logProof{Reason: c.Reason, Key: strings.TrimSpace(key), Signed: string(c.Signed), Other: string(c.Other), Size: c.Size, At: c.At, Root: c.Root}
}

// contradicted prints the proof where an error is one that the log lied.
func (a *app) contradicted(err error, key string) error {
	var lied *ledger.Contradiction
	if !errors.As(err, &lied) {
		return err
	}
	report := logReport{Proof: proofOf(lied, key)}
	if err := a.answer(map[string]any{"contradiction": report.Proof}, func() { a.printf("%s", report.failures()) }); err != nil {
		return err
	}
	return &exitError{code: exitContradicts}
}
