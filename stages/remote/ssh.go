package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
)

// Options are how to reach another machine.
type Options struct {
	Config string // path of an ssh configuration file instead of the user's; optional
}

// Conn is a connection to another machine.
type Conn struct {
	at     Location
	opt    Options
	ssh    string // path of the program
	cmd    *exec.Cmd
	sftp   *sftp.Client
	words  *tail
	hasher *hasher // how the other end hashes; nil before it was asked
}

// patience is how long a process has to end after it was told to.
const patience = 5 * time.Second

// Dial starts ssh and SFTP over it. Host keys are checked strictly, nothing is
// asked on a terminal, and neither agent, X11 nor ports are forwarded. Close the
// connection after use; it also ends with ctx.
func Dial(ctx context.Context, at Location, opt Options) (*Conn, error) {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return nil, fmt.Errorf("%s: no ssh program here; install OpenSSH's client: %w", at, err)
	}
	c := &Conn{at: at, opt: opt, ssh: program, words: &tail{}}
	c.cmd = exec.CommandContext(ctx, program, append(c.arguments(), "-s", "--", at.Host, "sftp")...)
	c.cmd.Stderr, c.cmd.WaitDelay = c.words, patience
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: start ssh: %w", at, err)
	}
	// Writes of a window go out together; see window.
	if c.sftp, err = sftp.NewClientPipe(out, in, sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(window/packet)); err != nil {
		_ = in.Close()
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		return nil, c.failed(ctx, "open SFTP over ssh", err)
	}
	return c, nil
}

// arguments are the options of every ssh, before the host. Those on the command
// line come before the user's configuration.
func (c *Conn) arguments() []string {
	var args []string
	if c.opt.Config != "" {
		args = append(args, "-F", c.opt.Config)
	}
	for _, o := range []string{
		"BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no", "ForwardAgent=no", "ForwardX11=no", "ForwardX11Trusted=no",
		"ClearAllForwardings=yes", "Tunnel=no", "PermitLocalCommand=no", "RemoteCommand=none", "RequestTTY=no", "ControlMaster=no",
		"ConnectTimeout=30", "ServerAliveInterval=15", "ServerAliveCountMax=4",
	} {
		args = append(args, "-o", o)
	}
	if c.at.User != "" {
		args = append(args, "-l", c.at.User)
	}
	if c.at.Port != "" {
		args = append(args, "-p", c.at.Port)
	}
	return args
}

// Close ends the connection.
func (c *Conn) Close() error {
	_ = c.sftp.Close() // what mattered was said by the calls before
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(patience):
		_ = c.cmd.Process.Kill()
		<-done
	}
	return nil
}

// Program is the path of the ssh that is used.
func (c *Conn) Program() string { return c.ssh }

// CutError says that the connection ended in the middle. What arrived is kept.
type CutError struct {
	At   string
	What string
	Err  error
	Said string // the last words of ssh
}

func (e *CutError) Error() string {
	said := ""
	if e.Said != "" {
		said = fmt.Sprintf(" (ssh said: %q)", e.Said[max(0, len(e.Said)-600):])
	}
	return fmt.Sprintf("%s: %s: %v%s", e.At, e.What, e.Err, said)
}

func (e *CutError) Unwrap() error { return e.Err }

// failed describes an error of the connection, or of the other end.
func (c *Conn) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return &CutError{c.at.String(), what, err, c.words.String()}
}

// run runs a command at the other end, without input, and returns what it printed.
func (c *Conn) run(ctx context.Context, command string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.ssh, append(c.arguments(), "--", c.at.Host, command)...)
	out, words := &tail{}, &tail{}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, words, patience
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, &CutError{c.at.String(), "run a command", err, words.String()}
	}
	return []byte(out.String()), nil
}

// quote makes a path one word of a POSIX shell, and of csh and fish too.
func quote(path string) string {
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// maxWords bounds what is kept of a program's words, in bytes.
const maxWords = 4096

// tail keeps the last words of a program.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxWords; over > 0 {
		t.kept = bytes.Clone(t.kept[over:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}

// stopping is a reader or writer that ends with its context and tells how far it is.
type stopping struct {
	ctx  context.Context
	w    io.Writer
	tell func(done int64)
	done int64
}

func (s *stopping) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.w.Write(p)
	s.done += int64(n)
	if s.tell != nil {
		s.tell(s.done)
	}
	return n, err
}

// errNoRegular says that a name is taken by something else than a file.
var errNoRegular = errors.New("there is something else than a regular file; move it away")
