// Package tensorhash reads a model file once and gives the digests of the file
// and of every tensor in it.
//
// The digests of tensors are those that llama.cpp's llama-gguf-hash prints: XXH64 with
// seed 0 (https://github.com/Cyan4973/xxHash), SHA-1 and SHA-256 over the bytes of a
// tensor without padding, and over the tensors of a whole model one after the other.
// XXH64 and SHA-1 identify what nobody forged and prove nothing; SHA-256 does.
//
// Files are read in blocks, so memory does not grow with them.
package tensorhash

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/cespare/xxhash/v2"
	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/digest"
)

// blockSize is what is read and hashed at a time, in bytes.
const blockSize = 1 << 20

// Span is one tensor's byte range [Offset, Offset+Size) in its file.
type Span struct{ Offset, Size int64 }

// Options tell what is computed. SHA-256 of the tensors is when Tensors is set.
type Options struct {
	File     bool // SHA-256 and git blob id of each whole file
	Tensors  bool // SHA-256 of each tensor
	GGUFHash bool // XXH64, SHA-1 and SHA-256 of each tensor and of all together
}

// Digests are in lower-case hexadecimal digits, empty where not asked for.
type Digests struct {
	XXH64  string `json:"xxh64,omitempty"`
	SHA1   string `json:"sha1,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// sums are running hashes of one tensor or of a model, nil where not asked for.
type sums struct{ xxh64, sha1, sha256 hash.Hash }

func newSums(o Options) *sums {
	s := &sums{}
	if o.GGUFHash {
		s.xxh64, s.sha1 = xxhash.New(), sha1.New()
	}
	if o.GGUFHash || o.Tensors {
		s.sha256 = sha256.New()
	}
	return s
}

func (s *sums) writers(to []io.Writer) []io.Writer {
	for _, h := range []hash.Hash{s.sha256, s.sha1, s.xxh64} { // the slowest first
		if h != nil {
			to = append(to, h)
		}
	}
	return to
}

func (s *sums) digests() Digests {
	hexed := func(h hash.Hash) string {
		if h == nil {
			return ""
		}
		return hex.EncodeToString(h.Sum(nil))
	}
	return Digests{hexed(s.xxh64), hexed(s.sha1), hexed(s.sha256)}
}

// Hasher hashes the files of one model, one after the other.
type Hasher struct {
	o     Options
	model *sums
}

// New starts a model.
func New(o Options) *Hasher {
	h := &Hasher{o: o, model: &sums{}}
	if o.GGUFHash {
		h.model = newSums(o)
	}
	return h
}

// Model gives the digests over the tensors of all files so far, empty without [Options.GGUFHash].
func (h *Hasher) Model() Digests { return h.model.digests() }

// File reads the first size bytes of r once. Spans are in ascending order and
// do not overlap; where whole files are not asked for, nothing else is read.
// The sums are zero without [Options.File]. The error is that of r or of ctx, or
// tells which span lies outside the file or its order.
func (h *Hasher) File(ctx context.Context, r io.ReaderAt, size int64, spans []Span) (digest.Sums, []Digests, error) {
	var file []io.Writer // two, so that each has a core
	whole, blob := sha256.New(), sha1.New()
	if h.o.File {
		fmt.Fprintf(blob, "blob %d\x00", size) // what git puts before a file, see package digest
		file = []io.Writer{whole, blob}
	}
	p := pass{ctx: ctx, r: r, buf: make([]byte, min(blockSize, max(size, 1)))}
	of := make([]Digests, 0, len(spans))
	at := int64(0)
	for i, s := range spans {
		if s.Offset < at || s.Size < 0 || s.Size > size-s.Offset {
			return digest.Sums{}, nil, fmt.Errorf("tensorhash: tensor %d: got %d bytes at %d, want a range from %d to %d", i, s.Size, s.Offset, at, size)
		}
		if err := p.hash(at, s.Offset, file...); err != nil {
			return digest.Sums{}, nil, err
		}
		tensor := newSums(h.o)
		at = s.Offset + s.Size
		if err := p.hash(s.Offset, at, h.model.writers(tensor.writers(slices.Clone(file)))...); err != nil {
			return digest.Sums{}, nil, err
		}
		of = append(of, tensor.digests())
	}
	if file == nil {
		return digest.Sums{}, of, nil
	}
	if err := p.hash(at, size, file...); err != nil {
		return digest.Sums{}, nil, err
	}
	return digest.Sums{Size: size, SHA256: godigest.NewDigest(godigest.SHA256, whole), GitBlob: hex.EncodeToString(blob.Sum(nil))}, of, nil
}
