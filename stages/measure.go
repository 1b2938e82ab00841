package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/divergence"
	"github.com/weighmaster/weighmaster/kernels/evaluate"
	"github.com/weighmaster/weighmaster/kernels/llama"
	"github.com/weighmaster/weighmaster/kernels/token"
	"github.com/weighmaster/weighmaster/schemas"
)

// engine names what computes the logits; it is part of every metric's identity.
const engine = "weighmaster float64"

// maxCorpus bounds a fixtures or texts file, in bytes.
const maxCorpus = 64 << 20

// corpus is what a model is measured on.
type corpus struct {
	fixtures                    evaluate.Fixtures
	texts                       []scoredText
	fixturesDigest, textsDigest godigest.Digest
	inputs                      []kernels.Input // both files
}

// scoredText is one text of the texts file; ids are its tokens, BOS included.
type scoredText struct {
	Name     string   `json:"name"`
	Language string   `json:"language"`
	Text     string   `json:"text"`
	IDs      []uint32 `json:"ids"`
	Tokens   int      `json:"tokens"`
}

// textName keeps names usable as file names.
var textName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func readCorpus(run *Run) (corpus, error) {
	var with struct{ Fixtures, Texts string }
	if err := decodeWith(run, &with); err != nil {
		return corpus{}, err
	}
	var c corpus
	body, err := c.read(run, "corpus/fixtures", with.Fixtures)
	if err != nil {
		return corpus{}, err
	}
	if err := schemas.Validate(schemas.FixturesURI, body); err != nil {
		return corpus{}, fmt.Errorf("%s: %w", with.Fixtures, err)
	}
	if c.fixtures, err = evaluate.ParseFixtures(body); err != nil {
		return corpus{}, fmt.Errorf("%s: %w", with.Fixtures, err)
	}
	if body, err = c.read(run, "corpus/texts", with.Texts); err != nil {
		return corpus{}, err
	}
	if c.texts, err = parseTexts(body); err != nil {
		return corpus{}, fmt.Errorf("%s: %w", with.Texts, err)
	}
	c.fixturesDigest, c.textsDigest = c.inputs[0].Digest, c.inputs[1].Digest
	return c, nil
}

