package stages

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/schemas"
)

// realBuild is a build of llama.cpp as an artifact: WEIGHMASTER_LLAMACPP_BUILD names
// the folder that its bin/ is in, which the test of the real tools in cmd/weighmaster leaves there.
func realBuild(t *testing.T) Artifact {
	t.Helper()
	if underRace {
		t.Skip("the tools run in the interop suite, which is not instrumented")
	}
	from := os.Getenv("WEIGHMASTER_LLAMACPP_BUILD")
	if from == "" {
		shared.Missing(t, "WEIGHMASTER_LLAMACPP_BUILD names no build of llama.cpp")
	}
	dir := filepath.Join(t.TempDir(), "runtime")
	entries, err := os.ReadDir(filepath.Join(from, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		if name != "llama-imatrix" && name != "llama-tokenize" && !strings.Contains(name, ".so") {
			continue
		}
		body, err := os.ReadFile(filepath.Join(from, "bin", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "bin", name), body, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a, err := FolderArtifact(t.Context(), "runtime", dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestCalibrateWithTheRealTool: the example model, llama-imatrix and a text with special tokens written out.
func TestCalibrateWithTheRealTool(t *testing.T) {
	runtime := realBuild(t)
	c := newCalibrator(t)
	for _, x := range []struct {
		name    string
		with    map[string]any
		verdict schemas.Verdict
		says    string
	}{
		{"a part of the text", map[string]any{"chunks": 4, "threads": 1}, schemas.Passed, ""},
		{"all of the text", map[string]any{"chunks": nil, "chunkSize": 64, "arguments": []string{"--no-ppl"}}, schemas.Passed, ""},
		{"as a producer calls it", map[string]any{"chunks": 12, "chunkSize": 64, "batch": 32, "arguments": strings.Fields("-ngl 99 -ub 32 -fa on -ctk bf16 -ctv bf16 --no-ppl --output-frequency 10")}, schemas.Passed, ""},
		{"special tokens read", map[string]any{"arguments": []string{"--parse-special"}}, schemas.Passed, ""},
		{"two chunks at once", map[string]any{"batch": 64}, schemas.Passed, ""},
		{"a saving every chunk", map[string]any{"arguments": []string{"--output-frequency", "1"}}, schemas.Passed, ""},
		{"a GPU wanted", map[string]any{"device": "CUDA0"}, schemas.Failed, "weights on another device"},
		{"more than the text has", map[string]any{"chunks": 10000}, schemas.Failed, "corpus too short"},
		{"hardly any text", map[string]any{"chunkSize": 4096}, schemas.Failed, "exit status 1"},
	} {
		with := map[string]any{}
		for k, v := range c.with {
			with[k] = v
		}
		for k, v := range x.with {
			if with[k] = v; v == nil {
				delete(with, k)
			}
		}
		body, err := json.Marshal(with)
		if err != nil {
			t.Fatal(err)
		}
		run := &Run{Stage: "imatrix", With: body, Inputs: map[string]Artifact{"model": c.model, "runtime": runtime}, Dir: t.TempDir(), Project: c.project, Objects: c.store, Progress: func(string, int64, int64) {}}
		out, err := Calibrate{}.Run(t.Context(), run)
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		if out.Verdict != x.verdict || !strings.Contains(kernels.Lines(findingsOf(out))+out.Failure, x.says) {
			t.Errorf("%s: got %s (%s) %s, want %s that says %q", x.name, out.Verdict, out.Failure, kernels.Lines(findingsOf(out)), x.verdict, x.says)
		}
		t.Logf("%s: %v", x.name, out.Facts)
	}
}
