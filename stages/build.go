package stages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// Build builds the tools that later stages run, from the source of a patch stage
// (role source), in the box: out of the source, which is read-only. It names the
// commit and the patch, the compilers by digest, and every product by digest.
type Build struct{}

// Uses implements [Stage].
func (Build) Uses() string { return "build" }

// buildWith is with: of the stage.
type buildWith struct {
	Commands  [][]string        `json:"commands"`
	Products  []string          `json:"products"`  // patterns below the build folder
	Compilers []string          `json:"compilers"` // programs that the commands run in turn
	Env       map[string]string `json:"env"`
	Timeout   string            `json:"timeout"` // Go duration for each command; none when empty
	Box       schemas.Box       `json:"box"`
}

const buildFolder = "_build" // below run.Dir; {build} in commands. No stage has such a name

// Resolve implements [Resolver].
func (Build) Resolve(ctx context.Context, run *Run) ([]Dependency, error) {
	var with buildWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	return buildTools(ctx, run, with)
}

// buildTools are the programs of the commands and the compilers, with their libraries.
func buildTools(ctx context.Context, run *Run, with buildWith) ([]Dependency, error) {
	names := slices.Clone(with.Compilers)
	for _, c := range with.Commands {
		names = append(names, c[0])
	}
	slices.Sort(names)
	all := &Outcome{}
	for _, name := range slices.Compact(names) {
		list, err := buildTool(ctx, run, with, name)
		if err != nil {
			return nil, fmt.Errorf("compiler %s: %w", name, err)
		}
		all.addDependencies(list)
	}
	return all.Dependencies, nil
}

func buildTool(ctx context.Context, run *Run, with buildWith, name string) ([]Dependency, error) {
	program, err := findTool(run.Project, name, rootPaths(run, with.Box))
	if err != nil {
		return nil, err
	}
	return resolveTool(ctx, withoutInputs(run), toolCommand{Program: program, Box: with.Box, Env: buildEnvironment(with.Env)})
}

// withoutInputs is for what looks at programs alone, so that the source is not hashed for each of them.
func withoutInputs(run *Run) *Run {
	bare := *run
	bare.Inputs = nil
	return &bare
}

// Run implements [Stage].
func (Build) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with buildWith
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	source, err := run.input("source")
	if err != nil {
		return nil, err
	}
	if !source.Multi {
		return nil, fmt.Errorf("input source: got the file %s, want a folder", source.Name)
	}
	out := &Outcome{Facts: map[string]string{}}
	if err := sourceFacts(ctx, run, source, out); err != nil {
		return out, err
	}
	tools, err := buildTools(ctx, run, with)
	if err != nil {
		return out, err
	}
	out.addDependencies(tools)
	if err := os.MkdirAll(filepath.Join(run.Dir, buildFolder), 0o755); err != nil {
		return out, err
	}
	if err := compilerVersions(ctx, run, with, out); err != nil {
		return out, err
	}
	failure, err := buildCommands(ctx, run, with, out)
	if err != nil {
		return out, err
	}
	if failure != "" {
		out.Verdict, out.Failure = schemas.Failed, failure
		out.ExitStatus = max(out.ExitStatus, 1)
		return out, nil
	}
	return out, concludeBuild(ctx, run, with, out)
}

// buildCommands runs the commands. The failure says which ended how.
func buildCommands(ctx context.Context, run *Run, with buildWith, out *Outcome) (failure string, err error) {
	for i, c := range with.Commands {
		program, err := findTool(run.Project, c[0], rootPaths(run, with.Box))
		if err != nil {
			return "", err
		}
		command := toolCommand{
			Name: fmt.Sprintf("%d-%s", i+1, filepath.Base(program)), Program: program, Box: with.Box, RunsProducts: true,
			Args: inBuild(c[1:]), Env: buildEnvironment(with.Env),
		}
		if with.Timeout != "" {
			if command.Timeout, err = time.ParseDuration(with.Timeout); err != nil || command.Timeout <= 0 {
				return "", fmt.Errorf("timeout: got %q, want a duration such as 90m", with.Timeout)
			}
		}
		if run.Progress != nil {
			run.Progress("build: "+strings.Join(c, " "), 0, 0)
		}
		result, failure, err := runTool(ctx, run, command, out)
		if err != nil {
			return "", err
		}
		if failure != "" {
			out.ExitStatus = result.ExitStatus
			return fmt.Sprintf("command %d (%s): %s", i+1, c[0], failure), nil
		}
	}
	return "", nil
}

