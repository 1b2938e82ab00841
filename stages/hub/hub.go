// Package hub is a client of the Hugging Face Hub's HTTP interface, as strict
// as acquisition needs it: the listing of one exact revision and the bytes of
// its files.
//
// What it uses of the interface (as huggingface_hub and the Hub's OpenAPI
// description have it):
//
//	GET  {endpoint}/api/models/{repo}/revision/{rev}?blobs=true&securityStatus=true
//	POST {endpoint}/api/models/{repo}/paths-info/{rev}   {"paths": […], "expand": true}
//	GET  {endpoint}/{repo}/resolve/{rev}/{file}          with redirects and Range
//
// A token is sent only when one is given, only to the endpoint's own scheme,
// host and port, and never stands in an error. Plain HTTP is used with a
// loopback endpoint only. Nothing here writes files or believes a hash: that is
// for the caller, over the bytes.
package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// DefaultEndpoint is the public Hub.
const DefaultEndpoint = "https://huggingface.co"

// Options configures a Client. The zero value is an anonymous client of the public Hub.
type Options struct {
	Endpoint string // base URL; DefaultEndpoint when empty
	Token    string // bearer token; anonymous when empty
	// Attempts bounds how often one request is tried; 5 when zero.
	Attempts int
	// Pause is the first wait between attempts, doubled each time; 500 ms when zero.
	Pause time.Duration
	// Idle is how long a body may bring no byte before the attempt is given up; 60 s when zero.
	Idle time.Duration
}

// FromEnv reads HF_ENDPOINT and HF_TOKEN, the variables of the ecosystem. A
// token file is not looked for: a token is used only where somebody set it for this run.
func FromEnv(getenv func(string) string) Options {
	return Options{Endpoint: getenv("HF_ENDPOINT"), Token: strings.TrimSpace(getenv("HF_TOKEN"))}
}

// Client talks to one endpoint. It is safe for concurrent use.
type Client struct {
	base     *url.URL
	token    string
	attempts int
	pause    time.Duration
	idle     time.Duration
	http     *http.Client
}

// New refuses an endpoint that is not https (http with a loopback host
// excepted) or that carries credentials or a query.
func New(o Options) (*Client, error) {
	if o.Endpoint == "" {
		o.Endpoint = DefaultEndpoint
	}
	base, err := url.Parse(strings.TrimRight(o.Endpoint, "/"))
	if err != nil || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("hub endpoint: want https://host without credentials or query; set HF_ENDPOINT or the stage's endpoint")
	}
	if err := secure(base, isLoopback(base)); err != nil {
		return nil, fmt.Errorf("hub endpoint: %w", err)
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("hub token: it holds characters that no token has; check HF_TOKEN")
	}
	c := &Client{base: base, token: o.Token, attempts: o.Attempts, pause: o.Pause, idle: o.Idle}
	if c.attempts <= 0 {
		c.attempts = defaultAttempts
	}
	if c.pause <= 0 {
		c.pause = defaultPause
	}
	if c.idle <= 0 {
		c.idle = defaultIdle
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:    15 * time.Second,
			ResponseHeaderTimeout:  30 * time.Second,
			MaxResponseHeaderBytes: maxHeaderBytes,
			MaxIdleConnsPerHost:    maxParallel,
			DisableCompression:     true, // sizes are those of the file
			ForceAttemptHTTP2:      true,
		},
		// Redirects are followed in send, which decides about the token at each hop.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Endpoint returns the base URL without a trailing slash.
func (c *Client) Endpoint() string { return c.base.String() }

// Anonymous tells whether requests go without a token.
func (c *Client) Anonymous() bool { return c.token == "" }

var (
	repository = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)
	revision   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// CheckPin refuses, before any request, a repository that is not owner/name and
// a revision that is not 40 lower-case hex digits: a branch or tag names other bytes tomorrow.
func CheckPin(repo, rev string) error {
	if !repository.MatchString(repo) || strings.Contains(repo, "..") || strings.Contains(repo, "--") {
		return fmt.Errorf("publisher repository: got %q, want owner/name", repo)
	}
	if !revision.MatchString(rev) {
		return fmt.Errorf("publisher revision: got %q, want the commit's 40 lower-case hex digits; a branch or a tag can move", rev)
	}
	return nil
}

// StatusError is an answer that is not the wanted one.
type StatusError struct {
	What    string
	Status  int
	Message string // what the Hub says about it, bounded
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("%s: the hub answered %d %s", e.What, e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		s += " (" + e.Message + ")"
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		s += "; for a gated or private repository set HF_TOKEN"
	case http.StatusNotFound:
		s += "; check the repository, the revision and the file name"
	}
	return s
}

// request is one request to the endpoint, repeatable.
type request struct {
	what   string // for errors
	method string
	path   []string // unescaped path elements below the endpoint
	query  url.Values
	body   string // JSON
	from   int64  // Range: bytes=from- when positive
}

// do sends r until it is answered by something other than an overload or a
// failure of the transport, at most c.attempts times. The caller closes the body.
func (c *Client) do(ctx context.Context, r request) (*answer, error) {
	var last error
	wait := c.pause
	for try := 1; ; try++ {
		a, err := c.send(ctx, r)
		var pause time.Duration
		switch {
		case err == nil && !worthRetrying(a.StatusCode):
			return a, nil
		case err == nil:
			last = &StatusError{What: r.what, Status: a.StatusCode, Message: c.message(a.Response)}
			pause = retryAfter(a.Header, time.Now())
			a.Body.Close()
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s: %w", r.what, ctx.Err())
		case errors.As(err, new(*refusal)):
			return nil, err
		default:
			last = err
		}
		if try >= c.attempts {
			return nil, fmt.Errorf("%w; given up after %d attempts", last, try)
		}
		if err := sleep(ctx, max(pause, wait)); err != nil {
			return nil, fmt.Errorf("%s: %w", r.what, err)
		}
		wait = min(2*wait, maxPause)
	}
}

// message is what the Hub says about an error, without control characters and without the token.
func (c *Client) message(r *http.Response) string {
	m := r.Header.Get("X-Error-Message")
	if c.token != "" {
		m = strings.ReplaceAll(m, c.token, "[token]")
	}
	m = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, m)
	return m[:min(len(m), maxMessage)]
}

// drain lets a connection be used again after a short answer.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4096)
	body.Close()
}
