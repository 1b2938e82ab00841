package witness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/memory"
	"github.com/weighmaster/weighmaster/ledger/storetest"
	"github.com/weighmaster/weighmaster/ledger/witness"
	"github.com/weighmaster/weighmaster/ledger/witness/witnesstest"
)

var (
	moment = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	key    = witnesstest.NewKey("witness.example/w1", 1)
)

func clock() time.Time { return moment }

// newLog makes a log of n entries.
func newLog(t testing.TB, n int) (*ledger.Log, note.Verifier) {
	t.Helper()
	signer, verifier := storetest.Keys(t, storetest.Origin, 1)
	log, err := ledger.Create(t.Context(), memory.NewStore(), ledger.Options{
		Origin: storetest.Origin, Signer: signer, Verifier: verifier,
		Checkpoints: memory.NewCheckpoints(), Index: storetest.Index, Now: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	grow(t, log, 0, n)
	return log, verifier
}

func grow(t testing.TB, log *ledger.Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if _, err := log.Append(t.Context(), storetest.Bundle(fmt.Sprint(i), []string{fmt.Sprint(i)}, nil)); err != nil {
			t.Fatal(err)
		}
	}
}

func newest(t testing.TB, log *ledger.Log) []byte {
	t.Helper()
	checkpoint, err := log.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return checkpoint
}

func prover(log *ledger.Log, checkpoint []byte) witness.Prover {
	return func(ctx context.Context, old int64) (tlog.TreeProof, error) {
		return log.Consistency(ctx, old, checkpoint)
	}
}

func at(t testing.TB, url string, k witnesstest.Key) witness.Witness {
	t.Helper()
	pub, err := ledger.ParseWitnessKey(k.String())
	if err != nil {
		t.Fatal(err)
	}
	return witness.Witness{URL: url, Key: pub}
}

func TestCosign(t *testing.T) {
	log, verifier := newLog(t, 0)
	server := &witnesstest.Server{Key: key, Log: verifier, Now: clock}
	web := httptest.NewServer(server)
	defer web.Close()
	w := at(t, web.URL+"/prefix/", key)
	client := &witness.Client{Now: clock}
	size := 0
	for i, c := range []struct{ size, requests int }{{0, 1}, {1, 1}, {7, 2}, {8, 2}, {8, 2}, {300, 2}} {
		grow(t, log, size, c.size)
		size = c.size
		checkpoint := newest(t, log)
		before := server.Asked()
		cosigned, cosignature, err := client.Cosign(t.Context(), w, verifier, checkpoint, prover(log, checkpoint))
		if err != nil {
			t.Fatalf("size %d: %v", c.size, err)
		}
		if want := (ledger.Cosignature{Name: key.Name, Time: moment}); cosignature != want {
			t.Errorf("%v, want %v", cosignature, want)
		}
		if got := server.Asked() - before; got != c.requests {
			t.Errorf("%d: size %d took %d requests, want %d", i, c.size, got, c.requests)
		}
		merged, err := log.AddCosignatures(t.Context(), cosigned, []note.Verifier{w.Key})
		if err != nil {
			t.Fatal(err)
		}
		if list, err := ledger.Cosignatures(merged, verifier, []note.Verifier{w.Key}); err != nil || len(list) != 1 {
			t.Errorf("%v, %v, want one", list, err)
		}
	}
}

// hostile answers add-checkpoint in one way.
func hostile(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server.URL
}

// noteText reads the text of the checkpoint in a request.
func noteText(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	_, msg, _ := bytes.Cut(body, []byte("\n\n"))
	return string(msg[:bytes.LastIndex(msg, []byte("\n\n"))+1])
}

func says(status int, mediaType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// TestHostileWitness: whatever a witness answers, nothing but its own fresh
// signature over this checkpoint is a cosignature.
func TestHostileWitness(t *testing.T) {
	log, verifier := newLog(t, 5)
	checkpoint := newest(t, log)
	smaller, _ := newLog(t, 4)
	elsewhere, _, _ := strings.Cut(string(newest(t, smaller)), "\n\n")
	stranger := witnesstest.NewKey("witness.example/w1", 9)
	signs := func(line func(text string) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, line(noteText(r))) }
	}
	now := uint64(moment.Unix())
	followed := 0
	target := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		followed++
		_, _ = io.WriteString(w, key.Line(noteText(r), now))
	})
	requests := 0
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		status int
		want   string
	}{
		{"signed by another key", signs(func(text string) string { return stranger.Line(text, now) }), 200, "no signature by witness.example/w1"},
		{"signed by another witness", signs(func(text string) string { return witnesstest.NewKey("witness.example/w2", 2).Line(text, now) }), 200, "no signature by witness.example/w1"},
		{"over other text", signs(func(string) string { return key.Line("something else\n", now) }), 200, "does not verify"},
		{"over a checkpoint of another size", signs(func(string) string { return key.Line(elsewhere+"\n", now) }), 200, "does not verify"},
		{"a stale time", signs(func(text string) string { return key.Line(text, now-3600) }), 200, "2026-05-06T06:08:09Z and here it is 2026-05-06T07:08:09Z"},
		{"a time to come", signs(func(text string) string { return key.Line(text, now+3600) }), 200, "2026-05-06T08:08:09Z and here it is 2026-05-06T07:08:09Z"},
		{"no time", signs(func(text string) string { return key.Line(text, 0) }), 200, "time 0"},
		{"a time beyond all bounds", signs(func(text string) string { return key.Line(text, 1<<63+1) }), 200, "does not verify"},
		{"nothing", says(200, "text/plain", ""), 200, "no signature by"},
		{"prose", says(200, "text/plain", "signed, honestly\n"), 200, "want signature lines only"},
		{"an unfinished line", signs(func(text string) string { return strings.TrimSuffix(key.Line(text, now), "\n") }), 200, "want signature lines only"},
		{"another note", signs(func(text string) string { return "\n" + text + "\n" + key.Line(text, now) }), 200, "want signature lines only"},
		{"a huge answer", says(200, "text/plain", strings.Repeat("— x y\n", 1<<16)), 200, "longer than 65536 bytes"},
		{"hundreds of signatures", says(200, "text/plain", strings.Repeat("— x.example AAAAAAAA\n", 200)), 200, "does not verify"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target+"/add-checkpoint", http.StatusTemporaryRedirect)
		}, 307, "where nobody is asked"},
		{"409 for ever", func(w http.ResponseWriter, _ *http.Request) {
			requests++
			says(409, "text/x.tlog.size", fmt.Sprintf("%d\n", 1+requests%3))(w, nil)
		}, 409, "ask again"},
		{"409 with the size it was asked with", says(409, "text/x.tlog.size", "0\n"), 409, "says that it is the one"},
		{"409 without the media type", says(409, "text/plain", "3\n"), 409, "want text/x.tlog.size"},
		{"409 with a leading zero", says(409, "text/x.tlog.size", "03\n"), 409, "want a decimal number"},
		{"409 with a negative size", says(409, "text/x.tlog.size", "-3\n"), 409, "want a decimal number"},
		{"409 with a size beyond all bounds", says(409, "text/x.tlog.size", "9223372036854775807\n"), 409, "want a decimal number"},
		{"409 with no newline", says(409, "text/x.tlog.size", "3"), 409, "want a decimal number"},
		{"409 ahead of the log", says(409, "text/x.tlog.size", "6\n"), 409, "set back or another one signs with its key"},
		{"400", says(400, "text/plain", "what?"), 400, "cannot read the request"},
		{"403", says(403, "text/plain", "no"), 403, "does not trust the key"},
		{"404", says(404, "text/plain", "no"), 404, "does not know the log log.example/test"},
		{"422", says(422, "text/plain", "no"), 422, "does not extend"},
		{"500", says(500, "text/plain", "\x1b[2Jno"), 500, `it says "\x1b[2Jno"`},
		{"204", says(204, "text/plain", ""), 204, "no cosignature"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := &witness.Client{Now: clock}
			cosigned, got, err := client.Cosign(t.Context(), at(t, hostile(t, c.answer), key), verifier, checkpoint, prover(log, checkpoint))
			var failed *witness.Error
			if !errors.As(err, &failed) || failed.Status != c.status || !strings.Contains(err.Error(), c.want) || cosigned != nil || got.Name != "" {
				t.Errorf("%q, %v, %v; want status %d and %q", cosigned, got, err, c.status, c.want)
			}
			if failed != nil && failed.Checkpoint != nil {
				t.Errorf("it believes the checkpoint %q", failed.Checkpoint)
			}
		})
	}
	if followed != 0 {
		t.Error("the redirect was followed")
	}
	if requests != 2 {
		t.Errorf("409 for ever was asked %d times, want 2", requests)
	}
}

