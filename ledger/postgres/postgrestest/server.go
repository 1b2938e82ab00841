// Package postgrestest starts private PostgreSQL servers for tests: a data
// folder of their own, a Unix socket and no network.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Variable names the folder that holds initdb and postgres, such as
// /usr/lib/postgresql/15/bin. Tests that need a server are skipped without it.
const Variable = "WEIGHMASTER_POSTGRES"

// patience bounds the wait for a start or an end.
const patience = 2 * time.Minute

// Server is a private server. It writes through to the disk as a real one does.
type Server struct {
	bin, dir string
	process  *os.Process
	ended    chan struct{} // closed when the process is no more
	names    atomic.Int64
}

// Start makes a data folder and starts a server on it, which ends with the
// test. settings are lines of postgresql.conf.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := start(t, settings...)
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var shared struct {
	sync.Mutex
	server *Server
}

// Shared gives the one server of a test binary whose TestMain calls [Main]. No
// test may stop it or change its settings; each makes its own databases.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		shared.server = start(t)
	}
	return shared.server
}

// Main runs the tests and ends the shared server.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.server == nil {
		return code
	}
	if err := shared.server.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func start(t testing.TB, settings ...string) *Server {
	t.Helper()
	bin := os.Getenv(Variable)
	if bin == "" {
		const text = Variable + " does not name the folder of initdb and postgres; .ci/interop/install-postgres prints it"
		if os.Getenv("CI") == "true" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	// Not t.TempDir: an unprivileged user must get in, and a socket's path is short.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{bin: bin, dir: dir}
	if err := s.prepare(settings); err != nil {
		s.close()
		t.Fatal(err)
	}
	s.Restart(t)
	return s
}

func (s *Server) prepare(settings []string) error {
	if err := give(s.dir); err != nil {
		return err
	}
	initdb := s.command("initdb", "--pgdata="+s.data(), "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	conf, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	fixed := []string{"listen_addresses = ''", "unix_socket_directories = '" + s.dir + "'", "shared_buffers = '16MB'", "max_connections = 60", "logging_collector = off"}
	_, err = conf.WriteString("\n" + strings.Join(append(fixed, settings...), "\n") + "\n")
	return errors.Join(err, conf.Close())
}

func (s *Server) close() error {
	return errors.Join(s.kill(), os.RemoveAll(s.dir))
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = unprivileged()
	return cmd
}

// Restart starts the server, which must not run, and waits until it answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		s.run(t)
		for {
			if s.answers() {
				return
			}
			select {
			case <-s.ended:
			case <-time.After(20 * time.Millisecond):
				if time.Now().Before(deadline) {
					continue
				}
			}
			break
		}
		// After a kill the old server's last processes may hold its memory for a moment.
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(s.log())
			t.Fatalf("the server does not start:\n%s", text)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

func (s *Server) run(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := s.command("postgres", "-D", s.data())
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	s.process, s.ended = cmd.Process, ended
}

func (s *Server) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}

// Socket is the folder of the server's socket.
func (s *Server) Socket() string { return s.dir }

// URL names a database of the server; parameters are key=value.
func (s *Server) URL(database string, parameters ...string) string {
	return URL(s.dir, database, parameters...)
}

// URL names a database of the server whose socket lies in a folder.
func URL(socket, database string, parameters ...string) string {
	query := url.Values{"host": {socket}}
	for _, p := range parameters {
		key, value, _ := strings.Cut(p, "=")
		query.Set(key, value)
	}
	return (&url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + database, RawQuery: query.Encode()}).String()
}

// Database makes a new, empty database, with options of CREATE DATABASE, and
// returns its name.
func (s *Server) Database(t testing.TB, options ...string) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.names.Add(1))
	s.Exec(t, "postgres", "CREATE DATABASE "+name+" "+strings.Join(options, " "))
	return name
}

// Exec runs statements as the superuser, in one session.
func (s *Server) Exec(t testing.TB, database string, statements ...string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// BecomeStandby ends the server and starts it as a standby of nobody, which
// takes no writes.
func (s *Server) BecomeStandby(t testing.TB) {
	t.Helper()
	s.StopAtOnce(t)
	if err := os.WriteFile(filepath.Join(s.data(), "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
}

// Kill ends every process of the server with SIGKILL, as a loss of power would.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.kill(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) kill() error {
	if s.process == nil {
		return nil
	}
	children := childrenOf(s.process.Pid)
	err := s.end(s.process.Kill())
	for _, child := range children {
		child.Kill() // it may be gone
	}
	return err
}

// KillSession ends the server's process behind one session of an application
// with SIGKILL. The server ends all other sessions and recovers by itself, for
// which KillSession waits.
func (s *Server) KillSession(t testing.TB, application string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var pid int
	if err := conn.QueryRow(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name = $1 ORDER BY state LIMIT 1", application).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	session, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); conn.Ping(ctx) == nil || !s.answers(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server does not recover")
		}
	}
}

// StopAtOnce ends the server as pg_ctl stop -m immediate does: without a
// checkpoint, so that the next start recovers from the log of writes.
func (s *Server) StopAtOnce(t testing.TB) {
	t.Helper()
	if err := s.end(s.process.Signal(quit)); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) end(err error) error {
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(patience):
		return errors.New("the server does not end")
	}
}
