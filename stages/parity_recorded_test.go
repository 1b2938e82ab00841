package stages

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

// recordedServer names a running llama-server that serves the example model: its
// answers are then recorded anew, see fixtures/llamaserver/README.md.
const recordedServer = "WEIGHMASTER_LLAMA_SERVER"

// exchange is one question to llama-server and its answer.
type exchange struct {
	Path     string          `json:"path"`
	Question json.RawMessage `json:"question"`
	Answer   json.RawMessage `json:"answer"`
}

func (e exchange) key() string { return e.Path + "\n" + string(e.Question) }

var recordedAnswers = filepath.FromSlash("../fixtures/llamaserver/answers.jsonl.gz")

func readAnswers(t *testing.T) map[string]exchange {
	t.Helper()
	f, err := os.Open(recordedAnswers)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]exchange{}
	for dec := json.NewDecoder(z); ; {
		var e exchange
		if err := dec.Decode(&e); err == io.EOF {
			return answers
		} else if err != nil {
			t.Fatal(err)
		}
		answers[e.key()] = e
	}
}

// replay answers as the real server did, and nothing that it was not asked.
func replay(t *testing.T, answers map[string]exchange) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, err := io.ReadAll(r.Body)
		e, known := answers[exchange{Path: r.URL.Path, Question: question}.key()]
		if err != nil || !known {
			http.Error(w, "the recorded server was not asked this; record it anew", http.StatusNotFound)
			return
		}
		_, _ = w.Write(e.Answer) // the client sees what is missing
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// recordAnswers stands before a running server and writes down what it says.
func recordAnswers(t *testing.T, server string, snapshot Artifact) {
	t.Helper()
	answers := map[string]exchange{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		res, err := http.Post(server+r.URL.Path, jsonType, bytes.NewReader(question))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		answer, _ := io.ReadAll(res.Body)
		e := exchange{r.URL.Path, question, answer}
		answers[e.key()] = e
		w.WriteHeader(res.StatusCode)
		_, _ = w.Write(answer)
	}))
	defer s.Close()
	out, err := runParity(t, fmt.Sprintf(`{"server":%q}`, s.URL), map[string]Artifact{"snapshot": snapshot})
	if err != nil || out.Verdict != schemas.Passed {
		t.Fatalf("the running server: %v, %+v", err, out)
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	enc := json.NewEncoder(z)
	enc.SetEscapeHTML(false)
	for _, key := range sortedKeys(answers) {
		if err := enc.Encode(answers[key]); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recordedAnswers, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestParityOfTheRealServersAnswers: what llama.cpp's own server said, byte for byte.
func TestParityOfTheRealServersAnswers(t *testing.T) {
	if underRace {
		t.Skip("twenty thousand answers are compared in the interop suite, which is not instrumented")
	}
	snapshot := exampleSnapshot(t)
	if server := os.Getenv(recordedServer); server != "" {
		recordAnswers(t, server, snapshot)
	}
	answers := readAnswers(t)
	out, err := runParity(t, fmt.Sprintf(`{"server":%q}`, replay(t, answers)), map[string]Artifact{"snapshot": snapshot})
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Passed || out.Facts["sides"] != "publisher, server" || out.Facts["mismatches"] != "0" {
		t.Fatalf("got %s (%s) with %v, want passed", out.Verdict, out.Failure, out.Facts)
	}
	t.Logf("%d answers, %v", len(answers), out.Facts)

	keys := sortedKeys(answers)
	i := slices.IndexFunc(keys, func(key string) bool {
		return answers[key].Path == tokenizePath && strings.Contains(key, `"add_special":false`) && strings.Count(string(answers[key].Answer), `"id"`) > 5
	})
	if i < 0 {
		t.Fatal("no answer of many tokens; nothing is shown")
	}
	e := answers[keys[i]]
	var said struct {
		Tokens []map[string]any `json:"tokens"`
	}
	if err := json.Unmarshal(e.Answer, &said); err != nil {
		t.Fatal(err)
	}
	said.Tokens = said.Tokens[1:]
	if e.Answer, err = json.Marshal(said); err != nil {
		t.Fatal(err)
	}
	answers[keys[i]] = e
	out, err = runParity(t, fmt.Sprintf(`{"server":%q}`, replay(t, answers)), map[string]Artifact{"snapshot": snapshot})
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Failed || out.Facts["mismatches"] == "0" || !strings.Contains(out.Failure, "ids: case") {
		t.Errorf("one token less in one answer: got %s (%s), want failed with that case", out.Verdict, out.Failure)
	}
}