// TestEndlessWitness: an answer that never ends costs the time-out and no more.
func TestEndlessWitness(t *testing.T) {
	log, verifier := newLog(t, 5)
	checkpoint := newest(t, log)
	silent := hostile(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server see that the client went away
		<-r.Context().Done()
	})
	dripping := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "—")
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	})
	for name, url := range map[string]string{"silent": silent, "dripping": dripping} {
		client := &witness.Client{Now: clock, Timeout: 200 * time.Millisecond}
		_, _, err := client.Cosign(t.Context(), at(t, url, key), verifier, checkpoint, prover(log, checkpoint))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the time-out", name, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	log, verifier := newLog(t, 1)
	checkpoint := newest(t, log)
	for _, url := range []string{"", "witness.example", "file:///etc/passwd", "ftp://witness.example", "https://user:word@witness.example/", "https://witness.example/?a=b", "https://witness.example/#a", "https:///nohost"} {
		_, _, err := (&witness.Client{}).Cosign(t.Context(), at(t, url, key), verifier, checkpoint, prover(log, checkpoint))
		if err == nil || !strings.Contains(err.Error(), "want an http or https URL") {
			t.Errorf("%q: %v", url, err)
		}
	}
	// Nothing that the log did not sign is sent anywhere.
	asked := false
	url := hostile(t, func(http.ResponseWriter, *http.Request) { asked = true })
	forged := bytes.Replace(checkpoint, []byte("\n1\n"), []byte("\n2\n"), 1)
	if _, _, err := (&witness.Client{}).Cosign(t.Context(), at(t, url, key), verifier, forged, prover(log, checkpoint)); err == nil || asked {
		t.Errorf("%v, asked: %v; want a forged checkpoint refused before asking", err, asked)
	}
}

