package hubtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// Fault wraps the clean hub in one way of misbehaving.
type Fault func(http.Handler) http.Handler

// Listing edits the listing before it is sent.
func Listing(edit func(info map[string]any)) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.URL.Path, "/revision/") {
				next.ServeHTTP(w, r)
				return
			}
			honest := &recorder{header: http.Header{}, status: http.StatusOK}
			next.ServeHTTP(honest, r)
			var info map[string]any
			if honest.status != http.StatusOK || json.Unmarshal(honest.body.Bytes(), &info) != nil {
				w.WriteHeader(honest.status)
				return
			}
			edit(info)
			answer(w, info)
		})
	}
}

// Sibling edits one file's entry of the listing.
func Sibling(path string, edit func(entry map[string]any)) Fault {
	return Listing(func(info map[string]any) {
		for _, s := range info["siblings"].([]any) {
			if e := s.(map[string]any); e["rfilename"] == path {
				edit(e)
			}
		}
	})
}

// Raw sends text in place of the listing.
func Raw(text string) Fault {
	return onPath("/revision/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		_, _ = w.Write([]byte(text))
	})
}

// Bytes changes the bytes of one file, range by range as they are asked for.
// The change gets the whole file and the number of the request, from 1.
func Bytes(path string, data []byte, change func(data []byte, request int) []byte) Fault {
	var n atomic.Int64
	return onPath("/resolve/", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasSuffix(r.URL.Path, "/"+path) {
			next.ServeHTTP(w, r)
			return
		}
		serve(w, r, change(bytes.Clone(data), int(n.Add(1))))
	})
}

// IgnoreRange answers every request with 200 and the whole file.
func IgnoreRange() Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			next.ServeHTTP(w, r)
		})
	}
}

// ContentRange answers range requests with another Content-Range.
func ContentRange(edit func(honest string) string) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" {
				next.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(&headerWriter{ResponseWriter: w, edit: func(h http.Header) {
				if v := h.Get("Content-Range"); v != "" {
					h.Set("Content-Range", edit(v))
				}
			}}, r)
		})
	}
}

// Header sets a header on every answer to a request for a file.
func Header(name, value string) Fault {
	return onPath("/resolve/", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&headerWriter{ResponseWriter: w, edit: func(h http.Header) { h.Set(name, value) }}, r)
	})
}

// Status answers the first n requests whose path holds part with a status, and
// with a Retry-After header of that many seconds where it is not negative.
func Status(part string, n, status, retryAfter int) Fault {
	var seen atomic.Int64
	return onPath(part, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if seen.Add(1) > int64(n) {
			next.ServeHTTP(w, r)
			return
		}
		if retryAfter >= 0 {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		}
		fail(w, status, fmt.Sprintf("fault %d", status))
	})
}

// Cut breaks the connection of the first n file bodies after limit bytes.
func Cut(path string, n int, limit int) Fault {
	var seen atomic.Int64
	return onPath("/resolve/", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasSuffix(r.URL.Path, "/"+path) || seen.Add(1) > int64(n) {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(&cutWriter{ResponseWriter: w, left: limit}, r)
	})
}

// Redirect sends every request for a file to another address.
func Redirect(to string) Fault {
	return onPath("/resolve/", func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	})
}

// Watch shows every request before it is answered.
func Watch(see func(*http.Request)) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			see(r)
			next.ServeHTTP(w, r)
		})
	}
}

func onPath(part string, do func(http.ResponseWriter, *http.Request, http.Handler)) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, part) {
				do(w, r, next)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// recorder keeps an answer so that it can be edited.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

type headerWriter struct {
	http.ResponseWriter
	edit func(http.Header)
}

func (w *headerWriter) WriteHeader(status int) {
	w.edit(w.Header())
	w.ResponseWriter.WriteHeader(status)
}

type cutWriter struct {
	http.ResponseWriter
	left int
}

func (w *cutWriter) Write(p []byte) (int, error) {
	if len(p) >= w.left {
		_, _ = w.ResponseWriter.Write(p[:w.left])
		if f, ok := w.ResponseWriter.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	w.left -= len(p)
	return w.ResponseWriter.Write(p)
}
