package witness_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/witness"
)

// answers is a witness that says one thing to every request.
type answers struct {
	status    int
	mediaType string
	body      []byte
	requests  int
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.requests++
	return &http.Response{
		StatusCode: a.status, Header: http.Header{"Content-Type": {a.mediaType}}, Body: io.NopCloser(bytes.NewReader(a.body)), Request: r,
	}, nil
}

// FuzzAnswer lets a witness say anything. It is asked at most three times, and
// counted only for its own signature line.
func FuzzAnswer(f *testing.F) {
	log, verifier := newLog(f, 5)
	checkpoint := newest(f, log)
	text := string(checkpoint[:bytes.LastIndex(checkpoint, []byte("\n\n"))+1])
	line := key.Line(text, uint64(moment.Unix()))
	f.Add(200, "text/plain", []byte(line))
	f.Add(200, "text/plain", []byte(line+line))
	f.Add(200, "text/plain", []byte(strings.ToUpper(line)))
	f.Add(200, "text/plain", []byte("\n"+text+"\n"+line))
	f.Add(409, "text/x.tlog.size", []byte("3\n"))
	f.Add(409, "text/x.tlog.size", []byte("99\n"))
	f.Add(409, "text/x.tlog.size", []byte("-1\n"))
	f.Add(422, "text/plain", checkpoint)
	f.Add(307, "", []byte{})
	f.Fuzz(func(t *testing.T, status int, mediaType string, body []byte) {
		a := &answers{status: status, mediaType: mediaType, body: body}
		client := &witness.Client{Transport: a, Now: clock}
		cosigned, found, err := client.Cosign(t.Context(), at(t, "https://witness.example", key), verifier, checkpoint, prover(log, checkpoint))
		if a.requests > 3 {
			t.Errorf("%d requests", a.requests)
		}
		if err != nil {
			if cosigned != nil || found.Name != "" {
				t.Errorf("%q, %v beside an error", cosigned, found)
			}
			return
		}
		if status != 200 || !bytes.Contains(body, []byte(line)) {
			t.Errorf("counted for status %d and %q", status, body)
		}
		if list, err := ledger.Cosignatures(cosigned, verifier, []note.Verifier{at(t, "https://witness.example", key).Key}); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
	})
}
