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

// runStage runs a stage alone in an empty folder.
func runStage(t *testing.T, s Stage, with string, inputs map[string]Artifact) (*Outcome, error) {
	t.Helper()
	if err := schemas.StageParameters(s.Uses(), json.RawMessage(with)); err != nil {
		t.Fatalf("the parameters do not fit their schema: %v", err)
	}
	return s.Run(t.Context(), &Run{Stage: s.Uses(), With: json.RawMessage(with), Inputs: inputs, Dir: t.TempDir(), Progress: func(string, int64, int64) {}})
}

func sharedSnapshot(t *testing.T, folder string) Artifact {
	t.Helper()
	a, err := FolderArtifact(t.Context(), "hf", shared.Path(t, "data", folder, "hf"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestConvertQuantizeDerive runs the three stages on a small checkpoint and
// compares both files with llama.cpp's own, by their digests.
func TestConvertQuantizeDerive(t *testing.T) {
	snapshot, err := FolderArtifact(t.Context(), "hf", "../fixtures/architectures/phi3/hf")
	if err != nil {
		t.Fatal(err)
	}
	converted, err := runStage(t, Convert{}, `{"type":"BF16","file":"model-BF16.gguf","name":"Hf"}`, map[string]Artifact{"snapshot": snapshot})
	if err != nil {
		t.Fatal(err)
	}
	quantized, err := runStage(t, Quantize{}, `{"type":"Q8_0","file":"model-Q8_0.gguf"}`, map[string]Artifact{"model": *converted.Output})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		made   *Outcome
		theirs string
	}{{converted, "BF16.gguf"}, {quantized, "Q8_0.gguf"}} {
		want, err := readFile(t.Context(), c.theirs, filepath.Join("../fixtures/architectures/phi3", c.theirs))
		if err != nil {
			t.Fatal(err)
		}
		if c.made.Verdict != schemas.Passed || c.made.Output.Digest != want.Sums.SHA256 {
			t.Errorf("%s: got %s with digest %s, want passed with %s", c.theirs, c.made.Verdict, c.made.Output.Digest, want.Sums.SHA256)
		}
		for _, source := range []Artifact{snapshot, *converted.Output} {
			out, err := runStage(t, Derive{}, `{}`, map[string]Artifact{"source": source, "product": *c.made.Output})
			if err != nil {
				t.Fatal(err)
			}
			if out.Verdict != schemas.Passed || out.Output != nil || len(out.Reports) != 1 || out.Reports[0].Verdict != kernels.Passed {
				t.Errorf("derive %s from %s: got %s (%s), want passed with one report and no output", c.theirs, source.Name, out.Verdict, out.Failure)
			}
		}
	}
}

func TestDeriveFailsAndSaysWhy(t *testing.T) {
	product, err := readFile(t.Context(), "BF16.gguf", shared.Path(t, "data", "llama-grouped", "BF16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(product.Path)
	if err != nil {
		t.Fatal(err)
	}
	body[len(body)-2000] ^= 1
	tampered := filepath.Join(t.TempDir(), "BF16.gguf")
	if err := os.WriteFile(tampered, body, 0o444); err != nil {
		t.Fatal(err)
	}
	out, err := runStage(t, Derive{}, `{}`, map[string]Artifact{"source": sharedSnapshot(t, "llama-grouped"), "product": {Name: "BF16.gguf", Path: tampered}})
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Failed || !strings.Contains(out.Failure, "tensor blk.3.attn_v.weight row ") {
		t.Errorf("got %s (%s), want failed with the tensor and its row", out.Verdict, out.Failure)
	}
	// Another model's weights.
	out, err = runStage(t, Derive{}, `{}`, map[string]Artifact{"source": sharedSnapshot(t, "llama-odd"), "product": FileArtifact(product)})
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Failed || !strings.Contains(out.Failure, "shape") {
		t.Errorf("got %s (%s), want failed for the shapes", out.Verdict, out.Failure)
	}
}

func TestStagesNameAMissingOrWrongInput(t *testing.T) {
	file := Artifact{Name: "a.gguf", Path: filepath.Join(t.TempDir(), "a.gguf")}
	for _, c := range []struct {
		stage  Stage
		with   string
		inputs map[string]Artifact
		want   string
	}{
		{Convert{}, `{"type":"BF16","file":"a.gguf"}`, nil, "input snapshot: got none"},
		{Convert{}, `{"type":"BF16","file":"a.gguf"}`, map[string]Artifact{"snapshot": file}, "got the file a.gguf, want a folder"},
		{Quantize{}, `{"type":"Q8_0","file":"a.gguf"}`, map[string]Artifact{"model": {Name: "hf", Multi: true}}, "got the folder hf, want one file"},
		{Quantize{}, `{"type":"Q8_0","file":"a.gguf"}`, map[string]Artifact{"model": file}, "no such file"},
		{Derive{}, `{}`, map[string]Artifact{"source": file}, "input product: got none"},
	} {
		if _, err := runStage(t, c.stage, c.with, c.inputs); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error that says: %s", c.stage.Uses(), err, c.want)
		}
	}
}

// TestDeriveWithAnImportanceMatrix: with the matrix every bit is recomputed, without it the scales are free.
func TestDeriveWithAnImportanceMatrix(t *testing.T) {
	artifact := func(name string) Artifact {
		file, err := readFile(t.Context(), name, shared.Path(t, "data", "llama-grouped", name))
		if err != nil {
			t.Fatal(err)
		}
		return FileArtifact(file)
	}
	inputs := map[string]Artifact{"source": artifact("BF16.gguf"), "product": artifact("Q6_K-im.gguf")}
	out, err := runStage(t, Derive{}, `{}`, inputs)
	if err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Undecided || !strings.Contains(out.Failure, "scales free") {
		t.Errorf("without the matrix: got %s (%s), want undecided for the scales", out.Verdict, out.Failure)
	}
	inputs["imatrix"] = artifact("imatrix.gguf")
	if out, err = runStage(t, Derive{}, `{}`, inputs); err != nil {
		t.Fatal(err)
	}
	if out.Verdict != schemas.Passed {
		t.Errorf("with the matrix: got %s (%s), want passed", out.Verdict, out.Failure)
	}
}
