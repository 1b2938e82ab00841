package stages

import (
	"context"
	"fmt"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/azure"
)

// Observe looks at a rented machine and records what it is, at the start of the
// rent say. It asks nothing of it, and is no release. It takes no inputs.
type Observe struct {
	// Endpoint, where not empty, stands in for Azure; see [azure.Options].
	Endpoint string
	connect  func(schemas.Compute, azure.Options) (*azure.Client, error) // azure.Connect when nil
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
	client, err := connectAzure(s.connect, m, azure.Options{Endpoint: s.Endpoint, Now: run.Now})
	if err != nil {
		return nil, err
	}
	out := computeOutcome(m, file, client)
	v, err := client.Observe(ctx, m)
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
	return out, out.keepCompute(ctx, run, computeRecord{Machine: m, Endpoint: client.Endpoint(), Before: &v})
}

func connectAzure(connect func(schemas.Compute, azure.Options) (*azure.Client, error), m schemas.Compute, o azure.Options) (*azure.Client, error) {
	if connect == nil {
		connect = azure.Connect
	}
	if m.Provider != "azure" {
		return nil, fmt.Errorf("compute provider: got %q, want azure", m.Provider)
	}
	return connect(m, o)
}

// verdictOf tells whether an error is about another machine (failed) or about asking (undecided).
func verdictOf(err error) schemas.Verdict {
	if _, other := err.(*azure.OtherMachine); other {
		return schemas.Failed
	}
	return schemas.Undecided
}
