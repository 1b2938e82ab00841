package stages

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/calibration"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/token"
	"github.com/weighmaster/weighmaster/schemas"
)

// Calibrate makes an importance matrix of a model (role model) with llama-imatrix
// of a build (role runtime), in the box. The tool writes its final name directly
// and in between as well; what it wrote stays a candidate, named .partial, until
// the kernel calibration finalizes it.
type Calibrate struct{}

// Uses implements [Stage].
func (Calibrate) Uses() string { return "calibrate" }

type calibrateWith struct {
	Corpus    string      `json:"corpus"`
	Licence   string      `json:"licence"`
	File      string      `json:"file"`
	Chunks    int64       `json:"chunks"`
	ChunkSize int64       `json:"chunkSize"`
	Batch     int64       `json:"batch"`
	Threads   int64       `json:"threads"`
	Arguments []string    `json:"arguments"`
	Tool      string      `json:"tool"`
	Device    string      `json:"device"`
	Timeout   string      `json:"timeout"`
	Box       schemas.Box `json:"box"`
}

const (
	defaultImatrix = "bin/llama-imatrix"
	corpusRole     = "corpus" // under which the tool sees the text
	// logsLoad is the verbosity from which llama.cpp prints the buffers of weights.
	logsLoad = "4"
)

// calibrateOptions are the options that a pipeline may add, by whether a value
// follows. None of them changes which text is read, or how much of it.
var calibrateOptions = map[string]bool{
	"-ngl": true, "--gpu-layers": true, "--n-gpu-layers": true, "-ot": true, "--override-tensor": true, "-ub": true, "--ubatch-size": true,
	"-fa": true, "--flash-attn": true, "-dev": true, "--device": true, "-sm": true, "--split-mode": true, "-ts": true, "--tensor-split": true, "-mg": true, "--main-gpu": true,
	"-lm": true, "--load-mode": true, "-ctk": true, "--cache-type-k": true, "-ctv": true, "--cache-type-v": true, "-ofreq": true, "--output-frequency": true, "-fit": true, "--fit": true,
	"--no-ppl": false, "--parse-special": false, "--process-output": false, "-nr": false, "--no-repack": false, "--no-mmap": false, "--mlock": false, "-nkvo": false, "--no-kv-offload": false,
}

// calibrateRun is a run whose text is an input like the others.
type calibrateRun struct {
	run    *Run
	with   calibrateWith
	corpus Artifact
	model  Artifact
}

func readCalibrate(ctx context.Context, run *Run) (*calibrateRun, error) {
	c := &calibrateRun{}
	if err := decodeWith(run, &c.with); err != nil {
		return nil, err
	}
	var err error
	if c.model, err = run.Single("model"); err != nil {
		return nil, err
	}
	if err := checkArguments(c.with.Arguments); err != nil {
		return nil, err
	}
	path := below(run.Project, c.with.Corpus)
	file, err := readFile(ctx, filepath.Base(path), path)
	if err != nil {
		return nil, fmt.Errorf("corpus: %w", err)
	}
	if file.Sums.Size > maxCorpus {
		return nil, fmt.Errorf("corpus %s: got %d bytes, want at most %d", c.with.Corpus, file.Sums.Size, maxCorpus)
	}
	c.corpus = FileArtifact(file)
	own := *run // the same run with one input more, whose bytes are held fast as the others' are
	own.Inputs = map[string]Artifact{corpusRole: c.corpus}
	for role, a := range run.Inputs {
		if role == corpusRole {
			return nil, fmt.Errorf("input %s: got a stage, want the text under with.corpus", role)
		}
		own.Inputs[role] = a
	}
	c.run = &own
	return c, nil
}

// valueForm is a value that cannot be taken for an option; a number may be negative.
var valueForm = regexp.MustCompile(`^(-[0-9]+|[^-@].*)$`)

// checkArguments lets in the options that are known to leave the text alone.
func checkArguments(args []string) error {
	for i := 0; i < len(args); i++ {
		value, known := calibrateOptions[args[i]]
		if !known {
			return fmt.Errorf("arguments: got %q, want options of devices and placement only, such as -ngl or -ot; text, chunks and output are parameters of the stage", args[i])
		}
		if value {
			i++
			if i == len(args) {
				return fmt.Errorf("arguments: %s: got no value, want one", args[i-1])
			}
			// A build that takes no value after this option would read it as the next one.
			if !valueForm.MatchString(args[i]) {
				return fmt.Errorf("arguments: %s: got the value %q, want one that is no option itself", args[i-1], args[i])
			}
		}
	}
	return nil
}

