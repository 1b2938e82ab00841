package stages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
)

// Exec runs one external command as a stage: with the digests of its binary and
// its non-system libraries, its arguments, an allow-listed environment, and its
// outputs by digest. A command that fails is recorded as failed, never hidden.
//
// It runs in run.Dir. In its arguments {input/ROLE} stands for the path of an
// input artifact, so that no path of a machine stands in the declaration.
type Exec struct{}

// Uses implements [Stage].
func (Exec) Uses() string { return "exec" }

type execWith struct {
	Command []string `json:"command"`
	Env     []string `json:"env"`     // names of the variables that it gets
	Outputs []string `json:"outputs"` // files below run.Dir that it must make
	Stdin   string   `json:"stdin"`   // path of a file; none when empty
	Timeout string   `json:"timeout"` // Go duration, e.g. 90m; none when empty
}

const maxLog = 1 << 20 // bytes kept of each stream

// Resolve implements [Resolver].
func (Exec) Resolve(_ context.Context, run *Run) ([]Dependency, error) {
	var with execWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	t, err := resolveTool(run, with)
	if err != nil {
		return nil, err
	}
	return t.dependencies, nil
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
	tool, err := resolveTool(run, with)
	if err != nil {
		return nil, err
	}
	args, err := arguments(run, with.Command)
	if err != nil {
		return nil, err
	}
	out := &Outcome{
		Dependencies: tool.dependencies,
		Internal:     map[string]any{"binary": tool.path, "environment": tool.envNames, "systemLibraries": tool.system, "unresolvedLibraries": tool.unresolved},
		Facts:        map[string]string{},
	}
	failure, err := execute(ctx, run, with, tool, args, out)
	if err != nil {
		return out, err
	}
	return out, conclude(ctx, run, with, out, failure)
}

// execute runs the command and keeps its streams. The returned words say in
// which way it failed; empty when it ended with 0.
func execute(ctx context.Context, run *Run, with execWith, tool *tool, args []string, out *Outcome) (failure string, err error) {
	limit := ctx
	if with.Timeout != "" {
		d, err := time.ParseDuration(with.Timeout)
		if err != nil || d <= 0 {
			return "", fmt.Errorf("timeout: got %q, want a duration such as 90m", with.Timeout)
		}
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	cmd := exec.CommandContext(limit, tool.path, args[1:]...)
	cmd.Args[0] = with.Command[0]
	cmd.Dir, cmd.Env, cmd.WaitDelay = run.Dir, tool.env, 5*time.Second
	ownGroup(cmd)
	if with.Stdin != "" {
		f, err := os.Open(below(run.Project, with.Stdin))
		if err != nil {
			return "", err
		}
		defer f.Close()
		cmd.Stdin = f
	}
	stdout, stderr := &limitedBuffer{limit: maxLog}, &limitedBuffer{limit: maxLog}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	ran := cmd.Run()
	if err := putLogs(context.WithoutCancel(ctx), run, out, stdout, stderr); err != nil {
		return "", err
	}
	out.ExitStatus = -1
	if cmd.ProcessState != nil {
		out.ExitStatus = cmd.ProcessState.ExitCode()
	}
	var exit *exec.ExitError
	switch {
	case ran == nil:
		return "", nil
	case ctx.Err() != nil:
		return "the command was stopped: " + ctx.Err().Error(), nil
	case limit.Err() != nil:
		return fmt.Sprintf("the command ran longer than %s and was stopped", with.Timeout), nil
	case errors.As(ran, &exit):
		return fmt.Sprintf("the command ended with %s: %s", exit.ProcessState, lastLine(stderr.kept)), nil
	}
	return "the command could not be run: " + ran.Error(), nil
}

// conclude hashes what was made and decides. Outputs of a failed command stay where they are, as candidates.
func conclude(ctx context.Context, run *Run, with execWith, out *Outcome, failure string) error {
	var missing []string
	for _, o := range with.Outputs {
		st, err := os.Lstat(filepath.Join(run.Dir, filepath.FromSlash(o)))
		if err != nil || !st.Mode().IsRegular() {
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
		out.Verdict, out.Failure = schemas.Failed, failure
		if out.ExitStatus == 0 {
			out.ExitStatus = 1
		}
		return nil
	}
	artifact, err := collect(ctx, run, with.Outputs)
	if err != nil {
		return err
	}
	out.Output, out.Verdict = artifact, schemas.Passed
	return nil
}

// collect makes the outputs durable and read-only. One is the artifact itself;
// several are moved into a folder of the stage's name, under one manifest.
func collect(ctx context.Context, run *Run, outputs []string) (*Artifact, error) {
	if len(outputs) == 0 {
		return nil, nil
	}
	for _, o := range outputs {
		path := filepath.Join(run.Dir, filepath.FromSlash(o))
		f, err := os.Open(path)
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

// arguments puts the paths of inputs in.
func arguments(run *Run, command []string) ([]string, error) {
	args := make([]string, len(command))
	for i, a := range command {
		for role, in := range run.Inputs {
			a = strings.ReplaceAll(a, "{input/"+role+"}", in.Path)
		}
		if _, rest, found := strings.Cut(a, "{input/"); found {
			role, _, _ := strings.Cut(rest, "}")
			return nil, fmt.Errorf("command[%d]: there is no input %q; name its stage under inputs", i, role)
		}
		args[i] = a
	}
	return args, nil
}

// putLogs keeps both streams as private evidence: they can name what a machine holds.
func putLogs(ctx context.Context, run *Run, out *Outcome, stdout, stderr *limitedBuffer) error {
	for name, b := range map[string]*limitedBuffer{"log/stdout": stdout, "log/stderr": stderr} {
		body := b.kept
		if b.cut {
			body = append(body, fmt.Sprintf("\n[cut after %d bytes]\n", b.limit)...)
		}
		digest, size, err := run.Objects.Put(ctx, "text/plain", false, bytes.NewReader(body))
		if err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		out.Evidence = append(out.Evidence, Evidence{Name: name, Digest: digest, MediaType: "text/plain", Size: size})
	}
	slices.SortFunc(out.Evidence, func(a, b Evidence) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func lastLine(log []byte) string {
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	last := lines[len(lines)-1]
	return last[:min(len(last), 300)]
}
