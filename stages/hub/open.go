package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Body is a file's bytes from From to its end.
type Body struct {
	io.ReadCloser
	From int64 // 0-based: where the bytes start; 0 when the wish to resume was not honoured
	// Declined says why the bytes start at 0 although another start was asked for.
	Declined string
}

// Open asks for the bytes of f from byte from on. Where the server does not
// answer with exactly that range (206 and the matching Content-Range), the body
// starts at 0: appending anything else would join two different files.
func (c *Client) Open(ctx context.Context, repo, rev string, f File, from int64) (*Body, error) {
	if err := CheckPin(repo, rev); err != nil {
		return nil, err
	}
	if from < 0 || from >= f.Size {
		from = 0
	}
	ctx, cancel := context.WithCancel(ctx)
	body, err := c.open(ctx, repo, rev, f, from)
	if err != nil {
		cancel()
		return nil, err
	}
	body.ReadCloser = &idleReader{body: body.ReadCloser, cancel: cancel, limit: c.idle, timer: time.AfterFunc(c.idle, cancel)}
	return body, nil
}

func (c *Client) open(ctx context.Context, repo, rev string, f File, from int64) (*Body, error) {
	what := f.Path
	a, err := c.do(ctx, request{
		what: what, method: http.MethodGet, from: from,
		path: append(append(strings.Split(repo, "/"), "resolve", rev), strings.Split(f.Path, "/")...),
	})
	if err != nil {
		return nil, err
	}
	if err := checkFile(a, rev, f); err != nil {
		drain(a.Body)
		return nil, err
	}
	switch declined := c.declined(a, from, f.Size); {
	case a.StatusCode == http.StatusOK:
		body := &Body{ReadCloser: a.Body}
		if from > 0 {
			body.Declined = declined
		}
		return body, checkLength(what, a, f.Size)
	case from > 0 && declined == "":
		return &Body{ReadCloser: a.Body, From: from}, checkLength(what, a, f.Size-from)
	case from > 0 && (a.StatusCode == http.StatusPartialContent || a.StatusCode == http.StatusRequestedRangeNotSatisfiable):
		drain(a.Body)
		body, err := c.open(ctx, repo, rev, f, 0)
		if err == nil {
			body.Declined = declined
		}
		return body, err
	default:
		defer drain(a.Body)
		return nil, &StatusError{What: what, Status: a.StatusCode, Message: c.message(a.Response)}
	}
}

// declined says in which way an answer is not the range that was asked for; empty when it is.
func (c *Client) declined(a *answer, from, size int64) string {
	if a.StatusCode != http.StatusPartialContent {
		return fmt.Sprintf("asked for bytes from %d, the server answered %d with the whole file or none", from, a.StatusCode)
	}
	if err := CheckRange(a.Header.Get("Content-Range"), from, size); err != nil {
		return err.Error()
	}
	return ""
}

// CheckRange wants a Content-Range (RFC 9110, section 14.4) to be exactly the
// bytes from from to the end of a file of size bytes.
func CheckRange(header string, from, size int64) error {
	if want := fmt.Sprintf("bytes %d-%d/%d", from, size-1, size); header != want {
		return fmt.Errorf("Content-Range: got %q, want %q", header, want)
	}
	return nil
}

// checkFile compares what the Hub itself says about the file with the listing.
func checkFile(a *answer, rev string, f File) error {
	if a.commit != "" && a.commit != rev {
		return fmt.Errorf("%s: the hub answered for commit %q, want %s; refused", f.Path, a.commit, rev)
	}
	if f.LFS != nil && sha256Hex.MatchString(a.linked) && a.linked != f.LFS.SHA256 {
		return fmt.Errorf("%s: the hub serves sha256 %s, its listing says %s; it is another file and refused", f.Path, a.linked, f.LFS.SHA256)
	}
	if enc := a.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return fmt.Errorf("%s: Content-Encoding: got %q, want none (identity was asked for)", f.Path, enc)
	}
	return nil
}

// checkLength refuses a wrong length before a byte is written.
func checkLength(what string, a *answer, want int64) error {
	v := a.Header.Get("Content-Length")
	if v == "" {
		return nil // unknown: the bytes are counted as they come
	}
	if n, err := strconv.ParseInt(v, 10, 64); err != nil || n != want {
		head, _ := io.ReadAll(io.LimitReader(a.Body, int64(len(PointerPrefix))))
		a.Body.Close()
		return &LengthError{What: what, Got: v, Want: want, Pointer: IsPointer(head)}
	}
	return nil
}

// PointerPrefix starts every Git LFS pointer (git-lfs specification, version 1).
const PointerPrefix = "version https://git-lfs.github.com/spec/v1"

// IsPointer tells a Git LFS pointer by its first bytes.
func IsPointer(head []byte) bool { return bytes.HasPrefix(head, []byte(PointerPrefix)) }

// LengthError is a body that would be shorter or longer than the listing says.
type LengthError struct {
	What    string
	Got     string
	Want    int64 // bytes
	Pointer bool  // what came is a Git LFS pointer
}

func (e *LengthError) Error() string {
	s := fmt.Sprintf("%s: got %s bytes, want %d as listed; refused", e.What, e.Got, e.Want)
	if e.Pointer {
		s += ": this is an LFS pointer, not the file"
	}
	return s
}

// idleReader gives up on a body that brings nothing for a while.
type idleReader struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	limit  time.Duration
	timer  *time.Timer
}

func (r *idleReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if !r.timer.Reset(r.limit) && errors.Is(err, context.Canceled) {
		err = fmt.Errorf("no byte came for %s: %w", r.limit, ErrIdle)
	}
	return n, err
}

func (r *idleReader) Close() error {
	r.timer.Stop()
	r.cancel()
	return r.body.Close()
}

// ErrIdle is a body that stopped coming.
var ErrIdle = errors.New("the connection is idle")
