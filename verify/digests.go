package verify

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"

	"github.com/weighmaster/weighmaster/attest"
	"github.com/weighmaster/weighmaster/kernels/digest"
)

// gitBlob256 is the git blob id of a repository whose object format is SHA-256.
const gitBlob256 = "gitBlob of 64 digits"

// measures are the digests of a file, apart from sha256 and gitBlob, that a
// subject may name (in-toto DigestSet).
var measures = map[string]func(size int64) hash.Hash{
	"sha384":     func(int64) hash.Hash { return sha512.New384() },
	"sha512":     func(int64) hash.Hash { return sha512.New() },
	"sha512_256": func(int64) hash.Hash { return sha512.New512_256() },
	"sha512_224": func(int64) hash.Hash { return sha512.New512_224() },
	"sha224":     func(int64) hash.Hash { return sha256.New224() },
	"sha3_224":   func(int64) hash.Hash { return sha3.New224() },
	"sha3_256":   func(int64) hash.Hash { return sha3.New256() },
	"sha3_384":   func(int64) hash.Hash { return sha3.New384() },
	"sha3_512":   func(int64) hash.Hash { return sha3.New512() },
	"sha1":       func(int64) hash.Hash { return sha1.New() },
	"md5":        func(int64) hash.Hash { return md5.New() },
	gitBlob256: func(size int64) hash.Hash {
		h := sha256.New()
		fmt.Fprintf(h, "blob %d\x00", size)
		return h
	},
}

// measure reads the file once and computes its sha256 and git blob id, and each
// further digest that any bundle names: what a Statement claims beside the
// sha256 must agree too, and only what is named costs anything.
func measure(ctx context.Context, in Input) (digest.Sums, map[string]string, error) {
	more := map[string]hash.Hash{}
	for _, bundle := range in.Package.Bundles {
		u, err := attest.Inspect(bundle)
		if err != nil {
			continue // the signatures check says what is wrong with it
		}
		for _, subject := range u.Statement.GetSubject() {
			for name, value := range subject.GetDigest() {
				name = measureOf(name, value)
				if start, ok := measures[name]; ok && more[name] == nil {
					more[name] = start(in.Size)
				}
			}
		}
	}
	file := in.File
	for _, h := range more {
		file = io.TeeReader(file, h)
	}
	sums, err := digest.Reader(ctx, file, in.Size)
	if err != nil {
		return sums, nil, err
	}
	all := map[string]string{"sha256": sums.SHA256.Encoded(), "gitBlob": sums.GitBlob}
	for name, h := range more {
		all[name] = hex.EncodeToString(h.Sum(nil))
	}
	return sums, all, nil
}

// measureOf names the measure that a digest is compared with.
func measureOf(name, value string) string {
	if name == "gitBlob" && len(value) == 2*sha256.Size {
		return gitBlob256
	}
	return name
}

// disagreement is the first digest of a subject that the file does not have.
func (s *state) disagreement(where string, subject *attest.ResourceDescriptor) *Finding {
	measured := maps.Clone(s.measured)
	if measureOf("gitBlob", subject.GetDigest()["gitBlob"]) == gitBlob256 {
		measured["gitBlob"] = measured[gitBlob256]
	}
	if err := attest.AgreeDigests(where, subject.GetDigest(), measured); err != nil {
		return &Finding{where, err.Error(), "every digest that a claim gives for the file to be the file's"}
	}
	return nil
}
