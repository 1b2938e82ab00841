package schemas

import (
	"maps"
	"slices"
)

// stageNames are the stage types that a document may name, whether or not this
// version runs them.
var stageNames = []string{"accept", "acquire", "baseline", "build", "calibrate", "complete", "convert", "deliver", "derive", "evaluate",
	"exec", "inspect", "isolate", "patch", "quantize", "release", "reload"}

// StageNames lists the stage types that a document may name, sorted.
func StageNames() []string { return slices.Clone(stageNames) }

// KernelNames lists the kernels whose reports a policy may ask for, sorted.
func KernelNames() []string { return slices.Sorted(maps.Keys(kernelMetrics)) }

// KernelMetrics gives the unit of each metric of a kernel by the metric's name;
// a name that ends in a slash stands for all that start with it. Nil for a kernel
// that nobody knows. A test of the command line holds it to the kernels there are.
func KernelMetrics(kernel string) map[string]string { return kernelMetrics[kernel] }
