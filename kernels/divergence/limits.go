package divergence

import (
	"context"
	"fmt"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

// limits says what a divergence does not tell.
func limits() []kernels.Limit {
	return []kernels.Limit{
		{What: "logits are taken as float32 on both sides: differences below about 1e-6 nats are rounding", Probe: func(ctx context.Context) error {
			ref, cand := sample()
			cand.Texts = ref.Texts
			cand = withRow(cand, 0, changed(cand.Texts[0].Rows[0], 0, cand.Texts[0].Rows[0][0]*(1+1e-7)))
			kl, err := largest(ctx, ref, cand)
			if err == nil && kl > 1e-6 {
				err = fmt.Errorf("one ulp of a logit gives %v nats", kl)
			}
			return err
		}},
		{What: "bounds are the policy's: a far candidate passes here as long as it can be measured", Probe: func(ctx context.Context) error {
			ref, cand := sample()
			row := changed(cand.Texts[0].Rows[0], 0, 100)
			return kernels.Unseen(Compare(ctx, ref, withRow(cand, 0, row), godigest.FromString("built-in sample")))
		}},
		{What: "positions of one text are not independent: more of the same text does not make a quantile surer, and no interval is claimed", Probe: func(ctx context.Context) error {
			ref, cand := sample()
			once, err := largest(ctx, ref, cand)
			if err != nil {
				return err
			}
			ref.Texts, cand.Texts = append(ref.Texts, again(ref)), append(cand.Texts, again(cand))
			twice, err := largest(ctx, ref, cand)
			if err == nil && twice != once {
				err = fmt.Errorf("kl_max changed from %v to %v", once, twice)
			}
			return err
		}},
	}
}

// again is the text of a sample under another name.
func again(s Side) Text {
	t := s.Texts[0]
	t.Name = "again"
	return t
}

// largest is the largest KL divergence of a position, in nats.
func largest(ctx context.Context, ref, cand Side) (float64, error) {
	r, err := Compare(ctx, ref, cand, godigest.FromString("built-in sample"))
	for _, m := range r.Metrics {
		if m.Name == "kl_max" && err == nil {
			return m.Value, nil
		}
	}
	return 0, fmt.Errorf("no kl_max: %v %v", r.Findings, err)
}
