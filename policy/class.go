package policy

import (
	"encoding/json"
	"fmt"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
)

// ClassOf tells under which class the newest acceptance run judged an artifact;
// a run that its signer withdrew does not count. Who signed that run is for the decision to check.
func ClassOf(claims []attest.Claim, artifact godigest.Digest) (string, error) {
	in := &inquiry{ev: Evidence{Claims: claims}}
	in.dropWithdrawn()
	runs, _ := Runs(in.claims)
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].Uses != "accept" || !runs[i].takes(artifact) {
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
	return "", fmt.Errorf("no acceptance of %s is claimed; run the accept stage, or name the class", artifact)
}
