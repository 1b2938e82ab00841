// Package gitsource reads one commit of a git repository that nobody has to
// trust: a checkout, a bare repository, or a server. Git itself only unpacks
// objects, in a repository of our own whose configuration is ours; the ids of
// commit, trees and files are computed here. No hook, filter, helper or command
// that a repository configures is run, and a user's checkout is never changed.
package gitsource

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	maxOutput  = 64 << 20 // bytes of an answer of git
	maxComplex = 64 << 20 // bytes of a commit, a tree or a patch
)

var commitForm = regexp.MustCompile(`^[0-9a-f]{40}$`)

// CheckCommit refuses everything but a full SHA-1 commit id: a branch or tag can
// move, and a short id can come to name another commit.
func CheckCommit(commit string) error {
	if !commitForm.MatchString(commit) {
		return fmt.Errorf("commit: got %.80q, want a full commit id of 40 lower-case hex digits; a branch, a tag or a short id can come to name another commit", commit)
	}
	return nil
}

// settings overrule what a repository configures. Command-line configuration
// wins over every file.
var settings = []string{
	"core.hooksPath=" + os.DevNull, "core.fsmonitor=false", "core.sshCommand=false", "core.gitProxy=", "core.attributesFile=" + os.DevNull,
	"core.excludesFile=" + os.DevNull, "core.autocrlf=false", "core.untrackedCache=false", "core.splitIndex=false", "credential.helper=", "submodule.recurse=false",
	"protocol.allow=never", "fetch.recurseSubmodules=false", "fetch.writeCommitGraph=false", "gc.auto=0", "maintenance.auto=false", "http.cookieFile=", "diff.external=",
}

// passed on from the environment: where a server is reached and whose word on it counts.
var passed = []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "NO_PROXY", "no_proxy", "GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR", "SYSTEMROOT"}

// call is one run of git.
type call struct {
	gitDir, workTree, index string
	dir                     string // working directory
	ceiling                 string // no repository is looked for at or above this folder
	protocols               string // of the network; none when empty
	args                    []string
}

// Program finds git.
func Program() (string, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return "", fmt.Errorf("git: %w; install it", err)
	}
	return filepath.Abs(path)
}

// Version asks git for its version.
func Version(ctx context.Context) (string, error) {
	out, err := call{args: []string{"--version"}}.run(ctx)
	return strings.TrimSpace(string(out)), err
}

func (c call) command(ctx context.Context) (*exec.Cmd, error) {
	git, err := Program()
	if err != nil {
		return nil, err
	}
	var args []string
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	cmd := exec.CommandContext(ctx, git, append(args, c.args...)...)
	cmd.Dir, cmd.WaitDelay = c.dir, 5*time.Second
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + os.DevNull, "XDG_CONFIG_HOME=" + os.DevNull,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1", "GIT_TEMPLATE_DIR=",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "GIT_SSH_COMMAND=false", "GIT_EDITOR=false", "GIT_PAGER=cat",
		"GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_ALLOW_PROTOCOL=" + or(c.protocols, "none"),
	}
	for name, value := range map[string]string{"GIT_DIR": c.gitDir, "GIT_WORK_TREE": c.workTree, "GIT_INDEX_FILE": c.index, "GIT_CEILING_DIRECTORIES": c.ceiling} {
		if value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd, nil
}

// run gives the standard output. An error holds what git said.
func (c call) run(ctx context.Context) ([]byte, error) {
	cmd, err := c.command(ctx)
	if err != nil {
		return nil, err
	}
	out, said := &bounded{limit: maxOutput}, &bounded{limit: 64 << 10}
	cmd.Stdout, cmd.Stderr = out, said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &gitError{verb: c.args[0], said: strings.TrimSpace(said.String()), err: err}
	}
	if out.cut {
		return nil, fmt.Errorf("git %s: it answered more than %d bytes", c.args[0], out.limit)
	}
	return out.Bytes(), nil
}

// gitError is a run of git that failed.
type gitError struct {
	verb, said string
	err        error
}

func (e *gitError) Error() string { return fmt.Sprintf("git %s: %v: %s", e.verb, e.err, e.said) }
func (e *gitError) Unwrap() error { return e.err }

// bounded keeps the first limit bytes.
type bounded struct {
	bytes.Buffer
	limit int
	cut   bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.limit-b.Len())
	b.cut = b.cut || keep < len(p)
	b.Buffer.Write(p[:keep])
	return len(p), nil
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