// inBuild puts the build folder in.
func inBuild(args []string) []string {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = strings.ReplaceAll(a, "{build}", "{out}/"+buildFolder)
	}
	return list
}

func buildEnvironment(env map[string]string) []string {
	var list []string
	for _, name := range sortedKeys(env) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// sourceFacts copies commit and patch from the claim that made the source: the
// newest passed run of a patch stage whose output is the folder, not withdrawn.
func sourceFacts(ctx context.Context, run *Run, source Artifact, out *Outcome) error {
	ev, err := PolicyEvidence(ctx, run.Claims, run.Objects)
	if err != nil {
		return err
	}
	withdrawn := withdrawnClaims(run.Claims)
	runs, _ := policy.Runs(run.Claims)
	for _, r := range slices.Backward(runs) {
		made := slices.ContainsFunc(r.Subjects, func(s policy.NamedDigest) bool { return s.Digest == source.Digest && strings.HasSuffix(s.Name, "/") })
		if r.Uses != (Patch{}).Uses() || !made {
			continue
		}
		if reason, gone := withdrawn[r.PAE()]; gone {
			return fmt.Errorf("input source: the run of stage %s that made it was withdrawn: %s", r.External.Stage, reason)
		}
		res, err := r.Result(ev.Objects)
		if err != nil {
			return fmt.Errorf("input source: stage %s: %w", r.External.Stage, err)
		}
		if res.Verdict != schemas.Passed {
			continue
		}
		for _, name := range []string{factCommit, factPatch} {
			if out.Facts[name] = res.Facts[name]; out.Facts[name] == "" {
				return fmt.Errorf("input source: the result of stage %s has no fact %s", r.External.Stage, name)
			}
		}
		return nil
	}
	return errors.New("input source: no passed run of a patch stage made this folder, so its commit cannot be told; name a patch stage as source")
}

// compilerVersion is one line of the evidence build/compilers.
type compilerVersion struct {
	Name    string            `json:"name"`
	Version string            `json:"version"` // first line of what --version says
	Parts   map[string]string `json:"parts"`   // sha256:… of the program and its libraries, by tool/… and library/…
}

// compilerVersions asks each compiler for its version, in the box.
func compilerVersions(ctx context.Context, run *Run, with buildWith, out *Outcome) error {
	var list []compilerVersion
	for _, name := range with.Compilers {
		parts, err := buildTool(ctx, run, with, name)
		if err != nil {
			return fmt.Errorf("compiler %s: %w", name, err)
		}
		program, err := findTool(run.Project, name, rootPaths(run, with.Box))
		if err != nil {
			return err
		}
		aside := &Outcome{Facts: map[string]string{}} // its logs are no evidence of the build
		result, failure, err := runTool(ctx, withoutInputs(run), toolCommand{
			Name: "version", Program: program, Args: []string{"--version"}, Timeout: time.Minute, Box: with.Box,
		}, aside)
		if err != nil {
			return fmt.Errorf("compiler %s: %w", name, err)
		}
		version, _, _ := strings.Cut(strings.TrimSpace(string(result.Stdout)), "\n")
		if failure != "" {
			version = "" // a program without --version is known by its digest
		}
		v := compilerVersion{filepath.Base(name), strings.TrimSpace(version), map[string]string{}}
		for _, d := range parts {
			v.Parts[d.Name] = d.Digest.String()
		}
		list = append(list, v)
	}
	evidence, err := putEvidence(ctx, run.Objects, "build/compilers", map[string]any{"compilers": list})
	if err != nil {
		return err
	}
	out.Evidence = append(out.Evidence, evidence)
	return nil
}

// concludeBuild collects the products and looks at what they need.
func concludeBuild(ctx context.Context, run *Run, with buildWith, out *Outcome) error {
	build, dir := filepath.Join(run.Dir, buildFolder), filepath.Join(run.Dir, run.Stage)
	names, err := products(build, with.Products)
	if err != nil {
		return err
	}
	if err := keepProducts(build, dir, names); err != nil {
		return err
	}
	if err := checkLibraries(build, names); err != nil {
		return err
	}
	artifact, err := FolderArtifact(ctx, run.Stage, dir)
	if err != nil {
		return err
	}
	out.Facts["products"] = strings.Join(names[:min(len(names), maxNamed)], ", ")
	out.Output, out.Verdict = &artifact, schemas.Passed
	return nil
}
