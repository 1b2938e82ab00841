// Package placement reads from the load log of llama.cpp on which device every
// buffer of weights lies. The summary line "offloaded 53/53 layers to GPU" counts
// layers; the embedding is none, so it can stay on the CPU beside a full count.
//
// The lines that are read, with or without the time and level that the tools put
// before them ("0.00.006.360 I "), are those of src/llama-model.cpp,
// src/llama-model-loader.cpp, src/llama-context.cpp, src/llama-kv-cache.cpp and
// src/llama.cpp of https://github.com/ggml-org/llama.cpp, October 2026:
//
//	load_tensors: loading model tensors, this can take a while... (load_mode = mmap)
//	load_tensors:        CUDA0 model buffer size =  5563.55 MiB
//	load_tensors: offloaded 53/53 layers to GPU
//	load_tensors: layer   0 assigned to device CUDA0, is_swa = 0
//	tensor token_embd.weight (2282 MiB bf16) buffer type overridden to CUDA0
//	model has unused tensor blk.3.x (size = 64 bytes) -- ignoring
//	llama_kv_cache:      CUDA0 KV buffer size =   128.00 MiB
//
// The tools print the lines of buffers from verbosity 4 on, those of layers and
// overrides from 5 on. Sizes are printed in MiB with two digits, so each is known
// to half of 0.01 MiB, see [Rounding].
package placement

import "strings"

// Rounding is how far a printed size can be from the real one, in bytes: half of 0.01 MiB.
const Rounding = 5243

// CPU is the device of all buffers in the host's memory.
const CPU = "CPU"

// Kind is what a buffer holds.
type Kind string

const (
	Weights Kind = "model"   // the model's tensors
	Adapter Kind = "LoRA"    // an adapter's tensors
	Cache   Kind = "KV"      // keys and values, or the state of recurrent layers
	Compute Kind = "compute" // what a graph computes; staging
	Output  Kind = "output"  // logits and embeddings on their way out; staging
)

// Buffer is one buffer as the log states it.
type Buffer struct {
	Name   string // as printed, such as CPU_Mapped or CUDA0
	Device string // see [DeviceOf]
	Kind   Kind
	Bytes  int64 // rounded to 0.01 MiB, see [Rounding]
	Line   int   // in the log, from 1
}

// Load is one loading of a model.
type Load struct {
	Line      int      // where it starts
	Weights   []Buffer // of the kinds Weights and Adapter
	Offloaded int      // layers on a GPU by the summary line; -1 without one
	Layers    int      // layers by the summary line
	Assigned  map[string]int
	Overrides []Override
	Unused    int64 // bytes of tensors that the model does not use
	Lazy      int   // tensors that stay in the file until they are used
}

// Override is a tensor whose buffer was chosen by name.
type Override struct {
	Tensor, Buffer string
	Line           int
}

// Device is one that the log says is used.
type Device struct {
	Name, Description string
	Free              int64 // bytes
}

// Log is what a load log says.
type Log struct {
	Devices []Device
	Loads   []Load
	Staging []Buffer // of the kinds Cache, Compute and Output
	Tensors int      // in the file, of the last loaded; -1 when not said
	File    int64    // bytes of the file's tensors, -1 when not said
	FileErr int64    // bytes by which File can be wrong
	Ready   bool     // a context was made after the last load: the loading ended
	Failed  string   // the line that says that a load failed
	Cut     bool     // the log says of itself that a part is missing
	Unread  []string // lines about buffers of weights that were not understood
}

// hostSuffixes are kinds of buffers in the host's memory, whatever the name before.
var hostSuffixes = []string{"_Host", "_REPACK", "_HBM", "_KLEIDIAI"}

// DeviceOf gives the device on which a buffer of this name lies: CPU for buffers in the host's
// memory, such as CPU_Mapped, CPU_REPACK, AMX and CUDA_Host, else the name of the
// device, such as CUDA0 or MTL0 for MTL0_Mapped. Names that are not known stay as they are.
func DeviceOf(buffer string) string {
	if buffer == "AMX" {
		return CPU
	}
	for _, s := range hostSuffixes {
		if strings.HasSuffix(buffer, s) {
			return CPU
		}
	}
	for _, s := range []string{"_Mapped", "_Private"} {
		buffer = strings.TrimSuffix(buffer, s)
	}
	return buffer
}

// dry tells a load that only measured: none of its buffers has a size.
func (l Load) dry() bool {
	for _, b := range l.Weights {
		if b.Bytes > 0 {
			return false
		}
	}
	return true
}

// Real are the loads that put weights somewhere. The tools load once without
// allocating anything to see what would fit; those loads have buffers of no size.
func (l *Log) Real() []Load {
	var real []Load
	for _, x := range l.Loads {
		if len(x.Weights) > 0 && !x.dry() {
			real = append(real, x)
		}
	}
	return real
}
