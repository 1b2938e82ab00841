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

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/isolation"
)

// toolCommand is one command of a stage, run in the box.
type toolCommand struct {
	Name    string // its logs are log/<name>.stdout and .stderr; log/stdout and log/stderr when empty
	Program string // absolute host path
	// Args are its arguments. {input/ROLE} stands for the path of an input in
	// the box, {out} for that of the stage's folder, {root/NAME} for that of a root.
	Args         []string
	Env          []string // NAME=value
	Stdin        string   // path of a file; none when empty
	Timeout      time.Duration
	Box          schemas.Box
	RunsProducts bool // what it makes may be executed

	mounts []isolation.Mount // further ones, of files that the stage hashes itself
	watch  watched           // what stood there before the stage hashed it; nil when it hashed nothing
	whole  bool              // a library that is not found in the box is refused before the run
	own    bool              // so is one that comes from elsewhere than the inputs, the roots and the system
	// packages is a folder of the host; {packages} stands for its path in the box.
	packages string
}

// toolResult is how a command ended.
type toolResult struct {
	Stdout, Stderr []byte // head and tail, see [maxLog]
	ExitStatus     int    // -1 when it was killed or never started
	// MaxRSS is the high-water mark of resident memory, in bytes, of the
	// largest process of the command: as the wait status tells it, or as it was
	// last looked up while the command ran; 0 where neither is known.
	MaxRSS int64
}

// runTool resolves a command and runs it in the box: the digests of its binary,
// of its interpreters and of its non-system libraries become dependencies, both
// streams become private evidence, and what the box enforced becomes facts and
// internal parameters. The files that were hashed are the files that are let
// in, and are hashed again when the command has ended; inputs as well. The
// returned words say in which way the command failed; empty when it ended with 0.
func runTool(ctx context.Context, run *Run, c toolCommand, out *Outcome) (toolResult, string, error) {
	res := toolResult{ExitStatus: -1}
	watch := c.watch
	if watch == nil {
		watch = watched{}
	}
	t, err := prepareTool(ctx, run, c, watch)
	if err != nil {
		return res, "", err
	}
	defer t.box.Close()
	out.addDependencies(t.dependencies)
	limit, cancel := limited(ctx, c.Timeout)
	defer cancel()
	cmd, err := t.box.Command(limit, append([]string{t.path}, t.args...)...)
	if err != nil {
		return res, "", fmt.Errorf("%s: %w", filepath.Base(t.path), err)
	}
	if c.Stdin != "" {
		f, err := os.Open(below(run.Project, c.Stdin))
		if err != nil {
			return res, "", err
		}
		defer f.Close()
		cmd.Stdin = f
	}
	res, failure := execute(ctx, limit, cmd, c.Timeout)
	out.ExitStatus = res.ExitStatus
	addBoxFacts(out, t.box.Facts())
	t.record(out, c, res)
	if err := putLogs(context.WithoutCancel(ctx), run, out, c.Name, res); err != nil {
		return res, failure, err
	}
	if ctx.Err() != nil {
		return res, failure, nil
	}
	if changed := t.recheck(ctx, run, watch); changed != nil {
		return res, "", fmt.Errorf("%w; what the command made is not to be trusted", changed)
	}
	return res, failure, nil
}

// preparedTool is a command that is ready to be run.
type preparedTool struct {
	*program
	box  *isolation.Box
	args []string
}

