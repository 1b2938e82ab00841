package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// Sleeper waits, or returns the context's error as soon as it is done.
type Sleeper func(ctx context.Context, d time.Duration) error

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// CallError is one request that failed. Its text holds the status and Azure's
// code, never the answer's body or the request's URL: both hold account identifiers.
type CallError struct {
	What   string        // e.g. read the machine
	Status int           // HTTP; 0 when there was no answer
	Code   string        // Azure's, e.g. AuthorizationFailed
	After  time.Duration // Retry-After; 0 when there was none
	why    string        // when there was no answer
}

func (e *CallError) Error() string {
	switch {
	case e.Status == 0:
		return fmt.Sprintf("%s: %s", e.What, e.why)
	case e.Code == "":
		return fmt.Sprintf("%s: Azure answered %d %s", e.What, e.Status, http.StatusText(e.Status))
	}
	s := fmt.Sprintf("%s: Azure answered %d %s", e.What, e.Status, shorten(e.Code))
	switch e.Status {
	case http.StatusForbidden:
		s += "; who is signed in may not do this: ask for the role, or sign in as somebody who has it"
	case http.StatusNotFound:
		s += "; there is no such machine, or it is gone: a machine that is not there is not shown to be deallocated"
	}
	return s
}

// again tells whether the same request may succeed later.
func (e *CallError) again() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case 0:
		return e.why == noAnswer
	}
	return false
}

const (
	noAnswer  = "there was no answer; whether it arrived is not known"
	noSignIn  = "nobody is signed in who can ask; sign in (az login) on this machine"
	badAnswer = "the answer could not be read"
)

// callError turns an error of the SDK into one that may be recorded.
func callError(what string, err error) *CallError {
	e := &CallError{What: what, why: noAnswer}
	var resp *azcore.ResponseError
	var unsent *signInError
	var unanswered *transportError
	switch {
	case errors.As(err, &unsent):
		e.why = noSignIn
	case errors.As(err, &resp):
		e.Status, e.Code = resp.StatusCode, resp.ErrorCode
		if resp.RawResponse != nil {
			e.After = retryAfter(resp.RawResponse)
		}
	case errors.As(err, &unanswered), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		e.why = badAnswer
	}
	return e
}

// retryAfter reads Retry-After in seconds (RFC 9110 §10.2.3). A date is left
// alone: it needs two clocks to agree.
func retryAfter(r *http.Response) time.Duration {
	n, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil || n <= 0 {
		return 0
	}
	return time.Duration(min(n, 24*3600)) * time.Second
}
