package derive

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/kernels"
)

func TestSelfCheckPassesAndPlantsEveryFault(t *testing.T) {
	report, err := Kernel().SelfCheck(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustPass(t, report)
	if err := Kernel().CheckFaults(report.Controls); err != nil {
		t.Error(err)
	}
	for _, r := range report.Controls.Results {
		t.Logf("%s: %s", r.Fault, r.Detail)
	}
}

func mustPass(t *testing.T, report kernels.Report) {
	t.Helper()
	for _, f := range report.Findings {
		t.Error(f)
	}
	for _, r := range report.Controls.Results {
		if !r.Red {
			t.Errorf("missed control %s: %s", r.Fault, r.Detail)
		}
	}
	if report.Verdict != kernels.Passed || report.Controls.Planted != len(faults) {
		t.Errorf("got verdict %s with %d controls, want passed with %d", report.Verdict, report.Controls.Planted, len(faults))
	}
}

func readFile(t testing.TB, path string) File {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return File{R: bytes.NewReader(body), Size: int64(len(body))}
}

func metric(r kernels.Report, name string) float64 {
	i := slices.IndexFunc(r.Metrics, func(m kernels.Metric) bool { return m.Name == name })
	if i < 0 {
		return -1
	}
	return r.Metrics[i].Value
}

// TestRealFilesDerive takes every product of llama.cpp that is recomputed bit for bit.
func TestRealFilesDerive(t *testing.T) {
	grouped, odd := shared.Path(t, "data", "llama-grouped"), shared.Path(t, "data", "llama-odd")
	snapshot := func(dir string) Input { return Input{Snapshot: os.DirFS(filepath.Join(dir, "hf"))} }
	file := func(path ...string) File { return readFile(t, filepath.Join(path...)) }
	bf16 := file(grouped, "BF16.gguf")
	for i, c := range []struct {
		name    string
		src     Input
		product File
		tensors float64
	}{
		{"snapshot to BF16", snapshot(grouped), bf16, 40},
		{"snapshot to llama-quantize's Q8_0", snapshot(grouped), file(grouped, "Q8_0.gguf"), 40},
		{"snapshot to the converter's own Q8_0", snapshot(grouped), file(grouped, "converter", "Q8_0.gguf"), 40},
		{"BF16 to llama-quantize's Q8_0", Input{GGUF: &bf16}, file(grouped, "Q8_0.gguf"), 40},
		{"odd snapshot to BF16", snapshot(odd), file(odd, "BF16.gguf"), 30},
		{"BF16 to itself", Input{GGUF: &bf16}, bf16, 40},
	} {
		if i%thin != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			report, err := Check(t.Context(), c.src, c.product, Options{})
			if err != nil {
				t.Fatal(err)
			}
			mustPass(t, report)
			if n := metric(report, "tensors_bit_exact"); n != c.tensors {
				t.Errorf("tensors_bit_exact: got %v, want %v", n, c.tensors)
			}
		})
	}
}
