package stages

import (
	"context"

	"github.com/weighmaster/weighmaster/schemas"
)

// Observe looks at a rented machine and records what it is, at the start of the
// rent say. It asks nothing of it, and is no release. It takes no inputs.
type Observe struct {
	Connect ConnectRental // the way to the machine's provider
}

// Uses implements [Stage].
func (Observe) Uses() string { return "observe" }

// Unrepeatable: what was seen once is not seen now.
func (Observe) Unrepeatable() {}

// Run implements [Stage].
func (s Observe) Run(ctx context.Context, run *Run) (*Outcome, error) {
	var with struct{ VM string }
	if err := decodeWith(run, &with); err != nil {
		return nil, err
	}
	m, file, err := readCompute(run, with.VM)
	if err != nil {
		return nil, err
	}
	rental, err := s.Connect.rental(run, m)
	if err != nil {
		return nil, err
	}
	out := computeOutcome(m, file, rental)
	v, err := rental.Observe(ctx)
	if err != nil {
		out.Verdict, out.Failure = verdictOf(err), err.Error()
		return out, nil
	}
	out.seen(v)
	out.Facts["observed"] = timestamp(v.At)
	out.Verdict = schemas.Passed
	if v.Power == "" {
		out.Verdict, out.Failure = schemas.Undecided, v.PowerFault
	}
	return out, out.keepCompute(ctx, run, computeRecord{Machine: m, Endpoint: rental.Endpoint(), Before: v.Private})
}

// verdictOf tells whether an error is about another machine (failed) or about asking (undecided).
func verdictOf(err error) schemas.Verdict {
	if _, other := err.(*OtherMachine); other {
		return schemas.Failed
	}
	return schemas.Undecided
}