// command is the call of llama-imatrix.
func (c *calibrateRun) command() (toolCommand, error) {
	w := c.with
	tool := w.Tool
	if tool == "" {
		tool = defaultImatrix
	}
	program, err := builtTool(c.run, tool)
	if err != nil {
		return toolCommand{}, err
	}
	batch := w.Batch
	if batch == 0 {
		batch = w.ChunkSize
	}
	args := []string{"-m", "{input/model}", "-f", "{input/" + corpusRole + "}", "-o", "{out}/" + partialName(w.File), "--output-format", "gguf",
		"-c", strconv.FormatInt(w.ChunkSize, 10), "-b", strconv.FormatInt(batch, 10), "--verbosity", logsLoad}
	if w.Chunks > 0 {
		args = append(args, "--chunks", strconv.FormatInt(w.Chunks, 10))
	}
	if w.Threads > 0 {
		args = append(args, "-t", strconv.FormatInt(w.Threads, 10))
	}
	timeout, err := toolTimeout(w.Timeout)
	return toolCommand{Name: "imatrix", Program: program, Args: append(args, w.Arguments...), Timeout: timeout, Box: w.Box}, err
}

func (c *calibrateRun) dependency() Dependency {
	return Dependency{Name: "corpus/" + c.corpus.Name, Digest: c.corpus.Digest}
}

// Resolve implements [Resolver].
func (Calibrate) Resolve(ctx context.Context, run *Run) ([]Dependency, error) {
	c, err := readCalibrate(ctx, run)
	if err != nil {
		return nil, err
	}
	command, err := c.command()
	if err != nil {
		return nil, err
	}
	list, err := resolveTool(ctx, c.run, command)
	return append(list, c.dependency()), err
}

// Run implements [Stage].
func (Calibrate) Run(ctx context.Context, run *Run) (*Outcome, error) {
	c, err := readCalibrate(ctx, run)
	if err != nil {
		return nil, err
	}
	if err := refuseExisting(run, c.with.File); err != nil {
		return nil, err
	}
	command, err := c.command()
	if err != nil {
		return nil, err
	}
	f, model, err := c.model.openGGUF("model")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := &Outcome{Facts: map[string]string{
		"corpus": c.corpus.Digest.String(), "corpus-licence": c.with.Licence, "model": c.model.Digest.String(), "device": c.device(),
	}}
	out.addDependencies([]Dependency{c.dependency()})
	res, failure, err := runTool(ctx, c.run, command, out)
	if err != nil {
		return out, err
	}
	return out, c.finalize(ctx, command, model, res, failure, out)
}

func (c *calibrateRun) device() string {
	if c.with.Device == "" {
		return "CPU"
	}
	return c.with.Device
}

// finalize judges the candidate and gives it its name only when it passed.
func (c *calibrateRun) finalize(ctx context.Context, command toolCommand, model *gguf.File, res toolResult, failure string, out *Outcome) error {
	partial := filepath.Join(c.run.Dir, partialName(c.with.File))
	if failure == "" {
		if err := ownFile(partial); err != nil {
			failure = "the command ended with 0, but " + err.Error()
		}
	}
	if failure != "" {
		out.fail(failure + "; what it wrote stays a candidate")
		return nil
	}
	f, err := openOwn(partial)
	if err != nil {
		out.fail(err.Error())
		return nil
	}
	defer f.Close()
	judged, err := c.judge(ctx, f, command, model, res, out)
	if err != nil || out.Verdict != schemas.Passed {
		return err
	}
	out.Verdict = ""
	return takeOutput(ctx, c.run, c.with.File, out, "", func(f *os.File, size int64) error {
		got, err := digest.SHA256(ctx, f, size)
		if err == nil && got != judged {
			err = fmt.Errorf("it changed after it was judged: got %s, want %s", got, judged)
		}
		return err
	})
}

