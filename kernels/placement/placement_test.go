package placement

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/kerneltest"
)

func TestKernelIsSound(t *testing.T) { kerneltest.Sound(t, Kernel()) }

func TestSelfCheckPlantsEveryFault(t *testing.T) {
	r, err := Kernel().SelfCheck(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Passes(t, "self-check", Kernel(), r)
}

func readLog(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("../../fixtures/placement", name))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// example is the example model in BF16, of which the CPU logs are.
var example = Want{Devices: []string{CPU}, Bytes: 4004864, Tensors: 30}

// TestLogs judges whole logs: those of real runs on a CPU, and those written by
// the format strings of llama.cpp for devices that are not at hand.
func TestLogs(t *testing.T) {
	full := Want{Devices: []string{"CUDA0"}, Bytes: 32 * gib, Tensors: 471}
	for _, c := range []struct {
		name, file string
		want       Want
		verdict    kernels.Verdict
		says       string
	}{
		{"a real run on a CPU", "cpu-4.log", example, kernels.Passed, ""},
		{"a real run on a CPU at verbosity 5, with the load that only measures", "cpu-5.log", example, kernels.Passed, ""},
		{"a real run without mapping and with repacking", "cpu-repack.log", Want{Devices: []string{CPU}, Bytes: 1173760, Tensors: 30}, kernels.Passed, ""},
		{"a real run at verbosity 3", "cpu-3.log", example, kernels.Undecided, "none with a buffer of weights"},
		{"a run on a CPU where a GPU is wanted", "cpu-4.log", Want{Devices: []string{"CUDA0"}, Bytes: example.Bytes, Tensors: 30}, kernels.Failed, "buffer CPU_Mapped"},
		{"the log of another model", "cpu-4.log", Want{Devices: []string{CPU}, Bytes: example.Bytes, Tensors: 31}, kernels.Failed, "30 tensors, want 31"},
		{"all on one GPU", "cuda-full.log", full, kernels.Passed, ""},
		{"53/53 layers and the embedding on the CPU", "cuda-embedding.log", full, kernels.Failed, "buffer CPU_Mapped: got 2392850432 bytes on CPU, beside 53/53 layers offloaded"},
		{"53/53 layers and the embedding in pinned memory", "cuda-pinned.log", full, kernels.Failed, "buffer CUDA_Host"},
		{"two GPUs", "cuda-two.log", Want{Devices: []string{"CUDA0", "CUDA1"}, Bytes: 32 * gib, Tensors: 471}, kernels.Passed, ""},
		{"two GPUs where one is wanted", "cuda-two.log", full, kernels.Failed, "buffer CUDA1"},
		{"Metal, mapped, all of it", "metal-full.log", Want{Devices: []string{"MTL0"}, Bytes: 32 * gib, Tensors: 471}, kernels.Passed, ""},
		{"Metal with the embedding on the CPU", "metal-embedding.log", Want{Devices: []string{"MTL0"}, Bytes: 32 * gib, Tensors: 471}, kernels.Failed, "buffer CPU_Mapped"},
	} {
		r, err := Inspect(t.Context(), readLog(t, c.file), c.want)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if r.Verdict != c.verdict || c.says != "" && !strings.Contains(kernels.Lines(r.Findings), c.says) {
			t.Errorf("%s: got %s with %s, want %s that says %q", c.name, r.Verdict, kernels.Lines(r.Findings), c.verdict, c.says)
		}
		if err := Kernel().CheckGates(r); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.verdict == kernels.Passed {
			kerneltest.Passes(t, c.name, Kernel(), r)
		}
	}
}

const gib = 1 << 30

// TestDoubtIsNeverPassed: whatever is taken out of a log, it does not pass for full placement.
func TestDoubtIsNeverPassed(t *testing.T) {
	want := Want{Devices: []string{"CUDA0"}, Bytes: 32 * gib, Tensors: 471}
	embedding := string(readLog(t, "cuda-embedding.log"))
	lines := strings.SplitAfter(embedding, "\n")
	for i := range lines {
		for _, log := range []string{strings.Join(lines[:i], ""), strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), "")} {
			r, err := Inspect(t.Context(), []byte(log), want)
			if err != nil || r.Verdict == kernels.Passed {
				t.Errorf("without line %d: got %s %v, want no placement to pass", i+1, r.Verdict, err)
			}
		}
	}
	full := string(readLog(t, "cuda-full.log"))
	for name, c := range map[string]struct{ log, says string }{
		"empty":                   {"", "0 loads"},
		"another program's":       {"INFO: all weights on CUDA0\n", "0 loads"},
		"a mark of a cut":         {full + "[123 bytes cut]\n", "a part is left out"},
		"cut in the middle":       {full[:strings.Index(full, "llama_context")], "no line of a context"},
		"another form of a line":  {strings.ReplaceAll(full, "MiB\n", "GB\n"), "not understood"},
		"a size that is no size":  {strings.Replace(full, "32768.00 MiB", "99999999999999999999.00 MiB", 1), "not understood"},
		"a negative size":         {strings.Replace(full, "32768.00 MiB", "-32768.00 MiB", 1), "not understood"},
		"two loads":               {full + full, "2 loads"},
		"a vocabulary only":       {"llama_model_load: vocab only - skipping tensors\nllama_context: constructing llama_context\n", "0 loads"},
		"a load without anything": {strings.ReplaceAll(full, "32768.00 MiB", "    0.00 MiB"), "none with a buffer"},
	} {
		r, err := Inspect(t.Context(), []byte(c.log), want)
		if err != nil || r.Verdict == kernels.Passed || !strings.Contains(kernels.Lines(r.Findings), c.says) {
			t.Errorf("%s: got %s %v: %s, want doubt that says %q", name, r.Verdict, err, kernels.Lines(r.Findings), c.says)
		}
	}
}

