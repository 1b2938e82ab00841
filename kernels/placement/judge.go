package placement

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
)

// The checks that findings name. Those below CheckLog leave the placement undecided; the others are faults.
const (
	CheckElsewhere = "weights on another device"
	CheckLayers    = "layers left behind"
	CheckAssigned  = "layers assigned to another device"
	CheckOverride  = "tensor overridden to another device"
	CheckOther     = "log of another model"
	CheckFailed    = "load that failed"

	CheckLog   = "load log"
	CheckBytes = "weights in no buffer"
)

// Doubtful tells a finding that leaves the placement undecided from a fault.
func Doubtful(f kernels.Finding) bool { return f.Check == CheckLog || f.Check == CheckBytes }

// Want is the placement that is asked for.
type Want struct {
	Devices []string // every buffer of weights has to be on one of these, such as CUDA0, or CPU
	Bytes   int64    // of the model's tensors
	Tensors int      // of the model's file
}

func (w Want) has(device string) bool { return slices.Contains(w.Devices, device) }

func (w Want) String() string { return strings.Join(w.Devices, ", ") }

// judge reads a log and compares it with what is wanted.
func judge(log []byte, want Want) (*Log, []kernels.Finding, error) {
	l, err := Parse(bytes.NewReader(log))
	if errors.Is(err, ErrTooLarge) {
		return &Log{}, []kernels.Finding{{Check: CheckLog, Where: "log", Got: err.Error(), Want: "a log within the bounds", Hint: "log with less verbosity"}}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	found := l.whole(want)
	found = append(found, l.same(want)...)
	for _, load := range l.Real() {
		found = append(found, load.elsewhere(want)...)
	}
	if real := l.Real(); len(real) == 1 && want.Bytes > 0 {
		if missing := real[0].unaccounted(want.Bytes); missing > 0 {
			found = append(found, kernels.Finding{Check: CheckBytes, Where: fmt.Sprintf("line %d", real[0].Line),
				Got:  fmt.Sprintf("buffers of %d bytes, %d fewer than rounding explains", real[0].bytes(), missing),
				Want: fmt.Sprintf("%d bytes of tensors, %d of them unused", want.Bytes, real[0].Unused), Hint: "lines of buffers are missing in the log; keep all of it"})
		}
	}
	return l, found, nil
}

// whole tells what a log lacks to decide anything.
func (l *Log) whole(want Want) []kernels.Finding {
	var found []kernels.Finding
	add := func(where, got, wanted, hint string) {
		found = append(found, kernels.Finding{Check: CheckLog, Where: where, Got: got, Want: wanted, Hint: hint})
	}
	real := l.Real()
	switch {
	case len(want.Devices) == 0 || want.Bytes <= 0:
		add("what is wanted", fmt.Sprintf("%d devices, %d bytes of tensors", len(want.Devices), want.Bytes), "at least one device and the model's bytes", "name the device, such as CUDA0 or CPU")
	case len(real) == 0:
		add("log", fmt.Sprintf("%d loads, none with a buffer of weights", len(l.Loads)), "one load with its buffers", "the tools print them at verbosity 4 and above")
	case len(real) > 1:
		add(fmt.Sprintf("line %d", real[1].Line), fmt.Sprintf("%d loads", len(real)), "one", "which load is the model's cannot be told; load nothing beside it")
	case !l.Ready && l.Failed == "":
		add("end of the log", "no line of a context after the load", "one", "the log is cut, or the load did not end")
	}
	if l.Cut {
		add("log", "a part is left out", "all of it", "log with less verbosity")
	}
	for _, line := range l.Unread[:min(len(l.Unread), 3)] {
		add(line, "a line about a buffer of weights that is not understood", "one of the known form", "this version of llama.cpp prints another form")
	}
	return found
}

// same compares what the log says about the file with the model's.
func (l *Log) same(want Want) []kernels.Finding {
	var found []kernels.Finding
	if l.Failed != "" {
		found = append(found, kernels.Finding{Check: CheckFailed, Where: "log", Got: fmt.Sprintf("%q", l.Failed), Want: "a load that ends"})
	}
	if want.Tensors > 0 && l.Tensors >= 0 && l.Tensors != want.Tensors {
		found = append(found, kernels.Finding{Check: CheckOther, Where: "log", Got: fmt.Sprintf("%d tensors", l.Tensors), Want: fmt.Sprintf("%d", want.Tensors), Hint: "this is another model's log"})
	}
	if want.Bytes > 0 && l.File >= 0 && (want.Bytes < l.File-l.FileErr || want.Bytes > l.File+l.FileErr) {
		found = append(found, kernels.Finding{Check: CheckOther, Where: "log", Got: fmt.Sprintf("%d bytes of tensors, give or take %d", l.File, l.FileErr), Want: fmt.Sprintf("%d", want.Bytes), Hint: "this is another model's log"})
	}
	return found
}

// elsewhere names what a load put on other devices.
func (l Load) elsewhere(want Want) []kernels.Finding {
	var found []kernels.Finding
	for _, b := range l.Weights {
		if !want.has(b.Device) {
			found = append(found, kernels.Finding{Check: CheckElsewhere, Where: fmt.Sprintf("line %d, buffer %s", b.Line, b.Name), Got: fmt.Sprintf("%d bytes on %s%s", b.Bytes, b.Device, l.summary()), Want: "all weights on " + want.String(),
				Hint: "the embedding is no layer: place it by name, such as -ot token_embd.weight=CUDA0"})
		}
	}
	if l.Offloaded >= 0 && l.Offloaded < l.Layers && !want.has(CPU) {
		found = append(found, kernels.Finding{Check: CheckLayers, Where: fmt.Sprintf("load of line %d", l.Line), Got: fmt.Sprintf("%d of %d layers on a GPU", l.Offloaded, l.Layers), Want: "all", Hint: "offload more layers (-ngl)"})
	}
	for _, device := range sorted(l.Assigned) {
		if !want.has(DeviceOf(device)) {
			found = append(found, kernels.Finding{Check: CheckAssigned, Where: fmt.Sprintf("load of line %d", l.Line), Got: fmt.Sprintf("%d layers on %s", l.Assigned[device], device), Want: "layers on " + want.String()})
		}
	}
	for _, o := range l.Overrides {
		if !want.has(DeviceOf(o.Buffer)) {
			found = append(found, kernels.Finding{Check: CheckOverride, Where: fmt.Sprintf("line %d, tensor %s", o.Line, o.Tensor), Got: o.Buffer, Want: want.String()})
		}
	}
	return found
}

// summary repeats the line that could be taken for full placement.
func (l Load) summary() string {
	if l.Offloaded < 0 {
		return ""
	}
	return fmt.Sprintf(", beside %d/%d layers offloaded", l.Offloaded, l.Layers)
}

// bytes of the buffers that hold the model's tensors.
func (l Load) bytes() (n int64) {
	for _, b := range l.Weights {
		if b.Kind == Weights {
			n += b.Bytes
		}
	}
	return n
}

// unaccounted are the model's bytes that are in no buffer, beyond what rounding explains.
func (l Load) unaccounted(of int64) int64 {
	return max(0, of-l.Unused-l.bytes()-int64(len(l.Weights))*Rounding)
}

func sorted(m map[string]int) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
