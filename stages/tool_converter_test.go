package stages

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
)

// TestPeersConvertAsLlamaCppDoes runs the converter of a real llama.cpp in a
// real environment, every file of which is hashed. Its BF16 file is held against
// the built-in one, and is derived from the snapshot.
func TestPeersConvertAsLlamaCppDoes(t *testing.T) {
	if underRace {
		t.Skip("hashing gigabytes of packages under the race detector shows nothing more")
	}
	python, source := os.Getenv("WEIGHMASTER_CONVERTER_PYTHON"), os.Getenv("WEIGHMASTER_LLAMACPP_SOURCE")
	if python == "" || source == "" {
		shared.Missing(t, "WEIGHMASTER_CONVERTER_PYTHON names no Python with torch, or WEIGHMASTER_LLAMACPP_SOURCE no checkout of llama.cpp")
	}
	needBox(t)
	tree := filepath.Join(t.TempDir(), "llama.cpp")
	if words, err := exec.CommandContext(t.Context(), "git", "clone", "-q", source, tree).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, words)
	}
	if err := os.RemoveAll(filepath.Join(tree, ".git")); err != nil {
		t.Fatal(err)
	}
	snapshot, converter := exampleSnapshot(t), folderOf(t, "llama.cpp", tree)
	run := newRun(t, "bf16", map[string]any{"type": "BF16", "file": "m.gguf", "name": "example", "python": python})
	run.Inputs = map[string]Artifact{"snapshot": snapshot, "converter": converter}
	out, err := Convert{}.Run(t.Context(), run)
	if err != nil || out.Verdict != schemas.Passed {
		t.Fatalf("%v %+v", err, out)
	}
	own, err := runStage(t, Convert{}, `{"type":"BF16","file":"m.gguf","name":"example"}`, map[string]Artifact{"snapshot": snapshot})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the same bytes as built in: %v", out.Output.Digest == own.Output.Digest)
	derived, err := runStage(t, Derive{}, `{}`, map[string]Artifact{"source": snapshot, "product": *out.Output})
	if err != nil || derived.Verdict != schemas.Passed {
		t.Errorf("derive: %v %s %s", err, derived.Verdict, derived.Failure)
	}

	run = newRun(t, "vocabulary", map[string]any{"type": "BF16", "file": "v.gguf", "vocabularyOnly": true, "python": python})
	run.Inputs = map[string]Artifact{"snapshot": snapshot, "converter": converter}
	if out, err = (Convert{}).Run(t.Context(), run); err != nil || out.Verdict != schemas.Passed || out.Facts["type"] != "vocabulary" {
		t.Errorf("vocabulary: %v %+v", err, out)
	}
}
