package divergence

import (
	"context"
	"math"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

// Kernel describes this kernel.
func Kernel() kernels.Kernel {
	return kernels.Kernel{
		Name: "divergence", Version: "1.0.0", Spec: "https://doi.org/10.1214/aoms/1177729694",
		Summary: "how far a candidate's next-token distributions are from the reference's: KL, top-1 agreement, log-probabilities, NLL",
		Limits:  limits(),
		Gates:   []kernels.Gate{{Metric: "positions", Unit: "positions", Compare: kernels.AtLeast, Value: 1}},
		Faults:  []string{faultFinite, faultPrediction, faultOrder, faultDomain, faultLength, faultCorpus},
		SelfCheck: func(ctx context.Context) (kernels.Report, error) {
			ref, cand := sample()
			return Compare(ctx, ref, cand, godigest.FromString("built-in sample"))
		},
	}
}

// sample is a small pair of sides: 6 tokens, 12 ids and 2 columns of padding,
// the candidate a little off in every row.
func sample() (reference, candidate Side) {
	const tokens, ids, width = 6, 12, 14
	make := func(shift float64) Side {
		t := Text{Name: "sample"}
		for p := range tokens {
			t.IDs = append(t.IDs, uint32(p*5%ids))
			row := make([]float32, width)
			for id := range row {
				row[id] = float32(3*math.Sin(float64(1+p*width+id)) + shift*math.Cos(float64(id*id+p)))
			}
			t.Rows = append(t.Rows, row)
		}
		return Side{Domain{RealIDs, ids}, godigest.FromString("built-in sample"), "built-in sample", []Text{t}}
	}
	return make(0), make(0.05)
}
