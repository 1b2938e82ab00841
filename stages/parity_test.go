package stages

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/token"
	"github.com/weighmaster/weighmaster/schemas"
)

func exampleSnapshot(t *testing.T) Artifact {
	t.Helper()
	dir, err := filepath.Abs(filepath.FromSlash("../fixtures/model/snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := FolderArtifact(t.Context(), "source", dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// vocabularyFile is a GGUF with the example model's vocabulary alone, after a change to its keys.
func vocabularyFile(t *testing.T, change func(kvs []gguf.KV)) Artifact {
	t.Helper()
	f, model, err := exampleGGUF(t).openGGUF("model")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	kvs := append([]gguf.KV{}, model.KVs...)
	if change != nil {
		change(kvs)
	}
	path := filepath.Join(t.TempDir(), "vocabulary.gguf")
	w, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := gguf.Write(w, kvs, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := readFile(t.Context(), "vocabulary.gguf", path)
	if err != nil {
		t.Fatal(err)
	}
	return FileArtifact(file)
}

func runParity(t *testing.T, with string, inputs map[string]Artifact) (*Outcome, error) {
	t.Helper()
	if err := schemas.StageParameters("parity", json.RawMessage(with)); err != nil {
		t.Fatal(err)
	}
	return Parity{}.Run(t.Context(), &Run{Stage: "compared", With: json.RawMessage(with), Inputs: inputs, Dir: t.TempDir(), Objects: &mapObjects{}, Progress: func(string, int64, int64) {}})
}

func TestParityOfPublisherAndVocabulary(t *testing.T) {
	out, err := runParity(t, `{"seed": 5}`, map[string]Artifact{"snapshot": exampleSnapshot(t), "model": vocabularyFile(t, nil)})
	if err != nil {
		t.Fatal(err)
	}
	cases, _ := strconv.Atoi(out.Facts["cases"])
	if out.Verdict != schemas.Passed || cases < 330 || out.Facts["comparisons"] != fmt.Sprint(6*cases) || out.Facts["mismatches"] != "0" || out.Facts["sides"] != "publisher, vocabulary" {
		t.Errorf("got %s (%s) with %v, want passed over 330 cases and six comparisons each", out.Verdict, out.Failure, out.Facts)
	}
	if len(out.Evidence) != 1 || out.Evidence[0].Name != "record/cases" || len(out.Reports) != 1 || out.Reports[0].Kernel != token.Name {
		t.Errorf("got evidence %v and %d reports, want the cases and one report", out.Evidence, len(out.Reports))
	}
}

// TestParityFailsWithTheFirstDifference: a vocabulary that a conversion spoiled, the case and both lists shown.
func TestParityFailsWithTheFirstDifference(t *testing.T) {
	snapshot := exampleSnapshot(t)
	for name, c := range map[string]struct {
		key    string
		change func(gguf.Value) gguf.Value
		says   []string
	}{
		"BOS not added":             {"add_bos_token", func(gguf.Value) gguf.Value { return gguf.Bool(false) }, []string{"special tokens added: true, position 0", "all of it: got [", "want [1"}},
		"a space before every text": {"add_space_prefix", func(gguf.Value) gguf.Value { return gguf.Bool(true) }, []string{`position 0: got`, `("▁`}},
		"a special token that is a normal one": {"token_type", func(v gguf.Value) gguf.Value {
			types := make([]int32, v.Len)
			for i, n := range v.Ints() {
				types[i] = int32(n)
			}
			types[619] = token.TypeNormal
			return gguf.Int32s(types)
		}, []string{"ids: case"}},
	} {
		model := vocabularyFile(t, func(kvs []gguf.KV) {
			for i, kv := range kvs {
				if kv.Key == "tokenizer.ggml."+c.key {
					kvs[i].Value = c.change(kv.Value)
				}
			}
		})
		out, err := runParity(t, `{}`, map[string]Artifact{"snapshot": snapshot, "model": model})
		if err != nil {
			t.Fatal(err)
		}
		if out.Verdict != schemas.Failed || out.Facts["mismatches"] == "0" {
			t.Errorf("%s: got %s with %v, want failed", name, out.Verdict, out.Facts)
		}
		for _, says := range c.says {
			if !strings.Contains(out.Failure, says) {
				t.Errorf("%s: got %q, want %q", name, out.Failure, says)
			}
		}
	}
}

func TestParityWantsTwoSides(t *testing.T) {
	snapshot := exampleSnapshot(t)
	for name, c := range map[string]struct {
		with   string
		inputs map[string]Artifact
		says   string
	}{
		"one side":                {`{}`, map[string]Artifact{"snapshot": snapshot}, "got 1 tokenizers"},
		"no side":                 {`{}`, nil, "got no tokenizer that is read here"},
		"a server alone":          {`{"server":"http://127.0.0.1:1"}`, nil, "got no tokenizer that is read here"},
		"a tool without a build":  {`{"tool":"bin/llama-tokenize"}`, map[string]Artifact{"snapshot": snapshot, "model": vocabularyFile(t, nil)}, "input runtime: got none"},
		"a server that is absent": {`{"server":"http://127.0.0.1:1"}`, map[string]Artifact{"snapshot": snapshot}, "server: "},
		"a vocabulary of a kind not read here, and nothing else that reads it": {`{}`, map[string]Artifact{"snapshot": snapshot, "model": vocabularyFile(t, func(kvs []gguf.KV) {
			for i, kv := range kvs {
				if kv.Key == "tokenizer.ggml.model" {
					kvs[i].Value = gguf.String("rwkv")
				}
			}
		})}, `got "rwkv"`},
	} {
		if _, err := runParity(t, c.with, c.inputs); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
	if _, err := (Parity{}).Resolve(t.Context(), &Run{With: json.RawMessage(`{"server":"http://127.0.0.1:1"}`)}); err == nil {
		t.Error("a server's answers are taken for those of later")
	}
}

// llamaServer answers as llama.cpp's server does, with the example's vocabulary, after a change to what it would say.
func llamaServer(t *testing.T, change func(w http.ResponseWriter, path string, answer map[string]any) bool) string {
	t.Helper()
	f, model, err := exampleGGUF(t).openGGUF("model")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	vocabulary, err := token.FromGGUF(model)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Content      string   `json:"content"`
			AddSpecial   bool     `json:"add_special"`
			ParseSpecial bool     `json:"parse_special"`
			Tokens       []uint32 `json:"tokens"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answer := map[string]any{}
		if r.URL.Path == tokenizePath {
			ids := vocabulary.Encode(q.Content, q.AddSpecial)
			if !q.ParseSpecial {
				ids = vocabulary.Plain(q.Content, q.AddSpecial)
			}
			tokens := []map[string]any{}
			for _, id := range ids {
				bytes, _ := vocabulary.Piece(id)
				var shown any = string(bytes)
				if !utf8.Valid(bytes) {
					var list []int
					for _, b := range bytes {
						list = append(list, int(b))
					}
					shown = list
				}
				tokens = append(tokens, map[string]any{"id": id, "piece": shown})
			}
			answer["tokens"] = tokens
		} else {
			text := []byte{}
			for _, id := range q.Tokens {
				bytes, _ := vocabulary.Piece(id)
				text = append(text, bytes...)
			}
			answer["content"] = string(text)
		}
		if change != nil && change(w, r.URL.Path, answer) {
			return
		}
		_ = json.NewEncoder(w).Encode(answer) // the client sees what is missing
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestParityOfAServer(t *testing.T) {
	snapshot := exampleSnapshot(t)
	asked := 0
	for _, c := range []struct {
		name   string
		change func(w http.ResponseWriter, path string, answer map[string]any) bool
		fails  string // in the outcome
		errs   string // in the error
	}{
		{"an honest one", nil, "", ""},
		{"an id less", func(_ http.ResponseWriter, path string, answer map[string]any) bool {
			if tokens, ok := answer["tokens"].([]map[string]any); ok && len(tokens) > 5 {
				answer["tokens"] = tokens[1:]
			}
			return false
		}, "ids: case", ""},
		{"a space less", func(_ http.ResponseWriter, _ string, answer map[string]any) bool {
			if text, ok := answer["content"].(string); ok {
				answer["content"] = strings.Replace(text, " ", "", 1)
			}
			return false
		}, "text: case", ""},
		{"a refusal", func(w http.ResponseWriter, _ string, _ map[string]any) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "Loading model")
			return true
		}, "", "got status 503, want 200: Loading model"},
		{"no pieces", func(_ http.ResponseWriter, _ string, answer map[string]any) bool {
			if tokens, ok := answer["tokens"].([]map[string]any); ok && len(tokens) > 0 {
				delete(tokens[0], "piece")
			}
			return false
		}, "", "it is too old a server"},
		{"no list", func(w http.ResponseWriter, _ string, _ map[string]any) bool { fmt.Fprint(w, "{}"); return true }, "", "got no list of tokens"},
		{"no JSON", func(w http.ResponseWriter, _ string, _ map[string]any) bool { fmt.Fprint(w, "<html>"); return true }, "", "invalid character"},
		{"an endless answer", func(w http.ResponseWriter, _ string, _ map[string]any) bool {
			fmt.Fprint(w, strings.Repeat(" ", maxServerAnswer+1))
			return true
		}, "", "got more than 16777216 bytes"},
		{"a redirect", func(w http.ResponseWriter, _ string, _ map[string]any) bool {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}, "", "it redirects"},
		{"a piece that changes", func(_ http.ResponseWriter, _ string, answer map[string]any) bool {
			if tokens, ok := answer["tokens"].([]map[string]any); ok && len(tokens) > 0 {
				asked++
				tokens[len(tokens)-1]["piece"] = fmt.Sprint(asked)
			}
			return false
		}, "", "for the id"},
	} {
		out, err := runParity(t, fmt.Sprintf(`{"server":%q}`, llamaServer(t, c.change)), map[string]Artifact{"snapshot": snapshot})
		switch {
		case c.errs != "":
			if err == nil || !strings.Contains(err.Error(), c.errs) {
				t.Errorf("%s: got %v, want an error that says %q", c.name, err, c.errs)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.fails == "":
			if out.Verdict != schemas.Passed || out.Facts["sides"] != "publisher, server" || out.Facts["mismatches"] != "0" || out.Facts["server"] != "not bound to a digest" {
				t.Errorf("%s: got %s (%s) with %v, want passed", c.name, out.Verdict, out.Failure, out.Facts)
			}
		case out.Verdict != schemas.Failed || !strings.Contains(out.Failure, c.fails):
			t.Errorf("%s: got %s (%s), want failed that says %q", c.name, out.Verdict, out.Failure, c.fails)
		}
	}
}

// TestParityWithTheRealTool: llama.cpp's own llama-tokenize, of a build, in the box.
func TestParityWithTheRealTool(t *testing.T) {
	runtime := realBuild(t)
	snapshot := exampleSnapshot(t)
	out, err := runParity(t, `{}`, map[string]Artifact{"snapshot": snapshot, "model": vocabularyFile(t, nil), "runtime": runtime})
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Passed || len(out.Reports) != 2 || out.Facts["sides"] != "publisher, vocabulary, tool" || out.Facts["mismatches"] != "0" {
		t.Errorf("got %s (%s) with %v, want passed", out.Verdict, out.Failure, out.Facts)
	}
	t.Log(out.Facts)
	spoiled := vocabularyFile(t, func(kvs []gguf.KV) {
		for i, kv := range kvs {
			if kv.Key == "tokenizer.ggml.scores" {
				scores := append([]float32{}, kv.Value.Float32s()...)
				scores[270], scores[271] = -9000, -9000
				kvs[i].Value = gguf.Float32s(scores)
			}
		}
	})
	out, err = runParity(t, `{}`, map[string]Artifact{"snapshot": snapshot, "model": spoiled, "runtime": runtime})
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Failed || len(out.Reports) != 2 || out.Reports[1].Verdict != kernels.Failed || !strings.Contains(out.Failure, "ids: case") {
		t.Errorf("two scores changed: got %s (%s), want both readings to differ from the publisher's", out.Verdict, out.Failure)
	}
}

// TestATokenizerIsComparedAndLeft: a derivation that leaves keys and the parity run
// over a vocabulary alone name the same tokenizer; with one score changed they do not.
func TestATokenizerIsComparedAndLeft(t *testing.T) {
	snapshot := exampleSnapshot(t)
	derived, err := runStage(t, Derive{}, `{"tokenizer":"compared"}`, map[string]Artifact{"source": snapshot, "product": exampleGGUF(t)})
	if err != nil {
		t.Fatal(err)
	}
	if derived.Verdict != schemas.Passed {
		t.Fatalf("got %s (%s), want passed", derived.Verdict, derived.Failure)
	}
	var left string
	for _, m := range derived.Reports[0].Metrics {
		if m.Name == schemas.MetricTokenizerKeysLeft {
			left = m.Identity[schemas.FactTokenizer]
		}
	}
	changed := func(kvs []gguf.KV) {
		for i, kv := range kvs {
			if kv.Key == "tokenizer.ggml.scores" {
				scores := kv.Value.Float32s()
				scores[len(scores)-1]--
				kvs[i].Value = gguf.Float32s(scores)
			}
		}
	}
	for _, c := range []struct {
		change func([]gguf.KV)
		same   bool
	}{{nil, true}, {changed, false}} {
		out, err := runParity(t, `{}`, map[string]Artifact{"snapshot": snapshot, "model": vocabularyFile(t, c.change)})
		if err != nil {
			t.Fatal(err)
		}
		if sum := out.Facts[schemas.FactTokenizer]; left == "" || sum == "" || (sum == left) != c.same {
			t.Errorf("derivation left %q, parity compared %q, want the same: %v", left, sum, c.same)
		}
	}
	plain, err := runStage(t, Derive{}, `{}`, map[string]Artifact{"source": snapshot, "product": exampleGGUF(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range plain.Reports[0].Metrics {
		if m.Name == schemas.MetricTokenizerKeysLeft {
			t.Error("without the parameter keys are left all the same")
		}
	}
}

func TestDeriveTakesNoOtherWordAboutTheTokenizer(t *testing.T) {
	if err := schemas.StageParameters("derive", json.RawMessage(`{"tokenizer":"ignored"}`)); err == nil {
		t.Error("tokenizer: ignored was taken")
	}
}
