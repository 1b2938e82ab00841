package schemas

import (
	"maps"
	"slices"
)

// stageNames are the stage types that a document may name, whether or not this
// version runs them.
var stageNames = []string{"accept", "acquire", "baseline", "build", "calibrate", "complete", "convert", "deliver", "derive", "evaluate",
	"exec", "inspect", "isolate", "observe", "parity", "patch", "quantize", "release", "reload"}

// StageNames lists the stage types that a document may name, sorted.
func StageNames() []string { return slices.Clone(stageNames) }

// KernelNames lists the kernels whose reports a policy may ask for, sorted.
func KernelNames() []string { return slices.Sorted(maps.Keys(kernelMetrics)) }

// KernelMetrics gives the unit of each metric of a kernel by the metric's name;
// a name that ends in a slash stands for all that start with it. Nil for a kernel
// that nobody knows. A test of the command line holds it to the kernels there are.
func KernelMetrics(kernel string) map[string]string { return kernelMetrics[kernel] }

// tensorTypes are the types that the derive kernel counts, as GGUF spells them.
var tensorTypes = []string{"BF16", "F16", "F32", "F64", "I16", "I32", "I64", "I8", "IQ1_M", "IQ1_S", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ3_S", "IQ3_XXS",
	"IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4", "Q1_0", "Q2_0", "Q2_K", "Q3_K", "Q4_0", "Q4_1", "Q4_K", "Q5_0", "Q5_1", "Q5_K", "Q6_K", "Q8_0", "Q8_1", "Q8_K", "TQ1_0", "TQ2_0"}

// TensorTypes lists the tensor types that a policy may allow, sorted.
func TensorTypes() []string { return slices.Clone(tensorTypes) }

// metricIdentities are the names by which metrics tell what they are of. A
// number with bound lower or upper is only known to be at least or at most that.
var metricIdentities = []string{"alone", "bound", "corpus", "domain", "dtype", "engine", "format", "ids", "kind", "language", "outcome", "reader", "reference", "scales", "tensor", "text", "tokens", "type"}

// MetricIdentities lists the names that a gate's identity may use, sorted.
func MetricIdentities() []string { return slices.Clone(metricIdentities) }
