package machine

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/weighmaster/weighmaster/schemas"
)

// reading is the machine at one moment.
type reading struct {
	processes []process
	memory    int64 // bytes in all
	available int64 // bytes
	load1     float64
	cpus      int
	gpuSource string
	gpus      []schemas.GPUSample
	gpuUsers  []gpuProcess
	faults    []string // what could not be read
}

// read looks at the machine. What cannot be read is told in words and left zero.
func read(ctx context.Context, gpuUsers bool) reading {
	r := reading{cpus: runtime.NumCPU(), gpuSource: absent}
	fault := func(what string, err error) {
		if err != nil {
			r.faults = append(r.faults, fmt.Sprintf("%s: %v", what, err))
		}
	}
	if tool := gpuTool(); tool != "" {
		var err error
		r.gpuSource = nvidiaSMI
		r.gpus, err = readGPUs(ctx, tool)
		fault("GPUs", err)
		if gpuUsers {
			r.gpuUsers, err = readGPUProcesses(ctx, tool)
			fault("processes on GPUs", err)
		}
	}
	if vm, err := mem.VirtualMemoryWithContext(ctx); err != nil {
		fault("memory", err)
	} else {
		r.memory, r.available = int64(min(vm.Total, math.MaxInt64)), int64(min(vm.Available, math.MaxInt64))
	}
	if l, err := load.AvgWithContext(ctx); err != nil {
		fault("load average", err)
	} else if l.Load1 >= 0 && !math.IsInf(l.Load1, 0) {
		r.load1 = l.Load1
	}
	var err error
	r.processes, err = processes()
	fault("processes", err)
	return r
}

// servers are programs whose work is to keep a model in memory. Names are cut
// as Linux cuts them, to 15 bytes.
var servers = map[string]bool{
	"ollama": true, "ollama_llama_se": true, "llama-server": true, "llama-cli": true, "llama-run": true, "llamafile": true, "koboldcpp": true,
	"LM Studio": true, "lms": true, "local-ai": true, "tritonserver": true, "text-generation": true, "tabbyml": true, "mlx_lm.server": true,
	"vllm": true, "VLLM::EngineCor": true, "VLLM::Worker": true, "sglang": true, "sglang::schedule": true,
}

// interpreted are words in the command line of an interpreter that runs a model server.
var interpreted = []string{"vllm", "sglang", "mlx_lm", "llama_cpp.server", "text_generation_server", "exllama", "tabbyapi", "koboldcpp", "lmdeploy"}