func TestDeviceOf(t *testing.T) {
	for buffer, want := range map[string]string{
		"CPU": "CPU", "CPU_Mapped": "CPU", "CPU_REPACK": "CPU", "CPU_KLEIDIAI": "CPU", "CPU_HBM": "CPU", "AMX": "CPU", "CUDA_Host": "CPU", "Vulkan_Host": "CPU",
		"CUDA0": "CUDA0", "MTL0_Mapped": "MTL0", "MTL0_Private": "MTL0", "Metal_Mapped": "Metal", "Vulkan1": "Vulkan1", "RPC0[10.0.0.2:50052]": "RPC0[10.0.0.2:50052]",
		"CUDA0_Split": "CUDA0_Split", "": "",
	} {
		if got := DeviceOf(buffer); got != want {
			t.Errorf("%s: got %q, want %q", buffer, got, want)
		}
	}
}

// TestLargeLogsAreRefused: memory does not grow with what is read.
func TestLargeLogsAreRefused(t *testing.T) {
	many := strings.Repeat("load_tensors:        CUDA0 model buffer size =     1.00 MiB\n", maxEntries+2)
	r, err := Inspect(t.Context(), []byte(many), sampleWant())
	if err != nil || r.Verdict != kernels.Undecided || !strings.Contains(kernels.Lines(r.Findings), "more than 65536 entries") {
		t.Errorf("got %s %v %s, want undecided for the entries", r.Verdict, err, kernels.Lines(r.Findings))
	}
	if _, err := Parse(endless{}); err == nil || !strings.Contains(err.Error(), "more than 268435456 bytes") {
		t.Errorf("got %v, want a refusal of the bytes", err)
	}
}

// endless is a log of one line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '.'
	}
	return len(p), nil
}

// FuzzParse: whatever is read ends in a report, and only a log that shows all the weights passes.
func FuzzParse(f *testing.F) {
	f.Add([]byte(sampleLog))
	for _, name := range []string{"cpu-4.log", "cuda-embedding.log", "metal-full.log"} {
		f.Add(readLog(f, name))
	}
	f.Add([]byte("load_tensors: CUDA0 model buffer size = 99999999999.00 MiB\nllama_context: \n"))
	f.Add([]byte("model has unused tensor a (size = 281474976710655 bytes) -- ignoring\r\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		r, err := Inspect(t.Context(), log, sampleWant())
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict == kernels.Passed && !strings.Contains(string(log), " model buffer size = ") {
			t.Error("passed without a buffer")
		}
		if r.Verdict == kernels.Passed != (len(r.Findings) == 0 && r.Controls.Missed == 0) {
			t.Errorf("got %s with %d findings, %d controls missed", r.Verdict, len(r.Findings), r.Controls.Missed)
		}
	})
}
