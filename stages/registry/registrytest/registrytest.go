// Package registrytest runs other projects' OCI registries on loopback for
// tests, behind a proxy that records what is sent and can change what comes.
package registrytest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// ErrMissing says that a registry is not installed.
var ErrMissing = errors.New("no registry here; install it with .ci/interop/install-registry")

// Kinds are the registries by name, each with the variable that holds its path.
var Kinds = map[string]string{
	"referrers under tags": "WEIGHMASTER_REGISTRY",
	"referrers API":        "WEIGHMASTER_REGISTRY_REFERRERS",
}

// Server is a registry behind a proxy.
type Server struct {
	Host string // host:port, as in oci://<Host>/repository:tag

	mu     sync.Mutex
	sent   bytes.Buffer
	change func(*http.Response) error
	cut    int64
	cuts   int
}

// Start starts a registry of a kind, which ends with the test.
func Start(t testing.TB, kind string) (*Server, error) {
	t.Helper()
	program := os.Getenv(Kinds[kind])
	if program == "" {
		return nil, ErrMissing
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	args := []string{address}
	if kind == "referrers under tags" {
		dir := t.TempDir()
		config := filepath.Join(dir, "config.yml")
		text := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage:\n  filesystem: {rootdirectory: %q}\nhttp: {addr: %q}\n", filepath.Join(dir, "data"), address)
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			return nil, err
		}
		args = []string{"serve", config}
	}
	var said bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 200 {
		var res *http.Response
		if res, err = http.Get("http://" + address + "/v2/"); err == nil {
			_ = res.Body.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", program, err)
	}
	s := &Server{cut: -1}
	proxy := httptest.NewServer(s.handler(&url.URL{Scheme: "http", Host: address}))
	t.Cleanup(proxy.Close)
	s.Host = strings.TrimPrefix(proxy.URL, "http://")
	return s, nil
}

func (s *Server) handler(target *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the addresses that a registry gives out are the proxy's
			if r.In.Body != nil {
				r.Out.Body = &recorder{ReadCloser: r.In.Body, to: s}
			}
			s.record([]byte(r.In.URL.String() + fmt.Sprint(r.In.Header)))
		},
		ModifyResponse: func(r *http.Response) error {
			s.mu.Lock()
			change := s.change
			s.mu.Unlock()
			if change != nil {
				if err := change(r); err != nil {
					return err
				}
			}
			if r.Request.Method == http.MethodGet && strings.Contains(r.Request.URL.Path, "/blobs/") {
				r.Body = &cutter{ReadCloser: r.Body, s: s}
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

// Change lets a function change what the registry answers.
func (s *Server) Change(change func(*http.Response) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change = change
}

// CutAfter cuts the next download of a blob after that many bytes.
func (s *Server) CutAfter(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = n
}

// Cuts is how many downloads were cut.
func (s *Server) Cuts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cuts
}

// Sent is every byte that was sent to the registry.
func (s *Server) Sent() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.sent.Bytes())
}

func (s *Server) record(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent.Write(p)
}

type recorder struct {
	io.ReadCloser
	to *Server
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.to.record(p[:n])
	return n, err
}

type cutter struct {
	io.ReadCloser
	s    *Server
	done int64
}

func (c *cutter) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p[:min(len(p), 16<<10)])
	c.done += int64(n)
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.cut >= 0 && c.done > c.s.cut {
		c.s.cut = -1
		c.s.cuts++
		return 0, errors.New("cut")
	}
	return n, err
}

// Replace gives an answer another body.
func Replace(r *http.Response, body []byte) {
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
}
