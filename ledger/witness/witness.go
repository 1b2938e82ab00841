// Package witness asks witnesses for cosignatures (C2SP tlog-witness, section
// "add-checkpoint"; C2SP tlog-cosignature).
//
// A witness says that a checkpoint extends everything that it has seen of the
// log before. It is not believed for its address but for its key; what it
// answers is read under bounds of bytes and time, and nothing that it sends
// leads anywhere else.
package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// Bounds on what a witness may answer.
const (
	MaxAnswerBytes = 64 << 10         // bytes of a body
	MaxSkew        = 10 * time.Minute // between a new cosignature's time and ours
	DefaultTimeout = 30 * time.Second // for all requests to one witness
)

// sizeType is the media type of the answer to a wrong old size.
const sizeType = "text/x.tlog.size"

// Witness is one witness: where it is asked, and whose word it must be.
type Witness struct {
	URL string // submission prefix, http or https, without query
	Key *ledger.WitnessKey
}

// Prover returns the RFC 6962 consistency proof from the first old entries to
// the checkpoint, see [ledger.Log.Consistency].
type Prover func(ctx context.Context, old int64) (tlog.TreeProof, error)

// Client asks witnesses. The zero Client is ready.
type Client struct {
	// Transport carries the requests; nil is one of our own.
	Transport http.RoundTripper
	// Now is the time to judge cosignatures by; nil is time.Now.
	Now func() time.Time
	// Timeout is for everything that one witness is asked; 0 is DefaultTimeout.
	Timeout time.Duration
}

// Error says why there is no cosignature.
type Error struct {
	Witness string // key name
	URL     string
	Status  int    // of the last answer; 0 when there was none
	Reason  string // what happened and what to do
	Err     error  // may be nil
	// Checkpoint is a checkpoint by the log itself that the witness showed
	// because it does not fit the one it was given. nil if it showed none.
	Checkpoint []byte
}

func (e *Error) Error() string {
	at := e.URL
	if e.Status != 0 {
		at = fmt.Sprintf("%s answers %d", e.URL, e.Status)
	}
	if e.Err != nil {
		return fmt.Sprintf("witness %s: %s: %s: %v", e.Witness, at, e.Reason, e.Err)
	}
	return fmt.Sprintf("witness %s: %s: %s", e.Witness, at, e.Reason)
}

func (e *Error) Unwrap() error { return e.Err }

// Cosign asks a witness to cosign a checkpoint that log signed. It returns the
// checkpoint with the log's and this witness's signature, and the verified
// cosignature. It begins with the old size 0; where the witness knows another
// size it is asked once more with the proof from there.
func (c *Client) Cosign(ctx context.Context, w Witness, log note.Verifier, checkpoint []byte, prove Prover) ([]byte, ledger.Cosignature, error) {
	a, err := c.asking(w, log, checkpoint)
	if err != nil {
		return nil, ledger.Cosignature{}, err
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	signed, err := a.add(ctx, 0, nil)
	var known *sizeError
	if errors.As(err, &known) {
		if known.size > a.checkpoint.Size {
			e := a.fail(http.StatusConflict, fmt.Sprintf("it has cosigned %d entries of this log and the checkpoint has only %d: take a newer checkpoint; if there is none, the ledger was set back or another one signs with its key", known.size, a.checkpoint.Size), nil)
			e.Checkpoint = a.shown(ctx)
			return nil, ledger.Cosignature{}, e
		}
		proof, proofErr := prove(ctx, known.size)
		if proofErr != nil {
			return nil, ledger.Cosignature{}, proofErr
		}
		signed, err = a.add(ctx, known.size, proof)
		if errors.As(err, &known) {
			err = a.fail(http.StatusConflict, fmt.Sprintf("it now says size %d after it said %d: another writer was first, or it does not keep its word; ask again", known.size, known.asked), nil)
		}
	}
	if err != nil {
		return nil, ledger.Cosignature{}, err
	}
	return a.verify(signed)
}

// asking is one conversation with one witness.
type asking struct {
	client     *Client
	http       *http.Client
	witness    Witness
	log        note.Verifier
	checkpoint ledger.Checkpoint
	note       *note.Note // text and the log's signature only
	signed     []byte     // the note's bytes
}

func (c *Client) asking(w Witness, log note.Verifier, checkpoint []byte) (*asking, error) {
	if w.Key == nil {
		return nil, errors.New("witness: no key given to verify its cosignatures with")
	}
	u, err := url.Parse(w.URL)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
		return nil, fmt.Errorf("witness %s: address %q, want an http or https URL without user, query and fragment", w.Key.Name(), w.URL)
	}
	a := &asking{client: c, witness: w, log: log}
	if a.checkpoint, err = ledger.ParseCheckpoint(checkpoint, log); err != nil {
		return nil, err
	}
	n, err := note.Open(checkpoint, note.VerifierList(log))
	if err != nil {
		return nil, fmt.Errorf("witness %s: %w", w.Key.Name(), err)
	}
	// What others signed is none of its business, and counts against its bounds.
	a.note = &note.Note{Text: n.Text, Sigs: n.Sigs}
	if a.signed, err = note.Sign(a.note); err != nil {
		return nil, fmt.Errorf("witness %s: %w", w.Key.Name(), err)
	}
	transport := c.Transport
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: MaxAnswerBytes}
	}
	a.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return a, nil
}

