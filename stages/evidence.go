package stages

import (
	"context"
	"fmt"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/policy"
)

// PolicyEvidence gathers what a policy looks at: the claims, and every report
// and result that their provenance names. An object that is not in the store is
// left out; the policy then calls it missing.
func PolicyEvidence(ctx context.Context, claims []attest.Claim, objects Objects) (policy.Evidence, error) {
	ev := policy.Evidence{Claims: claims, Objects: map[godigest.Digest][]byte{}}
	runs, _ := policy.Runs(claims)
	for _, run := range runs {
		for _, d := range run.Evidence() {
			if _, have := ev.Objects[d]; have {
				continue
			}
			if err := ctx.Err(); err != nil {
				return ev, fmt.Errorf("gather evidence: %w", err)
			}
			if body, err := objects.Get(ctx, d); err == nil {
				ev.Objects[d] = body
			}
		}
	}
	return ev, nil
}
