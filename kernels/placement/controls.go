package placement

import (
	"bytes"
	"context"
	"fmt"

	"github.com/weighmaster/weighmaster/kernels"
)

// control changes an accepted log, or what is wanted of it, and names the check that has to say so.
type control struct {
	name, fault, check string
	plant              func(log []byte, l *Log, want Want) ([]byte, Want)
}

// foreign is the name of a buffer on a device that is not wanted: in the host's
// memory, or on a GPU where the host's is wanted.
func foreign(want Want, host, gpu string) string {
	if want.has(CPU) {
		return gpu
	}
	return host
}

// beside puts lines after those of the buffers.
func beside(lines ...string) func([]byte, *Log, Want) ([]byte, Want) {
	return func(log []byte, l *Log, want Want) ([]byte, Want) {
		real := l.Real()[0]
		text := ""
		for _, line := range lines {
			line = string(bytes.ReplaceAll([]byte(line), []byte("{host}"), []byte(foreign(want, "CPU_Mapped", "MTL9_Mapped"))))
			text += string(bytes.ReplaceAll([]byte(line), []byte("{pinned}"), []byte(foreign(want, "CUDA_Host", "CUDA9")))) + "\n"
		}
		return insert(log, real.Weights[len(real.Weights)-1].Line, text), want
	}
}

var controls = []control{
	{"a buffer of weights beside the others, in the wrong memory", "weights on another device", CheckElsewhere, beside("load_tensors:   {host} model buffer size =  2282.00 MiB")},
	{"a buffer too small for two digits", "small weights on another device", CheckElsewhere, beside("load_tensors:   {pinned} model buffer size =     0.00 MiB")},
	{"an adapter in the wrong memory", "adapter on another device", CheckElsewhere, beside("llama_adapter_lora_init_impl: {host} LoRA buffer size =    16.00 MiB")},
	{"one layer fewer", "layers left behind", CheckLayers, func(_ []byte, _ *Log, _ Want) ([]byte, Want) {
		return bytes.Replace([]byte(sampleLog), []byte("offloaded 3/3"), []byte("offloaded 2/3"), 1), sampleWant()
	}},
	{"a layer's device", "layer assigned elsewhere", CheckAssigned, beside("load_tensors: layer   0 assigned to device {host}, is_swa = 0")},
	{"an override by name", "tensor overridden", CheckOverride, beside("tensor token_embd.weight (2282 MiB bf16) buffer type overridden to {host}")},
	{"another size of the model", "log of another model", CheckOther, func(_ []byte, _ *Log, _ Want) ([]byte, Want) {
		want := sampleWant()
		want.Bytes += 4 << 20
		return []byte(sampleLog), want
	}},
	{"a load that failed", "load that failed", CheckFailed, beside("llama_model_load: error loading model: unable to allocate CUDA0 buffer")},
	{"the line of the largest buffer taken out", "line taken out", CheckBytes, func(_ []byte, l *Log, _ Want) ([]byte, Want) {
		return bytes.Replace([]byte(sampleLog), []byte("load_tensors:        CUDA1 model buffer size =     4.00 MiB\n"), nil, 1), sampleWant()
	}},
	{"the log cut after the buffers", "log cut", CheckLog, func(log []byte, l *Log, want Want) ([]byte, Want) {
		return log[:lineEnd(log, l.Real()[0].Weights[len(l.Real()[0].Weights)-1].Line)], want
	}},
	{"nothing in the log", "empty log", CheckLog, func(_ []byte, _ *Log, want Want) ([]byte, Want) { return nil, want }},
	{"a second load", "several loads", CheckLog, func(log []byte, _ *Log, want Want) ([]byte, Want) { return append(bytes.Clone(log), log...), want }},
	{"a line of another form", "unknown form", CheckLog, beside("load_tensors: model buffer size on CUDA0: 12 GB")},
}

// plant lays every fault over an accepted log.
func plant(ctx context.Context, c *kernels.Controls, log []byte, want Want) error {
	l, err := Parse(bytes.NewReader(log))
	if err != nil {
		return err
	}
	for _, control := range controls {
		if err := ctx.Err(); err != nil {
			return err
		}
		changed, wanted := control.plant(log, l, want)
		_, found, err := judge(changed, wanted)
		if err != nil {
			return fmt.Errorf("control %q: %w", control.name, err)
		}
		c.Judge(control.name, control.fault, found, func(f kernels.Finding) bool { return f.Check == control.check })
	}
	return nil
}

// lineEnd is the offset after line n, from 1.
func lineEnd(log []byte, n int) int {
	at := 0
	for ; n > 0 && at < len(log); n-- {
		next := bytes.IndexByte(log[at:], '\n')
		if next < 0 {
			return len(log)
		}
		at += next + 1
	}
	return at
}

// insert puts text after line n.
func insert(log []byte, n int, text string) []byte {
	at := lineEnd(log, n)
	out := append(bytes.Clone(log[:at]), text...)
	return append(out, log[at:]...)
}
