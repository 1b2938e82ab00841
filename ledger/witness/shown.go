package witness

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"

	"github.com/weighmaster/weighmaster/ledger"
)

// shown asks a witness for the checkpoint that it holds against the one it was
// given (C2SP tlog-witness, section "Monitor Retrieval Mechanism", at the
// submission prefix, where witnesses may offer it). It is returned only if the
// log signed it; with the log's tree it may prove that the log lied.
func (a *asking) shown(ctx context.Context) []byte {
	path := fmt.Sprintf("/%x/checkpoint", sha256.Sum256([]byte(a.checkpoint.Origin)))
	status, _, answer, err := a.do(ctx, http.MethodGet, path, nil)
	if err != nil || status != http.StatusOK {
		return nil
	}
	if _, err := ledger.ParseCheckpoint(answer, a.log); err != nil {
		return nil
	}
	return answer
}
