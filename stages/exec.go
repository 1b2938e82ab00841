package stages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/schemas"
)

// Exec runs one external command as a stage, in the box: with the digests of its
// binary and its non-system libraries, its arguments, an allow-listed
// environment, and its outputs by digest. A command that fails is recorded as
// failed, never hidden.
//
// It runs in run.Dir. In its arguments {input/ROLE} stands for the path of an
// input artifact, {out} for run.Dir and {root/NAME} for a folder that box.roots
// lets in, so that no path of a machine stands in the declaration. The box
// shows those, the system's folders, and the program with its libraries.
type Exec struct{}

// Uses implements [Stage].
func (Exec) Uses() string { return "exec" }

type execWith struct {
	Command []string    `json:"command"`
	Env     []string    `json:"env"`     // names of the variables that it gets
	Outputs []string    `json:"outputs"` // files below run.Dir that it must make
	Stdin   string      `json:"stdin"`   // path of a file; none when empty
	Timeout string      `json:"timeout"` // Go duration, e.g. 90m; none when empty
	Box     schemas.Box `json:"box"`
}

// command resolves what is declared.
func (with execWith) command(run *Run) (toolCommand, error) {
	c := toolCommand{Args: with.Command[1:], Stdin: with.Stdin, Box: with.Box}
	var err error
	if c.Timeout, err = toolTimeout(with.Timeout); err != nil {
		return c, err
	}
	for _, name := range with.Env {
		if v, ok := os.LookupEnv(name); ok {
			c.Env = append(c.Env, name+"="+v)
		}
	}
	c.Program, err = findTool(run.Project, with.Command[0], rootPaths(run, with.Box))
	return c, err
}

// toolTimeout reads a timeout; none from none.
func toolTimeout(words string) (time.Duration, error) {
	if words == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(words)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("timeout: got %q, want a duration such as 90m", words)
	}
	return d, nil
}

// stdinDependency is the file that the command reads: what it holds goes into the run.
func stdinDependency(ctx context.Context, run *Run, stdin string) ([]Dependency, error) {
	if stdin == "" {
		return nil, nil
	}
	sums, err := digest.File(ctx, below(run.Project, stdin))
	if err != nil {
		return nil, fmt.Errorf("stdin: %w", err)
	}
	return []Dependency{{Name: "corpus/stdin", Digest: sums.SHA256}}, nil
}

// Resolve implements [Resolver].
func (Exec) Resolve(ctx context.Context, run *Run) ([]Dependency, error) {
	var with execWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	c, err := with.command(run)
	if err != nil {
		return nil, err
	}
	list, err := resolveTool(ctx, run, c)
	if err != nil {
		return nil, err
	}
	stdin, err := stdinDependency(ctx, run, with.Stdin)
	return append(list, stdin...), err
}

// Run implements [Stage].
func (Exec) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with execWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	for _, o := range with.Outputs {
		if !fs.ValidPath(o) || o == "." {
			return nil, fmt.Errorf("outputs: got %q, want a relative name below the stage's folder", o)
		}
		if exists(filepath.Join(run.Dir, filepath.FromSlash(o))) {
			return nil, fmt.Errorf("output %s is there before the command ran; move it away", o)
		}
	}
	c, err := with.command(run)
	if err != nil {
		return nil, err
	}
	if with.Stdin != "" {
		c.watch = watched{}
		if err := c.watch.add(below(run.Project, with.Stdin)); err != nil {
			return nil, fmt.Errorf("stdin: %w", err)
		}
	}
	stdin, err := stdinDependency(ctx, run, with.Stdin)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Facts: map[string]string{}}
	_, failure, err := runTool(ctx, run, c, out)
	out.addDependencies(stdin)
	if err != nil {
		return out, err
	}
	return out, conclude(ctx, run, with, out, failure)
}

// conclude hashes what was made and decides. Outputs of a failed command stay where they are, as candidates.
func conclude(ctx context.Context, run *Run, with execWith, out *Outcome, failure string) error {
	var missing []string
	for _, o := range with.Outputs {
		if ownFile(filepath.Join(run.Dir, filepath.FromSlash(o))) != nil {
			missing = append(missing, o)
		}
	}
	undeclared, err := undeclaredFiles(run.Dir, with.Outputs)
	if err != nil {
		return err
	}
	if len(undeclared) > 0 {
		out.Facts["undeclared"] = strings.Join(undeclared, ", ")
	}
	if failure == "" && len(missing) > 0 {
		failure = "the command ended with 0 and made no regular file " + strings.Join(missing, ", ")
	}
	if failure != "" {
		out.fail(failure)
		return nil
	}
	artifact, err := collect(ctx, run, with.Outputs)
	if err != nil {
		return err
	}
	out.Output, out.Verdict = artifact, schemas.Passed
	return nil
}

// fail records a command that did not do what it should.
func (o *Outcome) fail(failure string) {
	o.Verdict, o.Failure = schemas.Failed, failure
	if o.ExitStatus == 0 {
		o.ExitStatus = 1
	}
}

// collect makes the outputs durable and read-only. One is the artifact itself;
// several are moved into a folder of the stage's name, under one manifest.
func collect(ctx context.Context, run *Run, outputs []string) (*Artifact, error) {
	if len(outputs) == 0 {
		return nil, nil
	}
	for _, o := range outputs {
		path := filepath.Join(run.Dir, filepath.FromSlash(o))
		f, err := openOwn(path)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(finish(f), f.Close()); err != nil {
			return nil, err
		}
		if len(outputs) == 1 {
			file, err := readFile(ctx, o, path)
			if err != nil {
				return nil, err
			}
			a := FileArtifact(file)
			return &a, syncDir(filepath.Dir(path))
		}
		to := filepath.Join(run.Dir, run.Stage, filepath.FromSlash(o))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		if err := publish(path, to); err != nil {
			return nil, err
		}
	}
	a, err := FolderArtifact(ctx, run.Stage, filepath.Join(run.Dir, run.Stage))
	return &a, err
}

const maxNamed = 20 // undeclared files that a fact names

func undeclaredFiles(dir string, outputs []string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if name = filepath.ToSlash(name); err == nil && !slices.Contains(outputs, name) && len(names) < maxNamed {
			names = append(names, name)
		}
		return err
	})
	return names, err
}
