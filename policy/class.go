package policy

import (
	"encoding/json"
	"fmt"
	"slices"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/schemas"
)

// ClassOf tells under which class the newest acceptance run judged an artifact,
// of those signed by somebody who may sign or decide acceptances: nobody else
// says by which bounds an artifact is judged. A run that was withdrawn does not count.
func ClassOf(p schemas.Policy, claims []attest.Claim, artifact godigest.Digest) (string, error) {
	may := append(slices.Clone(p.Signers["accept"].Functionaries), p.Decisions[Accept].Functionaries...)
	in := &inquiry{policy: p, ev: Evidence{Claims: claims}}
	in.dropWithdrawn()
	runs, _ := Runs(in.claims)
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].Uses != "accept" || !runs[i].takes(artifact) || !slices.ContainsFunc(runs[i].Claims, func(c attest.Claim) bool { return slices.Contains(may, c.Functionary()) }) {
			continue
		}
		var with struct {
			Class string `json:"class"`
		}
		if err := json.Unmarshal(runs[i].External.With, &with); err != nil || with.Class == "" {
			return "", fmt.Errorf("accept run %s names no class: %v", runs[i].PAE(), err)
		}
		return with.Class, nil
	}
	return "", fmt.Errorf("no acceptance of %s is claimed by %v; run the accept stage, or name the class", artifact, may)
}
