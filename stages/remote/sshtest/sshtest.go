// Package sshtest runs OpenSSH's own server on loopback for tests, with keys of
// its own, behind a proxy that can cut connections.
package sshtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ErrMissing says that there is no OpenSSH here.
var ErrMissing = errors.New("OpenSSH's client and server are not installed (apt-get install openssh-client openssh-server)")

// Host is the name under which the client's configuration knows the server.
const Host = "box"

// Options change the server.
type Options struct {
	OnlySFTP bool // the account runs no commands
}

// Server is a running server.
type Server struct {
	Config string // of ssh: knows Host, its key and the user's key
	Dir    string // a folder of the user at the other end
	proxy  *proxy
	log    string
}

// Start starts a server that ends with the test.
func Start(t testing.TB, opt Options) (*Server, error) {
	t.Helper()
	sshd, err := findSSHD()
	if err != nil {
		return nil, err
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"host", "user", "stranger"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	if me.Uid == "0" {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // where sshd goes before it knows a user
			return nil, err
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{Config: filepath.Join(dir, "ssh_config"), Dir: filepath.Join(dir, "home"), log: filepath.Join(dir, "sshd.log")}
	if err := os.Mkdir(s.Dir, 0o755); err != nil {
		return nil, err
	}
	force := ""
	if opt.OnlySFTP {
		force = "ForceCommand internal-sftp\n"
	}
	config := fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nUsePAM no\nStrictModes no\nUseDNS no\n"+
		"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nPubkeyAuthentication yes\nSubsystem sftp internal-sftp\n%s",
		port, filepath.Join(dir, "host"), filepath.Join(dir, "user.pub"), force)
	if err := os.WriteFile(filepath.Join(dir, "sshd_config"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(sshd, "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", sshd, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
	address := fmt.Sprintf("127.0.0.1:%d", port)
	if err := answers(t.Context(), address); err != nil {
		said, _ := os.ReadFile(s.log)
		return nil, fmt.Errorf("sshd does not answer: %w: %s", err, said)
	}
	if s.proxy, err = newProxy(t, address); err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "known_hosts"), []byte(Host+" "+string(key)), 0o600); err != nil {
		return nil, err
	}
	return s, s.configure(dir, me.Username, "user", "known_hosts")
}

func (s *Server) configure(dir, user, key, known string) error {
	text := fmt.Sprintf("Host %s\n  HostName 127.0.0.1\n  Port %d\n  User %s\n  IdentityFile %s\n  IdentitiesOnly yes\n  IdentityAgent none\n  HostKeyAlias %s\n"+
		"  UserKnownHostsFile %s\n  GlobalKnownHostsFile /dev/null\n  ForwardAgent yes\n  LogLevel ERROR\n",
		Host, s.proxy.port(), user, filepath.Join(dir, key), Host, filepath.Join(dir, known))
	return os.WriteFile(s.Config, []byte(text), 0o600)
}

// Strange makes the client know another host key for the server.
func (s *Server) Strange() error {
	dir := filepath.Dir(s.Config)
	key, err := os.ReadFile(filepath.Join(dir, "stranger.pub"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "known_hosts"), []byte(Host+" "+string(key)), 0o600)
}

// Unknown makes the client know no host key.
func (s *Server) Unknown() error {
	return os.Remove(filepath.Join(filepath.Dir(s.Config), "known_hosts"))
}

// Stranger gives the client a key that the server does not know.
func (s *Server) Stranger() error {
	body, err := os.ReadFile(s.Config)
	if err != nil {
		return err
	}
	dir := filepath.Dir(s.Config)
	return os.WriteFile(s.Config, []byte(strings.Replace(string(body), filepath.Join(dir, "user"), filepath.Join(dir, "stranger"), 1)), 0o600)
}

// CutAfter cuts the next connection that carries more than that many bytes in
// one direction.
func (s *Server) CutAfter(bytes int64) { s.proxy.cutAfter(bytes) }

// Cuts is how many connections were cut.
func (s *Server) Cuts() int { return s.proxy.cuts() }

// Address is the server's folder, as a delivery's destination names it.
func (s *Server) Address() string { return "ssh://" + Host + s.Dir }

func findSSHD() (string, error) {
	for _, name := range []string{"ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(name); err != nil {
			return "", ErrMissing
		}
	}
	for _, path := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil // sshd wants to be called by its whole path
		}
	}
	return "", ErrMissing
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// answers waits until something listens.
func answers(ctx context.Context, address string) error {
	var err error
	for range 100 {
		var c net.Conn
		if c, err = (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address); err == nil {
			return c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
