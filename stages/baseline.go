package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/divergence"
	"github.com/weighmaster/weighmaster/kernels/evaluate"
	"github.com/weighmaster/weighmaster/kernels/llama"
	"github.com/weighmaster/weighmaster/kernels/npy"
	"github.com/weighmaster/weighmaster/kernels/token"
	"github.com/weighmaster/weighmaster/schemas"
)

// Baseline runs the fixtures on the source model (role snapshot) and records
// its logits. Its output is a folder: baseline.json and one logits/<text>.npy
// per text, float32, shape [tokens, width], row i predicting token i+1.
type Baseline struct{}

// Uses implements [Stage].
func (Baseline) Uses() string { return "baseline" }

// Resolve implements [Resolver].
func (Baseline) Resolve(_ context.Context, run *Run) ([]Dependency, error) { return resolveCorpus(run) }

// baselineRecord is baseline.json.
type baselineRecord struct {
	Schema   string             `json:"schema"`
	Engine   string             `json:"engine"`
	Model    godigest.Digest    `json:"model"`    // of the snapshot
	Fixtures godigest.Digest    `json:"fixtures"` // of the fixtures file
	Corpus   godigest.Digest    `json:"corpus"`   // of the texts file
	Domain   string             `json:"domain"`
	IDs      int                `json:"ids"`   // of the domain: those that stand for a token
	Width    int                `json:"width"` // logits a row, padding included
	Texts    []baselineText     `json:"texts"`
	Answers  []evaluate.Outcome `json:"answers"`
}

type baselineText struct {
	Name string   `json:"name"`
	IDs  []uint32 `json:"ids"`
	File string   `json:"file"`
}

const baselineSchema = schemas.BaseURI + "baseline/v1"

// Run implements [Stage].
func (Baseline) Run(ctx context.Context, run *Run) (*Outcome, error) {
	snapshot, err := run.input("snapshot")
	if err != nil {
		return nil, err
	}
	fsys, root, err := snapshot.folder("snapshot")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	c, err := readCorpus(run)
	if err != nil {
		return nil, err
	}
	tokenizer, err := fs.ReadFile(fsys, "tokenizer.json")
	if err != nil {
		return nil, err
	}
	tok, err := token.Load(tokenizer)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	src, err := llama.OpenSnapshot(fsys)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	m, err := measureModel(ctx, run, src, tok, c)
	if err != nil {
		return nil, err
	}
	if err := finite(m.side); err != nil {
		return nil, err
	}
	out, err := m.outcome(ctx, run, c)
	if err != nil {
		return out, err
	}
	out.report(m.report, append([]kernels.Input{snapshot.asInput("snapshot")}, c.inputs...)...)
	folder, err := m.write(ctx, run, snapshot.Digest, c)
	if err != nil {
		return out, err
	}
	out.Output = &folder
	return out, nil
}

// finite refuses a reference that nothing could be measured against.
func finite(side divergence.Side) error {
	for _, t := range side.Texts {
		for p, row := range t.Rows {
			for id, v := range row {
				if x := float64(v); math.IsNaN(x) || math.IsInf(x, 0) {
					return fmt.Errorf("baseline: text %s, row %d, id %d: got %v, want a finite logit; look at the weights", t.Name, p, id, x)
				}
			}
		}
	}
	return nil
}

func (m measured) write(ctx context.Context, run *Run, model godigest.Digest, c corpus) (Artifact, error) {
	record := baselineRecord{
		Schema: baselineSchema, Engine: engine, Model: model, Fixtures: c.fixturesDigest, Corpus: c.textsDigest,
		Domain: m.side.Domain.Name, IDs: m.side.Domain.IDs, Width: m.width, Answers: m.outcomes.Outcomes,
	}
	for _, t := range m.side.Texts {
		file := "logits/" + t.Name + ".npy"
		record.Texts = append(record.Texts, baselineText{t.Name, t.IDs, file})
		if _, err := run.Output("baseline/"+file, func(w io.Writer) error {
			return npy.Write(w, []int{len(t.Rows), m.width}, slices.Concat(t.Rows...))
		}); err != nil {
			return Artifact{}, err
		}
	}
	body, err := canonical(record)
	if err != nil {
		return Artifact{}, err
	}
	if _, err := run.Output("baseline/baseline.json", func(w io.Writer) error {
		_, err := w.Write(body)
		return err
	}); err != nil {
		return Artifact{}, err
	}
	return FolderArtifact(ctx, "baseline", filepath.Join(run.Dir, "baseline"))
}

// readBaseline reads what [Baseline] wrote and holds it against the corpus of this run.
func readBaseline(fsys fs.FS, c corpus) (divergence.Side, error) {
	var r baselineRecord
	body, err := readCapped(fsys, "baseline.json", maxCorpus)
	if err != nil {
		return divergence.Side{}, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return divergence.Side{}, fmt.Errorf("baseline.json: %w", err)
	}
	switch {
	case r.Schema != baselineSchema:
		return divergence.Side{}, fmt.Errorf("baseline.json: schema: got %q, want %q", r.Schema, baselineSchema)
	case r.Fixtures != c.fixturesDigest:
		return divergence.Side{}, fmt.Errorf("fixtures: got the file %s, want %s, which the baseline was made with: %w", c.fixturesDigest, r.Fixtures, divergence.ErrNotComparable)
	case r.Corpus != c.textsDigest:
		return divergence.Side{}, fmt.Errorf("texts: got the file %s, want %s, which the baseline was made with: %w", c.textsDigest, r.Corpus, divergence.ErrNotComparable)
	case r.Width < 1 || r.Width > 1<<22:
		return divergence.Side{}, fmt.Errorf("baseline.json: width: got %d, want 1 to %d", r.Width, 1<<22)
	}
	side := divergence.Side{Domain: divergence.Domain{Name: r.Domain, IDs: r.IDs}, Corpus: r.Corpus, Engine: r.Engine}
	for _, t := range r.Texts {
		values, err := readLogits(fsys, t.File, len(t.IDs), r.Width)
		if err != nil {
			return divergence.Side{}, fmt.Errorf("%s: %w", t.File, err)
		}
		side.Texts = append(side.Texts, divergence.Text{Name: t.Name, IDs: t.IDs, Rows: rowsOf(values, r.Width)})
	}
	return side, nil
}

func readLogits(fsys fs.FS, name string, rows, width int) (values []float32, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	shape, values, err := npy.Read[float32](f, int64(rows)*int64(width)*4)
	if err == nil && !slices.Equal(shape, []int{rows, width}) {
		err = fmt.Errorf("shape: got %v, want [%d %d]", shape, rows, width)
	}
	return values, err
}

func readCapped(fsys fs.FS, name string, limit int64) (body []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	body, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("%s: got more than %d bytes, want at most that", name, limit)
	}
	return body, err
}
