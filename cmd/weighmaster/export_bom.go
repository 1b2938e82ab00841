package main

import (
	"context"
	"os"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/verify/bom"
)

// exportBOM writes a bill of materials of a file, from its verified claims and
// the evidence that they name.
func (p *project) exportBOM(ctx context.Context, artifact, to string, write func(bom.Chain) ([]byte, error)) ([]string, error) {
	d, lineage, err := p.lineageOf(ctx, artifact)
	if err != nil {
		return nil, err
	}
	doc, _, err := p.readPolicy()
	if err != nil {
		return nil, err
	}
	ev := policy.Evidence{Claims: lineage, Objects: map[godigest.Digest][]byte{}}
	runs, _ := policy.Runs(lineage)
	for _, run := range runs {
		for _, o := range run.Evidence() {
			if body, _, err := p.objects.Get(ctx, o); err == nil {
				ev.Objects[o] = body // one that is missing is named by whoever needs it
			}
		}
	}
	chain, err := bom.Read(doc, ev, d)
	if err != nil {
		return nil, &exitError{exitFalse, err}
	}
	chain.Architecture = architectureOf(artifact)
	body, err := write(chain)
	if err != nil {
		return nil, err
	}
	return writeNew(to, body)
}

// architectureOf reads the architecture that a GGUF file states; other files state none.
func architectureOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "" // the artifact was named by its digest
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	g, err := gguf.Open(f, info.Size())
	if err != nil {
		return ""
	}
	return g.Summarize().Architecture
}
