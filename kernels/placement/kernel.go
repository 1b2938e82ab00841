package placement

import (
	"context"
	"fmt"
	"slices"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

// Kernel describes the judgement of a load log.
func Kernel() kernels.Kernel {
	k := kernels.Kernel{
		Name:    "placement",
		Version: "1.0.0",
		Spec:    "https://github.com/ggml-org/llama.cpp/blob/master/src/llama-model.cpp",
		Summary: "Every buffer of weights lies on the device that is wanted, by llama.cpp's load log.",
		Limits:  kernelLimits(),
		Gates: []kernels.Gate{
			{Metric: "weight_buffers", Unit: "buffers", Compare: kernels.AtLeast, Value: 1},
			{Metric: "weight_buffers_elsewhere", Unit: "buffers", Compare: kernels.Equal, Value: 0},
			{Metric: "weight_bytes_unaccounted", Unit: "bytes", Compare: kernels.Equal, Value: 0},
		},
	}
	for _, c := range controls {
		k.Faults = append(k.Faults, c.fault)
	}
	k.SelfCheck = func(ctx context.Context) (kernels.Report, error) {
		return Inspect(ctx, []byte(sampleLog), sampleWant())
	}
	return k
}

// Inspect judges a load log (what the tool wrote to both of its streams) and plants every
// control in copies of it. The report fails where weights are elsewhere, and is
// undecided where the log does not show all of them: empty, cut, of another
// version's form, of several loads, or with fewer bytes than the model has.
func Inspect(ctx context.Context, log []byte, want Want) (kernels.Report, error) {
	r := Kernel().NewReport()
	r.Inputs = append(r.Inputs, kernels.Input{Name: "log", Digest: godigest.FromBytes(log), Size: int64(len(log))})
	l, found, err := judge(log, want)
	if err != nil {
		return r, err
	}
	for _, f := range found {
		r.Find(f)
	}
	l.measure(&r, want)
	if len(found) > 0 { // its faults would cover the planted ones
		log, want = []byte(sampleLog), sampleWant()
	}
	if err := plant(ctx, &r.Controls, log, want); err != nil {
		return r, err
	}
	if err := r.Finish(); err != nil {
		return r, err
	}
	if r.Verdict == kernels.Failed && !slices.ContainsFunc(found, func(f kernels.Finding) bool { return !Doubtful(f) }) {
		r.Verdict = kernels.Undecided
	}
	return r, nil
}

// measure adds the metrics. Sizes are sums of printed ones, see [Rounding];
// bytes/DEVICE are those of the weights on a device.
func (l *Log) measure(r *kernels.Report, want Want) {
	buffers, elsewhere, bytes, bytesElsewhere, unaccounted := 0, 0, int64(0), int64(0), int64(0)
	on := map[string]int{}
	for _, load := range l.Real() {
		for _, b := range load.Weights {
			buffers, bytes = buffers+1, bytes+b.Bytes
			on[b.Device] += int(b.Bytes)
			if !want.has(b.Device) {
				elsewhere, bytesElsewhere = elsewhere+1, bytesElsewhere+b.Bytes
			}
		}
		unaccounted += load.unaccounted(want.Bytes)
		if load.Offloaded >= 0 {
			r.Metric("layers", "layers", float64(load.Layers))
			r.Metric("layers_offloaded", "layers", float64(load.Offloaded))
		}
	}
	r.Metric("weight_buffers", "buffers", float64(buffers))
	r.Metric("weight_bytes", "bytes", float64(bytes))
	r.Metric("weight_buffers_elsewhere", "buffers", float64(elsewhere))
	r.Metric("weight_bytes_elsewhere", "bytes", float64(bytesElsewhere))
	r.Metric("weight_bytes_unaccounted", "bytes", float64(unaccounted))
	for _, device := range sorted(on) {
		r.Metric("bytes/"+device, "bytes", float64(on[device]))
	}
	staging := map[Kind]int64{}
	for _, b := range l.Staging {
		staging[b.Kind] += b.Bytes
	}
	for _, kind := range []Kind{Cache, Compute, Output} {
		r.Metric(fmt.Sprintf("%s_bytes", kind), "bytes", float64(staging[kind]))
	}
}