// prepareTool opens the box and resolves the command as the box sees it. What is
// hashed is first written into watch, so that no later change goes unseen.
func prepareTool(ctx context.Context, run *Run, c toolCommand, watch watched) (*preparedTool, error) {
	for _, e := range c.Env {
		if name, _, _ := strings.Cut(e, "="); slices.Contains(loadsCode, name) {
			return nil, fmt.Errorf("env: %s loads code whose digest nobody takes; leave it out", name)
		}
	}
	if err := os.MkdirAll(run.Dir, 0o755); err != nil {
		return nil, err
	}
	mounts := append(inputMounts(run), c.mounts...)
	for _, m := range mounts {
		if err := watch.add(m.Host); err != nil {
			return nil, err
		}
	}
	mounts = append(mounts, isolation.Mount{Name: "out", Host: run.Dir, Inside: isolation.InsideOut, Write: true})
	box := c.Box
	box.Roots = slices.Clone(box.Roots)
	for i, r := range box.Roots {
		box.Roots[i].Path = below(run.Project, r.Path)
	}
	profile := isolation.Profile{Box: box, Mounts: mounts, Dir: run.Dir, Env: c.Env, RunsProducts: c.RunsProducts}
	opened, err := isolation.Open(ctx, profile)
	if err != nil {
		return nil, err
	}
	p, err := resolveProgram(ctx, c, run.Dir, newView(opened, box.Roots, mounts), watch)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	if c.whole && len(p.unresolved) > 0 {
		return nil, errors.Join(fmt.Errorf("%s: the box has no %s, which it needs: link it with $ORIGIN (cmake: -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON) and keep its libraries among the build's products", filepath.Base(p.path), strings.Join(p.unresolved, ", ")), opened.Close())
	}
	if c.own && len(p.further) > 0 {
		return nil, errors.Join(fmt.Errorf("%s: it would load %s from outside of the build (%s): link it with $ORIGIN (cmake: -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON)", filepath.Base(p.path), filepath.Base(p.further[0].Host), p.further[0].Inside), opened.Close())
	}
	if len(p.further) > 0 { // the very files that were hashed, each at its own path
		profile.Mounts = append(profile.Mounts, p.further...)
		if err := opened.Close(); err != nil {
			return nil, err
		}
		if opened, err = isolation.Open(ctx, profile); err != nil {
			return nil, err
		}
	}
	args, err := toolArguments(run, c, opened, box.Roots)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return &preparedTool{program: p, box: opened, args: args}, nil
}

// resolveTool gives the dependencies that a run of the command would have.
func resolveTool(ctx context.Context, run *Run, c toolCommand) ([]Dependency, error) {
	t, err := prepareTool(ctx, run, c, watched{})
	if err != nil {
		return nil, err
	}
	return t.dependencies, t.box.Close()
}

// loadsCode are variables by which the dynamic loader loads what nobody named.
var loadsCode = []string{"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GCONV_PATH"}

// recheck tells what changed of the tool and of the inputs since they were hashed.
func (t *preparedTool) recheck(ctx context.Context, run *Run, watch watched) error {
	if err := t.rehash(ctx); err != nil {
		return err
	}
	for _, role := range sortedKeys(run.Inputs) {
		a := run.Inputs[role]
		if a.Digest == "" { // made by nobody: a test's
			continue
		}
		if err := a.Check(ctx); err != nil {
			return fmt.Errorf("input %s, while the command ran: %w", role, err)
		}
	}
	return watch.changed()
}

// record says in the internal parameters what ran, without paths of this machine.
func (t *preparedTool) record(out *Outcome, c toolCommand, res toolResult) {
	names := []string{}
	for _, e := range c.Env {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	if out.Internal == nil {
		out.Internal = map[string]any{}
	}
	commands, _ := out.Internal["commands"].([]any)
	r := map[string]any{
		"name": c.Name, "program": t.view.name(t.path), "arguments": append([]string{}, c.Args...), "environment": names, "exitStatus": res.ExitStatus,
		"systemLibraries": t.system, "unresolvedLibraries": t.unresolved, "box": t.box.Record(),
	}
	if res.MaxRSS > 0 {
		r["maxResidentBytes"] = res.MaxRSS
	}
	out.Internal["commands"] = append(commands, r)
}

// addDependencies adds what is not named yet: commands of one stage share tools.
func (o *Outcome) addDependencies(list []Dependency) {
	for _, d := range list {
		if !slices.Contains(o.Dependencies, d) {
			o.Dependencies = append(o.Dependencies, d)
		}
	}
}

// addBoxFacts joins what the boxes of a stage's commands enforced: the weakest counts.
func addBoxFacts(out *Outcome, facts map[string]string) {
	if out.Facts == nil {
		out.Facts = map[string]string{}
	}
	for name, now := range facts {
		before, there := out.Facts[name]
		switch {
		case !there || before == now:
			out.Facts[name] = now
		case name == schemas.FactNetwork:
			order := []string{schemas.NetworkDenied, schemas.NetworkAdmitted, schemas.NetworkNotEnforced}
			out.Facts[name] = order[max(slices.Index(order, before), slices.Index(order, now), 0)]
		case name == schemas.FactBox && (before == string(isolation.None) || now == string(isolation.None)):
			out.Facts[name] = string(isolation.None)
		case !slices.Contains(strings.Split(before, ", "), now):
			out.Facts[name] = before + ", " + now
		}
	}
}
