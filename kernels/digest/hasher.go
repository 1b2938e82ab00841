// Package digest reads bytes once and gives the digests that identify them:
// SHA-256 (FIPS 180-4), and the id that git gives the same bytes as a blob.
// A [Manifest] binds the names, sizes and digests of a folder under one digest.
//
// Files are read in blocks, so memory does not grow with them.
package digest

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	godigest "github.com/opencontainers/go-digest"
)

// blockSize is what is read and hashed at a time, in bytes.
const blockSize = 1 << 20

// Sums are the size and digests of one file.
type Sums struct {
	Size    int64           // bytes
	SHA256  godigest.Digest // "sha256:" and 64 hex digits
	GitBlob string          // 40 hex digits: SHA-1 over "blob <size>\0" and the bytes; an id of publishers, no proof
}

// SizeError tells that there are other bytes than announced.
type SizeError struct {
	Name string // of the file, empty for a reader
	Got  int64  // bytes; more than Want: at least that many
	Want int64  // bytes
}

func (e *SizeError) Error() string {
	got := fmt.Sprintf("%d bytes", e.Got)
	if e.Got > e.Want {
		got = fmt.Sprintf("more than %d bytes", e.Want)
	}
	where := ""
	if e.Name != "" {
		where = e.Name + ": "
	}
	return fmt.Sprintf("digest: %sgot %s, want %d", where, got, e.Want)
}

// Hasher computes [Sums] of bytes as they pass, as an io.Writer. Git's id
// starts with the size, so the size is announced first and holds in the end.
type Hasher struct {
	size, n int64
	sha256  hash.Hash
	git     hash.Hash
}

// NewHasher starts over size bytes.
func NewHasher(size int64) *Hasher {
	h := &Hasher{size: size, sha256: sha256.New(), git: sha1.New()}
	fmt.Fprintf(h.git, "blob %d\x00", size)
	return h
}

// Write refuses bytes beyond the announced size with a [*SizeError] and takes none of them.
func (h *Hasher) Write(p []byte) (int, error) {
	if int64(len(p)) > h.size-h.n {
		return 0, &SizeError{Got: h.n + int64(len(p)), Want: h.size}
	}
	h.sha256.Write(p)
	h.git.Write(p)
	h.n += int64(len(p))
	return len(p), nil
}

// Sums gives the digests of the bytes written so far; Size tells how many.
// GitBlob is empty until all announced bytes were written.
func (h *Hasher) Sums() Sums {
	s := Sums{Size: h.n, SHA256: godigest.NewDigest(godigest.SHA256, h.sha256)}
	if h.n == h.size {
		s.GitBlob = hex.EncodeToString(h.git.Sum(nil))
	}
	return s
}
