package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGPUsAreReadInBytesAndFractions(t *testing.T) {
	// As nvidia-smi 535 prints for an A100, one with MIG enabled, and a consumer card.
	list, err := parseGPUs([]byte("0, 71234, 81920, 98\n1, [N/A], [Insufficient Permissions], [N/A]\n2, 15, 24564, 0\n"))
	if err != nil || len(list) != 3 {
		t.Fatalf("got %v, %v", list, err)
	}
	if g := list[0]; *g.Used != 71234<<20 || *g.Total != 81920<<20 || *g.Utilization != 0.98 {
		t.Errorf("got %+v", g)
	}
	if g := list[1]; g.Used != nil || g.Total != nil || g.Utilization != nil {
		t.Errorf("what the device does not tell became %+v", g)
	}
	users, err := parseGPUProcesses([]byte("4711, 2048\n4712, [N/A]\n"))
	if err != nil || len(users) != 2 || users[0] != (gpuProcess{4711, 2048 << 20}) || users[1] != (gpuProcess{4712, 0}) {
		t.Errorf("got %v, %v", users, err)
	}
	if none, err := parseGPUProcesses(nil); err != nil || len(none) != 0 {
		t.Errorf("got %v, %v", none, err)
	}
}

func TestWhatIsNoGPUListIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"an error in words":      "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
		"a field too few":        "0, 1, 2\n",
		"a field too many":       "0, 1, 2, 3, 4\n",
		"units":                  "0, 1024 MiB, 81920 MiB, 3 %\n",
		"a negative size":        "0, -1, 81920, 3\n",
		"more than all the time": "0, 1, 81920, 101\n",
		"an endless size":        "0, 99999999999999, 81920, 1\n",
		"too many devices":       strings.Repeat("0, 1, 2, 3\n", maxGPUs+1),
	} {
		if list, err := parseGPUs([]byte(text)); err == nil {
			t.Errorf("%s: got %v", name, list)
		}
	}
}

// A stand-in for the tool: what it prints is read, what it does wrong is told.
func TestTheToolIsAskedAndItsFailureIsTold(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "nvidia-smi")
	write := func(script string) {
		if err := os.WriteFile(tool, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Dir(tool)+string(os.PathListSeparator)+os.Getenv("PATH"))
	write(`case "$1" in --query-gpu=*) echo "0, 100, 200, 50";; *) echo "1, 10"; echo "2, 20";; esac`)
	r := read(t.Context(), true)
	if r.gpuSource != nvidiaSMI || len(r.gpus) != 1 || *r.gpus[0].Used != 100<<20 || len(r.gpuUsers) != 2 {
		t.Fatalf("got %+v", r)
	}
	if p := gpuPresent(r, os.Getpid()); p.Processes != 2 || p.Used != 30<<20 {
		t.Errorf("got %+v", p)
	}
	write("exit 9")
	r = read(t.Context(), true)
	if len(r.gpus) != 0 || !strings.Contains(strings.Join(r.faults, "; "), "GPUs: nvidia-smi --query-gpu=index,memory.used,memory.total,utilization.gpu: exit status 9") {
		t.Errorf("got %+v", r.faults)
	}
}

func FuzzGPUs(f *testing.F) {
	f.Add([]byte("0, 71234, 81920, 98\n"))
	f.Add([]byte("1, [N/A], [N/A], [N/A]\n"))
	f.Add([]byte("\"0\"\", 1, 2, 3\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseGPUs(text)
		for _, g := range list {
			if err != nil || g.Used != nil && *g.Used < 0 || g.Utilization != nil && (*g.Utilization < 0 || *g.Utilization > 1) {
				t.Errorf("%q gave %+v, %v", text, g, err)
			}
		}
		if _, err := parseGPUProcesses(text); err != nil {
			return
		}
	})
}
