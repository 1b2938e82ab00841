package derive

import (
	"fmt"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// The keys by which llama-quantize notes an importance matrix: a name, not a digest.
const (
	matrixFileKey    = "quantize.imatrix.file"
	matrixDatasetKey = "quantize.imatrix.dataset"
	matrixEntriesKey = "quantize.imatrix.entries_count"
	matrixChunksKey  = "quantize.imatrix.chunks_count"
)

// checkClaim is the check of what a product's keys say about a matrix.
const checkClaim = "matrix claim"

// MatrixUse is what an importance matrix has to do with a target.
type MatrixUse struct {
	Digest  godigest.Digest `json:"digest"`  // of the matrix at hand, empty for none
	Entries int             `json:"entries"` // that the matrix at hand has
	// Used are the tensors that the matrix at hand makes bit for bit, Unfit those
	// that it has numbers for and does not.
	Used  []string `json:"used"`
	Unfit []string `json:"unfit"`
	// Claim is what the target's metadata names as its matrix, empty for nothing.
	Claim string `json:"claim"`
	// Findings are what is wrong with the numbers of the matrix at hand, or with the claim.
	Findings []kernels.Finding `json:"findings"`
}

func matrixUse(dst *side, inv *inventory, o Options) *MatrixUse {
	u := &MatrixUse{Digest: o.MatrixDigest, Used: []string{}, Unfit: []string{}, Claim: claim(dst.kvs), Findings: []kernels.Finding{}}
	if o.Matrix == nil && u.Claim == "" {
		return nil
	}
	without := 0
	for _, name := range sortedNames(inv.results) {
		switch r := inv.results[name]; {
		case r.pair == nil || r.pair.same() || !usesMatrix(r.pair.dst.typ):
		case r.state == exact && r.how.matrix:
			u.Used = append(u.Used, name)
		case r.pair.importance != nil:
			u.Unfit = append(u.Unfit, name)
			fallthrough
		default:
			if r.state == exact {
				without++
			}
		}
	}
	if o.Matrix != nil {
		u.Entries = len(o.Matrix.Entries)
		u.Findings = append(u.Findings, inv.matrix...)
	}
	u.Findings = append(u.Findings, claimFindings(dst.kvs, u, inv, without)...)
	return u
}

// infos lists the tensors of a side as the matrix's validation takes them.
func infos(s *side) []gguf.TensorInfo {
	list := make([]gguf.TensorInfo, len(s.tensors))
	for i, t := range s.tensors {
		list[i] = gguf.TensorInfo{Name: t.name, Dims: t.dims, Type: t.typ}
	}
	return list
}

// claim is what a file's keys say about its matrix.
func claim(kvs []gguf.KV) string {
	var parts []string
	for _, key := range []string{matrixFileKey, matrixDatasetKey} {
		if v, has := kv(kvs, key); has {
			text, _ := v.Text()
			parts = append(parts, strings.TrimPrefix(key, "quantize.imatrix.")+" "+fmt.Sprintf("%q", text))
		}
	}
	for _, key := range []string{matrixEntriesKey, matrixChunksKey} {
		if v, has := kv(kvs, key); has {
			parts = append(parts, v.String()+" "+strings.TrimSuffix(strings.TrimPrefix(key, "quantize.imatrix."), "_count"))
		}
	}
	return strings.Join(parts, ", ")
}

// claimFindings holds the claim against what the bytes say.
func claimFindings(kvs []gguf.KV, u *MatrixUse, inv *inventory, without int) (list []kernels.Finding) {
	find := func(where, got, want, hint string) {
		list = append(list, kernels.Finding{Check: checkClaim, Where: where, Got: got, Want: want, Hint: hint})
	}
	couldUse := 0
	for _, r := range inv.results {
		if r.pair != nil && !r.pair.same() && usesMatrix(r.pair.dst.typ) && r.pair.src.name != "token_embd.weight" && r.pair.src.name != "output.weight" {
			couldUse++
		}
	}
	switch {
	case u.Claim == "" && len(u.Used) > 0:
		find("key "+matrixFileKey, "no such key", "the matrix that the tensors were made with", fmt.Sprintf("%d tensors fit the matrix at hand", len(u.Used)))
	case u.Claim != "" && couldUse > 0 && without >= couldUse && len(u.Used) == 0:
		find("key "+matrixFileKey, u.Claim, "no such key", "every tensor is what a search without a matrix gives")
	}
	if v, has := kv(kvs, matrixEntriesKey); has && u.Entries > 0 {
		if n, ok := v.Uint(); !ok || n != uint64(u.Entries) {
			find("key "+matrixEntriesKey, v.String(), fmt.Sprint(u.Entries), "the matrix at hand has that many entries")
		}
	}
	return list
}
