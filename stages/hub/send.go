package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// answer is a response after redirects. Commit and Linked are what the Hub
// itself said about the file before it redirected to a store.
type answer struct {
	*http.Response
	commit string // X-Repo-Commit
	linked string // X-Linked-Etag, unquoted
}

// refusal is an answer that another attempt would not better.
type refusal struct{ msg string }

func (r *refusal) Error() string { return r.msg }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// send makes one attempt and follows redirects. The token goes to the
// endpoint's own scheme, host and port only, whatever hop it is.
func (c *Client) send(ctx context.Context, r request) (*answer, error) {
	target := c.base.JoinPath(escape(r.path)...)
	target.RawQuery = r.query.Encode()
	a := &answer{}
	for hop := 0; hop <= maxRedirects; hop++ {
		req, err := http.NewRequestWithContext(ctx, r.method, target.String(), strings.NewReader(r.body))
		if err != nil {
			return nil, refuse("%s: the address %s cannot be asked", r.what, redact(target))
		}
		req.Header.Set("User-Agent", "weighmaster")
		req.Header.Set("Accept-Encoding", "identity")
		if r.body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		if r.from > 0 {
			req.Header.Set("Range", fmt.Sprintf("bytes=%d-", r.from))
		}
		if c.token != "" && sameOrigin(target, c.base) {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		resp, err := c.http.Do(req)
		if err != nil {
			return nil, transportError(r.what, target, err)
		}
		if sameOrigin(target, c.base) {
			a.note(resp.Header)
		}
		if !redirects(resp.StatusCode) {
			a.Response = resp
			return a, nil
		}
		next, err := follow(target, resp.Header.Get("Location"), isLoopback(c.base))
		drain(resp.Body)
		if err != nil {
			return nil, refuse("%s: redirected by %s: %v", r.what, redact(target), err)
		}
		target = next
	}
	return nil, refuse("%s: more than %d redirects; the last was to %s", r.what, maxRedirects, redact(target))
}

func (a *answer) note(h http.Header) {
	if v := h.Get("X-Repo-Commit"); v != "" {
		a.commit = v
	}
	if v := h.Get("X-Linked-Etag"); v != "" {
		a.linked = strings.Trim(strings.TrimPrefix(v, "W/"), `"`)
	}
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

func follow(from *url.URL, location string, loopback bool) (*url.URL, error) {
	next, err := from.Parse(location)
	if err != nil || location == "" || next.Host == "" || next.User != nil {
		return nil, errors.New("the Location header names no address")
	}
	return next, secure(next, loopback)
}

// secure wants https; plain HTTP only to a loopback host, and only when the endpoint is one.
func secure(u *url.URL, loopback bool) error {
	if u.Scheme == "https" || u.Scheme == "http" && loopback && isLoopback(u) {
		return nil
	}
	return fmt.Errorf("got %s://%s, want https (plain http is for a loopback endpoint only)", u.Scheme, u.Host)
}

func isLoopback(u *url.URL) bool {
	host := u.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"https": "443", "http": "80"}[u.Scheme]
}

// redact shows an address without its query: a store's addresses carry signatures there.
func redact(u *url.URL) string {
	return u.Scheme + "://" + u.Host + "/" + strings.TrimPrefix(u.EscapedPath(), "/")
}

func escape(elems []string) []string {
	out := make([]string, len(elems))
	for i, e := range elems {
		out[i] = url.PathEscape(e)
	}
	return out
}

// transportError drops the address that net/url puts into its errors.
func transportError(what string, target *url.URL, err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return fmt.Errorf("%s: asking %s: %w", what, redact(target), err)
}

func worthRetrying(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented
}

// retryAfter reads Retry-After in both of its forms (RFC 9110, section 10.2.3), bounded.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.ParseUint(v, 10, 31); err == nil {
		return min(time.Duration(s)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(v); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
