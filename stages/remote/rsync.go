package remote

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// rsync takes a partial file further, after all of it was found to be a prefix.
// --append-verify has it hash old and new bytes together, and send all of them
// again if they differ; --secluded-args (-s) keeps the path from the shell there.
func (c *Conn) rsync(ctx context.Context, from, to string) error {
	program, err := exec.LookPath("rsync")
	if err != nil {
		return fmt.Errorf("no rsync program here; install rsync 3.0 or newer, or leave via out: %w", err)
	}
	shell, err := c.remoteShell()
	if err != nil {
		return err
	}
	words := &tail{}
	cmd := exec.CommandContext(ctx, program, "--partial", "--append-verify", "-s", "--timeout=60", "--perms", "--chmod=F644", "-e", shell, "--", from, to)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = words, words, patience
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return &CutError{c.at.String(), "rsync (what arrived is kept; run again to go on)", err, words.String()}
	}
	return nil
}

func (c *Conn) rsyncPut(ctx context.Context, file File, partial string) error {
	return c.rsync(ctx, file.Path, c.rsyncName(partial))
}

func (c *Conn) rsyncGet(ctx context.Context, source, partial string) error {
	return c.rsync(ctx, c.rsyncName(source), partial)
}

func (c *Conn) rsyncName(path string) string {
	if strings.Contains(c.at.Host, ":") {
		return "[" + c.at.Host + "]:" + path
	}
	return c.at.Host + ":" + path
}

// remoteShell is the ssh command as rsync splits it: at spaces, outside of double quotes.
func (c *Conn) remoteShell() (string, error) {
	words := append([]string{c.ssh}, c.arguments()...)
	for i, w := range words {
		if strings.ContainsAny(w, "\"'\\\n") {
			return "", errors.New("rsync cannot be told of a path with quotes, backslashes or line breaks; leave via out")
		}
		if strings.Contains(w, " ") {
			words[i] = `"` + w + `"`
		}
	}
	return strings.Join(words, " "), nil
}