func (a *asking) fail(status int, reason string, err error) *Error {
	return &Error{Witness: a.witness.Key.Name(), URL: a.witness.URL, Status: status, Reason: reason, Err: err}
}

// sizeError is the 409 answer.
type sizeError struct{ asked, size int64 }

func (e *sizeError) Error() string {
	return fmt.Sprintf("asked from size %d, known is %d", e.asked, e.size)
}

// add makes one add-checkpoint request and returns the signature lines.
func (a *asking) add(ctx context.Context, old int64, proof tlog.TreeProof) ([]byte, error) {
	var body bytes.Buffer
	fmt.Fprintf(&body, "old %d\n", old)
	for _, h := range proof {
		fmt.Fprintf(&body, "%s\n", h)
	}
	body.WriteByte('\n')
	body.Write(a.signed)
	status, header, answer, err := a.do(ctx, http.MethodPost, "/add-checkpoint", &body)
	if err != nil {
		return nil, err
	}
	said := fmt.Sprintf("it says %.120q", answer)
	switch {
	case status == http.StatusOK:
		return answer, nil
	case status == http.StatusConflict:
		size, err := parseSize(header.Get("Content-Type"), answer)
		if err != nil {
			return nil, a.fail(status, "the size that it knows cannot be read", err)
		}
		if size == old {
			return nil, a.fail(status, fmt.Sprintf("it refuses size %d and says that it is the one", old), nil)
		}
		return nil, &sizeError{asked: old, size: size}
	case status == http.StatusNotFound:
		return nil, a.fail(status, fmt.Sprintf("it does not know the log %s, or the address is not its submission prefix; ask its operator to add the log; %s", a.checkpoint.Origin, said), nil)
	case status == http.StatusForbidden:
		return nil, a.fail(status, fmt.Sprintf("it does not trust the key %s+%08x for the log %s; ask its operator; %s", a.log.Name(), a.log.KeyHash(), a.checkpoint.Origin, said), nil)
	case status == http.StatusUnprocessableEntity:
		e := a.fail(status, fmt.Sprintf("the checkpoint of size %d does not extend the one of size %d that it has cosigned; %s", a.checkpoint.Size, old, said), nil)
		e.Checkpoint = a.shown(ctx)
		return nil, e
	case status == http.StatusBadRequest:
		return nil, a.fail(status, "it cannot read the request; "+said, nil)
	case status >= 300 && status < 400:
		return nil, a.fail(status, fmt.Sprintf("it sends us to %.120q, where nobody is asked; put the right address in the trust file", header.Get("Location")), nil)
	}
	return nil, a.fail(status, "no cosignature; ask again later; "+said, nil)
}