func (c *corpus) read(run *Run, name, path string) (body []byte, err error) {
	f, err := os.Open(below(run.Project, path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err = io.ReadAll(io.LimitReader(f, maxCorpus+1))
	if err == nil && len(body) > maxCorpus {
		err = fmt.Errorf("%s: got more than %d bytes, want at most that", path, maxCorpus)
	}
	c.inputs = append(c.inputs, kernels.Input{Name: name, Digest: godigest.FromBytes(body), Size: int64(len(body))})
	return body, err
}

func parseTexts(body []byte) ([]scoredText, error) {
	var f struct {
		Texts []scoredText `json:"texts"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("texts: %w", err)
	}
	if len(f.Texts) == 0 {
		return nil, fmt.Errorf("texts: got none, want at least one")
	}
	seen := map[string]bool{}
	for i, t := range f.Texts {
		switch {
		case !textName.MatchString(t.Name) || seen[t.Name]:
			return nil, fmt.Errorf("texts: text %d: name: got %q, want letters, digits, dots and dashes, each name once", i, t.Name)
		case len(t.IDs) < 2 || t.Tokens != 0 && t.Tokens != len(t.IDs):
			return nil, fmt.Errorf("texts: text %s: got %d ids and tokens %d, want the same number of at least 2", t.Name, len(t.IDs), t.Tokens)
		}
		seen[t.Name] = true
	}
	return f.Texts, nil
}

// dependencies of a run: both files.
func (c corpus) dependencies() []Dependency {
	var deps []Dependency
	for _, in := range c.inputs {
		deps = append(deps, Dependency{Name: in.Name, Digest: in.Digest})
	}
	return deps
}

func resolveCorpus(run *Run) ([]Dependency, error) {
	c, err := readCorpus(run)
	return c.dependencies(), err
}

// measured is what a model gave on a corpus.
type measured struct {
	side     divergence.Side
	width    int // logits a row
	outcomes evaluate.Result
	report   kernels.Report // of the kernel evaluate
}

// measureModel runs the fixtures on a model, checks its tokenizer on the texts and computes their logits.
func measureModel(ctx context.Context, run *Run, src llama.Source, tok token.Encoder, c corpus) (measured, error) {
	m := measured{width: src.Config().Vocab}
	for _, t := range c.texts {
		if got := tok.Encode(t.Text, true); !slices.Equal(got, t.IDs) {
			return m, fmt.Errorf("text %s: the model's tokenizer gives %d ids %.80v, want %d ids %.80v; logits over other tokens cannot be compared",
				t.Name, len(got), fmt.Sprint(got), len(t.IDs), fmt.Sprint(t.IDs))
		}
	}
	if tok.Size() > m.width {
		return m, fmt.Errorf("tokenizer: got %d ids, want at most the model's %d rows", tok.Size(), m.width)
	}
	run.progress("loading the weights as float64")
	model, err := llama.Load(ctx, src)
	if err != nil {
		return m, err
	}
	run.progress(fmt.Sprintf("answering %d fixtures", len(c.fixtures.Fixtures)))
	perturbed := func(id uint32) (evaluate.Model, error) { return model.Against(id) }
	if m.outcomes, m.report, err = evaluate.Run(ctx, model, tok, c.fixtures, perturbed); err != nil {
		return m, err
	}
	run.progress(fmt.Sprintf("scoring %d texts", len(c.texts)))
	m.side = divergence.Side{Domain: divergence.Domain{Name: divergence.RealIDs, IDs: tok.Size()}, Corpus: c.textsDigest, Engine: engine}
	ids := make([][]uint32, len(c.texts))
	for i, t := range c.texts {
		ids[i] = t.IDs
	}
	err = model.Logits(ctx, ids, func(i int, logits []float64) error {
		narrow := make([]float32, len(logits))
		for j, v := range logits {
			narrow[j] = float32(v)
		}
		m.side.Texts = append(m.side.Texts, divergence.Text{Name: c.texts[i].Name, IDs: c.texts[i].IDs, Rows: rowsOf(narrow, m.width)})
		return nil
	})
	return m, err
}

// rowsOf cuts a row-major array into its rows.
func rowsOf(values []float32, width int) [][]float32 {
	var rows [][]float32
	for ; len(values) >= width; values = values[width:] {
		rows = append(rows, values[:width])
	}
	return rows
}

func (r *Run) progress(message string) {
	if r.Progress != nil {
		r.Progress(message, 0, 0)
	}
}

// outcome starts the Outcome of a measurement, with the record of every answer as evidence.
func (m measured) outcome(ctx context.Context, run *Run, c corpus) (*Outcome, error) {
	out := &Outcome{
		Dependencies: c.dependencies(),
		Internal:     map[string]any{"threads": runtime.GOMAXPROCS(0), "engine": engine},
		Facts:        map[string]string{"engine": engine, "fixtures": fmt.Sprintf("%d/%d", m.outcomes.Passed(), len(m.outcomes.Outcomes))},
		Verdict:      schemas.Passed,
	}
	body, err := canonical(m.outcomes)
	if err != nil {
		return out, err
	}
	return out, out.store(ctx, run, "record/answers", "application/json", body)
}

// store puts a public evidence object.
func (o *Outcome) store(ctx context.Context, run *Run, name, mediaType string, body []byte) error {
	digest, size, err := run.Objects.Put(ctx, mediaType, true, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	o.Evidence = append(o.Evidence, Evidence{Name: name, Digest: digest, MediaType: mediaType, Size: size})
	return nil
}

// report adds a kernel's report; the first that is not passed decides the verdict.
func (o *Outcome) report(r kernels.Report, inputs ...kernels.Input) {
	r.Inputs = append(r.Inputs, inputs...)
	o.Reports = append(o.Reports, r)
	if r.Verdict != kernels.Passed && o.Verdict == schemas.Passed {
		o.Verdict, o.Failure = schemas.Verdict(r.Verdict), failureOf(r)
	}
}

// asInput names an artifact as a kernel's input; size is the sum of its files' bytes.
func (a Artifact) asInput(role string) kernels.Input {
	in := kernels.Input{Name: role, Digest: a.Digest}
	for _, f := range a.Files {
		in.Size += f.Sums.Size
	}
	return in
}
