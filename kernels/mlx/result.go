package mlx

import (
	"github.com/weighmaster/weighmaster/kernels"
)

// Outcome is what one tensor is to the source's.
type Outcome string

const (
	Same       Outcome = "same bits"
	Cast       Outcome = "converted"              // stored as it is, in another type, correctly rounded
	Recomputed Outcome = "recomputed"             // every code, scale and bias is what MLX computes
	UpToTies   Outcome = "recomputed up to ties"  // as Recomputed, apart from roundings that are ties within float32's accuracy
	Bounded    Outcome = "within the error bound" // each weight is within half a step and the storage rounding; other arithmetic than MLX's
	Differs    Outcome = "differs"
)

// TensorResult is the comparison of one tensor.
type TensorResult struct {
	Name    string   `json:"name"`
	Sources []string `json:"sources"` // names in the source; several are stacked
	Scheme  *Scheme  `json:"scheme"`  // null: stored as it is
	Type    string   `json:"type"`    // of the values, or of an affine matrix's scales and biases
	Outcome Outcome  `json:"outcome"`
	// Backend is MLX's implementation that gives these bits: "cpu" or "gpu"; empty unless Recomputed.
	Backend string `json:"backend,omitempty"`
	Weights uint64 `json:"weights"`

	// Of a quantized matrix:
	Groups    uint64  `json:"groups,omitempty"`
	Follow    uint64  `json:"follow,omitempty"`  // groups that are recomputed, up to ties
	Outside   uint64  `json:"outside,omitempty"` // groups with a weight beyond the bound
	OfBound   float64 `json:"ofBound"`           // largest error over what the bound allows there; 1e300 for what is not finite
	Steps     float64 `json:"steps"`             // largest error in steps
	RMS       float64 `json:"relativeRMS"`       // root of the mean square error over that of the source
	sumError  float64
	sumSource float64
}

// Result is what a folder is to a source.
type Result struct {
	Tensors []TensorResult `json:"tensors"`
	Schemes map[string]int `json:"schemes"` // quantized matrices by scheme
	// Weights are tensors that do not follow from the source.
	Weights []kernels.Finding `json:"weights"`
	// Files are differences of config.json, the tokenizer, the chat template and Python code.
	Files []kernels.Finding `json:"files"`
	// Notes are known changes and what remains unproven, in plain sentences.
	Notes []string `json:"notes"`
	// Verdict is failed with any finding, undecided with a tensor that is only
	// within the error bound, else passed.
	Verdict kernels.Verdict `json:"verdict"`
}

// What the bytes cannot tell, as notes say it.
const (
	noteBounded = "Tensors within the error bound only: every weight is near the source's, but MLX's own rounding does not give these codes. An older release or another tool made them, or an edit smaller than half a step."
	noteLearned = "Learned quantizations (mlx-lm's DWQ, AWQ, GPTQ) move scales, codes or norms beyond rounding: from the bytes they cannot be told from an edit, so they are not accepted as a quantization of the source."
	noteGPU     = "The arithmetic of MLX's GPU backends is taken from their source text; it was not checked on files that they made."
)

// Tensor finds a tensor's result.
func (r Result) Tensor(name string) (TensorResult, bool) {
	for _, t := range r.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return TensorResult{}, false
}
