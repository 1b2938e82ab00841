package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/weighmaster/weighmaster/attest/intoto"
	"github.com/weighmaster/weighmaster/attest/keys"
)

// layoutValidity is how long an exported classic layout is valid.
const layoutValidity = 365 * 24 * time.Hour

// exportClassic writes the stage runs of a file's lineage as classic in-toto metadata.
func (a *app) exportClassic(ctx context.Context, p *project, artifact, dir, signer string) ([]string, error) {
	_, lineage, err := p.lineageOf(ctx, artifact)
	if err != nil {
		return nil, err
	}
	runs, err := intoto.Runs(lineage)
	if err != nil {
		return nil, usage("%v", err)
	}
	key, err := a.loadKey(filepath.Join(p.dir, keysDir, signer+".pem"))
	if err != nil {
		return nil, err
	}
	public, err := keys.EncodePublic(key.Public())
	if err != nil {
		return nil, err
	}
	layout, err := intoto.ExportLayout(runs, time.Now().Add(layoutValidity), key)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, usage("%v; name a folder that does not exist", err)
	}
	names := []string{"root.layout", "root.pub"}
	files := map[string][]byte{"root.layout": layout, "root.pub": public}
	for _, run := range runs {
		name, body, err := intoto.ExportLink(run, key)
		if err != nil {
			return nil, err
		}
		names, files[name] = append(names, name), body
	}
	for _, name := range names {
		if err := keys.WriteNewPublic(filepath.Join(dir, name), files[name]); err != nil {
			return nil, err
		}
	}
	return names, nil
}