// judge adds the three reports and gives the digest of the bytes that they are about.
func (c *calibrateRun) judge(ctx context.Context, f *os.File, command toolCommand, model *gguf.File, res toolResult, out *Outcome) (godigest.Digest, error) {
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	selected, err := c.selected(model)
	if err != nil {
		return "", err
	}
	all, err := calibration.Finalize(ctx, calibration.Run{
		Matrix: f, Size: st.Size(), Name: c.with.File, Model: model, Log: res.Stderr, Bound: c.bound(command, out), Selected: selected,
		Chunks: c.with.Chunks, ChunkSize: c.with.ChunkSize, Devices: strings.Split(c.device(), ","),
		NoPerplexity: slices.Contains(c.with.Arguments, "--no-ppl"),
	})
	if err != nil {
		return "", fmt.Errorf("calibration: %w", err)
	}
	out.Reports = append(out.Reports, all.All()...)
	last := all.Calibration
	for _, m := range last.Metrics {
		out.Facts[strings.ReplaceAll(m.Name, "_", "-")] = strconv.FormatFloat(m.Value, 'f', -1, 64)
	}
	out.Verdict = schemas.Verdict(last.Verdict)
	if last.Verdict != kernels.Passed {
		out.Failure = failureOf(last) + "; the matrix stays a candidate"
	}
	return all.Matrix.Inputs[0].Digest, nil
}

// bound names what the matrix is bound to: model, corpus, and the binary that ran, by its digest as a dependency.
func (c *calibrateRun) bound(command toolCommand, out *Outcome) []kernels.Input {
	bound := []kernels.Input{c.model.asInput(calibration.RoleModel), c.corpus.asInput(calibration.RoleCorpus)}
	name := "tool/" + filepath.Base(command.Program)
	if i := slices.IndexFunc(out.Dependencies, func(d Dependency) bool { return d.Name == name }); i >= 0 {
		binary := out.Dependencies[i]
		in := kernels.Input{Name: calibration.RoleBinary, Digest: binary.Digest}
		if st, err := os.Stat(command.Program); err == nil {
			in.Size = st.Size()
		}
		bound = append(bound, in)
		out.Facts["binary"] = binary.Digest.String()
	}
	return bound
}

// selected counts the corpus' tokens as llama-imatrix reads it: without one line
// break at its end, special tokens as text unless told otherwise, with BOS. It is
// -1 where neither the model's vocabulary nor a snapshot's is read here.
func (c *calibrateRun) selected(model *gguf.File) (int64, error) {
	body, err := readBounded(c.corpus.Path, maxCorpus)
	if err != nil {
		return 0, fmt.Errorf("corpus: %w", err)
	}
	if got := godigest.FromBytes(body); got != c.corpus.Digest {
		return 0, fmt.Errorf("corpus %s changed while the command ran: got %s, want %s", c.corpus.Name, got, c.corpus.Digest)
	}
	text := string(bytes.TrimSuffix(body, []byte("\n")))
	vocabulary, err := c.vocabulary(model)
	if err != nil || vocabulary == nil {
		return -1, err
	}
	if slices.Contains(c.with.Arguments, "--parse-special") {
		return int64(len(vocabulary.Encode(text, true))), nil
	}
	return int64(len(vocabulary.Plain(text, true))), nil
}

// vocabulary is the model's, or the snapshot's where the model's is not read here; nil without either.
func (c *calibrateRun) vocabulary(model *gguf.File) (token.Encoder, error) {
	own, err := token.FromGGUF(model)
	if err == nil {
		return own, nil
	}
	snapshot, given := c.run.Inputs["snapshot"]
	if !given {
		return nil, nil
	}
	return snapshotTokenizer(snapshot)
}

// snapshotTokenizer reads a snapshot's tokenizer.json.
func snapshotTokenizer(a Artifact) (*token.Tokenizer, error) {
	fsys, root, err := a.folder("snapshot")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := fsys.Open("tokenizer.json")
	if err != nil {
		return nil, fmt.Errorf("input snapshot: %w", err)
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, maxCorpus+1))
	if err != nil {
		return nil, fmt.Errorf("input snapshot: tokenizer.json: %w", err)
	}
	return token.Load(body)
}

// builtTool is the host path of a program below the output of a build (role runtime).
func builtTool(run *Run, name string) (string, error) {
	runtime, err := run.input("runtime")
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(runtime.Files, func(f File) bool { return f.Name == name })
	if !runtime.Multi || i < 0 {
		return "", fmt.Errorf("tool: got %q, want a file of the build %s", name, runtime.Name)
	}
	return runtime.Files[i].Path, nil
}
