package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/attest"
)

// MaxLoose bounds a file of loose bundles, in bytes.
const MaxLoose = 128 << 20

// Loose is a package of bundles that came without a log: no entries, no proofs,
// no checkpoint, and no file named. Objects are by digest, each hashed here.
func Loose(bundles, objects [][]byte) *Package {
	p := &Package{Loose: true, Bundles: bundles, Objects: map[godigest.Digest][]byte{}}
	for _, body := range objects {
		d := godigest.FromBytes(body)
		if _, twice := p.Objects[d]; twice {
			continue
		}
		p.Objects[d] = body
		p.Index.Objects = append(p.Index.Objects, Object{Digest: d, Size: int64(len(body))})
	}
	return p
}

// ReadBundles reads loose bundles: JSON objects one behind the other, as
// JSON Lines (what registries of attestations hand out) or a single bundle in
// any layout. It checks form only: at most [MaxLoose] bytes, at most [MaxMembers] bundles,
// each an object of at most [attest.MaxBundleBytes]. name is for errors.
func ReadBundles(name string, r io.Reader) ([][]byte, error) {
	limited := &io.LimitedReader{R: r, N: MaxLoose + 1}
	dec := json.NewDecoder(limited)
	var bundles [][]byte
	for {
		var body json.RawMessage
		err := dec.Decode(&body)
		where := fmt.Sprintf("%s, bundle %d", name, len(bundles)+1)
		switch {
		case limited.N == 0:
			return nil, &FormatError{name, fmt.Sprintf("more than %d bytes", MaxLoose), "a smaller file"}
		case errors.Is(err, io.EOF) && len(bundles) == 0:
			return nil, &FormatError{name, "nothing", "at least one bundle"}
		case errors.Is(err, io.EOF):
			return bundles, nil
		case err != nil:
			return nil, &FormatError{where, err.Error(), "a Sigstore bundle in JSON"}
		case body[0] != '{':
			return nil, &FormatError{where, "JSON that is no object", "a Sigstore bundle in JSON"}
		case len(body) > attest.MaxBundleBytes:
			return nil, &FormatError{where, fmt.Sprintf("%d bytes", len(body)), fmt.Sprintf("at most %d", attest.MaxBundleBytes)}
		case len(bundles) == MaxMembers:
			return nil, &FormatError{name, fmt.Sprintf("more than %d bundles", MaxMembers), "fewer"}
		}
		bundles = append(bundles, body)
	}
}