// TestWitnessShowsTheFork: a log that shows one history to a witness and another
// one to us is caught with both signed checkpoints.
func TestWitnessShowsTheFork(t *testing.T) {
	log, verifier := newLog(t, 5)
	checkpoint := newest(t, log)
	server := &witnesstest.Server{Key: key, Log: verifier, Now: clock}
	web := httptest.NewServer(server)
	defer web.Close()
	client := &witness.Client{Now: clock}

	for _, c := range []struct {
		name   string
		grow   int
		status int
	}{{"same size", 5, 422}, {"larger", 9, 409}} {
		fork, _ := newLog(t, 0)
		for i := range c.grow { // other bundles under the same key
			if _, err := fork.Append(t.Context(), storetest.Bundle(fmt.Sprint("fork", i), []string{"x"}, nil)); err != nil {
				t.Fatal(err)
			}
		}
		server.Forget()
		forked := newest(t, fork)
		if _, _, err := client.Cosign(t.Context(), at(t, web.URL, key), verifier, forked, prover(fork, forked)); err != nil {
			t.Fatal(err)
		}
		_, _, err := client.Cosign(t.Context(), at(t, web.URL, key), verifier, checkpoint, prover(log, checkpoint))
		var failed *witness.Error
		if !errors.As(err, &failed) || failed.Status != c.status || failed.Checkpoint == nil {
			t.Fatalf("%s: %v, want status %d and the witness's checkpoint", c.name, err, c.status)
		}
		var lied *ledger.Contradiction
		if _, err := log.Extends(t.Context(), failed.Checkpoint); !errors.As(err, &lied) || !bytes.Equal(lied.Signed, failed.Checkpoint) {
			t.Errorf("%s: %v, want a contradiction that carries the witness's checkpoint", c.name, err)
		}
	}
}
