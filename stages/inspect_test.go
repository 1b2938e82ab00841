package stages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
)

// TestInspectHoldsEveryArchitectureAgainstItsConfig: wider layers in the config than in the shards.
func TestInspectHoldsEveryArchitectureAgainstItsConfig(t *testing.T) {
	folders, err := filepath.Glob("../fixtures/architectures/*/hf")
	if err != nil || len(folders) < 14 {
		t.Fatalf("got %d folders, %v", len(folders), err)
	}
	sizes := regexp.MustCompile(`("intermediate_size"|"moe_intermediate_size"): (\d+)`)
	for _, folder := range append(folders, "../fixtures/compressed/ct-fp8", "../fixtures/mlx/affine-4-64") {
		packed := !strings.Contains(folder, "architectures")
		for _, wider := range []bool{false, true} {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			config, err := os.ReadFile(filepath.Join(dir, "config.json"))
			if err != nil {
				t.Fatal(err)
			}
			if wider {
				config = sizes.ReplaceAll(config, []byte("$1: 1$2"))
			}
			if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600); err != nil {
				t.Fatal(err)
			}
			snapshot, err := FolderArtifact(t.Context(), "hf", dir)
			if err != nil {
				t.Fatal(err)
			}
			out, err := runStage(t, Inspect{}, `{}`, map[string]Artifact{"snapshot": snapshot})
			if err != nil {
				t.Fatal(err)
			}
			if packed && !wider || !packed {
				if failed := out.Verdict == schemas.Failed; failed != wider || wider && !strings.Contains(out.Failure, "config.json") && !strings.Contains(out.Failure, "mlp") {
					t.Errorf("%s, wider %v: got %s (%s)", folder, wider, out.Verdict, out.Failure)
				}
			}
		}
	}
}

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
