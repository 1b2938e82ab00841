package stages

import (
	"bytes"
	"strconv"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// deliveredSize is the size of a delivered file in bytes: of its bytes, where they are
// here, else as its newest delivery measured it.
func deliveredSize(ev policy.Evidence, a Artifact) (int64, bool) {
	if !a.Remote && len(a.Files) == 1 {
		return a.Files[0].Sums.Size, true
	}
	size, known := int64(0), false
	runs, _ := policy.Runs(ev.Claims)
	for _, r := range runs {
		if r.Uses != "deliver" || len(r.Subjects) == 0 || r.Subjects[0].Digest != a.Digest {
			continue
		}
		if res, err := r.Result(ev.Objects); err == nil {
			if n, err := strconv.ParseInt(res.Facts[schemas.FactSize], 10, 64); err == nil && n >= 0 {
				size, known = n, true
			}
		}
	}
	return size, known
}

// tokenMetadata digests what the header of a delivered GGUF says of tokens and
// templates, see [schemas.RecordOutput]. Empty of anything else.
func tokenMetadata(a Artifact) map[string]godigest.Digest {
	digests := map[string]godigest.Digest{}
	if a.Remote || a.Multi {
		return digests
	}
	f, file, err := a.openGGUF("artifact")
	if err != nil {
		return digests
	}
	defer f.Close()
	for _, kv := range file.KVs {
		if !strings.HasPrefix(kv.Key, "tokenizer.") {
			continue
		}
		if text, ok := kv.Value.Text(); ok {
			digests[kv.Key] = godigest.FromString(text)
			continue
		}
		var b bytes.Buffer
		if _, err := gguf.WriteHeader(&b, []gguf.KV{kv}, nil); err == nil {
			digests[kv.Key] = godigest.FromBytes(b.Bytes())
		}
	}
	return digests
}