// do makes a request and reads its whole answer, under bounds.
func (a *asking) do(ctx context.Context, method, path string, body io.Reader) (int, http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.witness.URL, "/")+path, body)
	if err != nil {
		return 0, nil, nil, a.fail(0, "no request can be made", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	req.Header.Set("User-Agent", "weighmaster")
	res, err := a.http.Do(req)
	if err != nil {
		return 0, nil, nil, a.fail(0, "no answer", unwrapURL(err))
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, MaxAnswerBytes+1))
	if err != nil {
		return 0, nil, nil, a.fail(res.StatusCode, "the answer does not end", err)
	}
	if len(answer) > MaxAnswerBytes {
		return 0, nil, nil, a.fail(res.StatusCode, fmt.Sprintf("the answer is longer than %d bytes", MaxAnswerBytes), nil)
	}
	return res.StatusCode, res.Header, answer, nil
}

// unwrapURL drops the address, which the caller's message has.
func unwrapURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// parseSize reads the body of a 409: a decimal size and a newline.
func parseSize(mediaType string, body []byte) (int64, error) {
	if mediaType != sizeType {
		return 0, fmt.Errorf("content type %.60q, want %s", mediaType, sizeType)
	}
	line, found := strings.CutSuffix(string(body), "\n")
	size, err := strconv.ParseInt(line, 10, 64)
	if err != nil || !found || size < 0 || size > ledger.MaxEntries || strconv.FormatInt(size, 10) != line {
		return 0, fmt.Errorf("size %.60q, want a decimal number and a newline", body)
	}
	return size, nil
}

// verify takes this witness's signature out of the lines that it answered.
func (a *asking) verify(lines []byte) ([]byte, ledger.Cosignature, error) {
	name := a.witness.Key.Name()
	for line := range strings.Lines(string(lines)) {
		if !strings.HasPrefix(line, "— ") || !strings.HasSuffix(line, "\n") {
			return nil, ledger.Cosignature{}, a.fail(http.StatusOK, fmt.Sprintf("its answer has the line %.60q, want signature lines only", line), nil)
		}
	}
	answered := append(bytes.Clone(a.signed), lines...)
	found, err := ledger.Cosignatures(answered, a.log, []note.Verifier{a.witness.Key})
	if err != nil {
		return nil, ledger.Cosignature{}, a.fail(http.StatusOK, "its cosignature does not verify", err)
	}
	if len(found) == 0 {
		return nil, ledger.Cosignature{}, a.fail(http.StatusOK, fmt.Sprintf("its answer has no signature by %s+%08x, the key in the trust file", name, a.witness.Key.KeyHash()), nil)
	}
	now := time.Now()
	if a.client.Now != nil {
		now = a.client.Now()
	}
	if skew := now.Sub(found[0].Time); skew > MaxSkew || skew < -MaxSkew {
		return nil, ledger.Cosignature{}, a.fail(http.StatusOK, fmt.Sprintf("its cosignature has the time %s and here it is %s, want them within %s; one of the two clocks is wrong, or the cosignature is not new",
			found[0].Time.Format(time.RFC3339), now.UTC().Format(time.RFC3339), MaxSkew), nil)
	}
	n, err := note.Open(answered, note.VerifierList(a.log, a.witness.Key))
	if err != nil {
		return nil, ledger.Cosignature{}, a.fail(http.StatusOK, "its cosignature does not verify", err)
	}
	cosigned, err := note.Sign(&note.Note{Text: n.Text, Sigs: n.Sigs})
	if err != nil {
		return nil, ledger.Cosignature{}, a.fail(http.StatusOK, "its cosignature cannot be added", err)
	}
	return cosigned, found[0], nil
}
