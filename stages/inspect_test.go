package stages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
)

func TestInspectPassesARealSnapshotAndFailsAStrayShard(t *testing.T) {
	snapshot := sharedSnapshot(t, "llama-grouped")
	out, err := runStage(t, Inspect{}, `{}`, map[string]Artifact{"snapshot": snapshot})
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Passed || len(out.Reports) != 1 || out.Output != nil {
		t.Errorf("got %s (%s), want passed with one report and no output", out.Verdict, out.Failure)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(shared.Path(t, "data", "llama-grouped", "hf"))); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(filepath.Join(dir, "model-00001-of-00002.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model-old.safetensors"), body, 0o444); err != nil {
		t.Fatal(err)
	}
	stray, err := FolderArtifact(t.Context(), "hf", dir)
	if err != nil {
		t.Fatal(err)
	}
	out, err = runStage(t, Inspect{}, `{}`, map[string]Artifact{"snapshot": stray})
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Failed || !strings.Contains(out.Failure, "model-old.safetensors") {
		t.Errorf("got %s (%s), want failed with the stray shard's name", out.Verdict, out.Failure)
	}
}
