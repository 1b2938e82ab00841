package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// proofHeader is the first line of a C2SP tlog-proof.
const proofHeader = "c2sp.org/tlog-proof@v1"

// InclusionProof is a parsed C2SP tlog-proof. Nothing in it is verified.
type InclusionProof struct {
	Index      LeafIndex
	Hashes     tlog.RecordProof // from the leaf's sibling up, RFC 6962 section 2.1.1
	Checkpoint []byte           // signed note
}

// Prove returns a C2SP tlog-proof that a tree with the given signed checkpoint
// has the entry; nil takes the newest checkpoint. *[Contradiction] when the
// stored tree is not the one that the checkpoint signs.
func (l *Log) Prove(ctx context.Context, index LeafIndex, checkpoint []byte) ([]byte, error) {
	if checkpoint == nil {
		newest, err := l.Checkpoint(ctx)
		if err != nil {
			return nil, err
		}
		checkpoint = newest
	}
	c, err := l.Extends(ctx, checkpoint)
	if err != nil {
		return nil, err
	}
	if index < 0 || int64(index) >= c.Size {
		return nil, fmt.Errorf("ledger: prove %s: %w in the checkpoint of size %d; take a newer checkpoint", where(index), ErrNotFound, c.Size)
	}
	e, _, err := l.record(ctx, index)
	if err != nil {
		return nil, err
	}
	hashes, err := tlog.ProveRecord(c.Size, int64(index), hashReader{ctx, l.store})
	if err != nil {
		return nil, fmt.Errorf("ledger: prove %s: %w", where(index), err)
	}
	proof := InclusionProof{Index: index, Hashes: hashes, Checkpoint: checkpoint}.text()
	if _, err := VerifyProof(proof, e.Leaf, l.opt.Verifier); err != nil {
		return nil, &EntryError{Finding{CheckNodes, where(index), "nodes that do not lead from the leaf to the signed root", "nodes that do"}}
	}
	return proof, nil
}

// Consistency returns the RFC 6962 section 2.1.2 proof that the tree of a signed
// checkpoint extends the tree of the first old entries: what a witness asks
// for. It is empty when old is 0 or the checkpoint's size.
func (l *Log) Consistency(ctx context.Context, old int64, checkpoint []byte) (tlog.TreeProof, error) {
	c, err := l.Extends(ctx, checkpoint)
	if err != nil {
		return nil, err
	}
	if old < 0 || old > c.Size {
		return nil, fmt.Errorf("ledger: consistency from size %d to the checkpoint of size %d: want a size from 0 to %d", old, c.Size, c.Size)
	}
	if old == 0 || old == c.Size {
		return nil, nil
	}
	before, err := l.root(ctx, old)
	if err != nil {
		return nil, err
	}
	proof, err := tlog.ProveTree(c.Size, old, hashReader{ctx, l.store})
	if err != nil {
		return nil, fmt.Errorf("ledger: consistency of sizes %d and %d: %w", old, c.Size, err)
	}
	if tlog.CheckTree(proof, c.Size, c.Root, old, before) != nil {
		return nil, &EntryError{Finding{CheckNodes, fmt.Sprintf("tree of %d entries", old), "nodes that do not lead to the signed root", "nodes that do"}}
	}
	return proof, nil
}

// VerifyProof checks, without the log, that the tree of the proof's checkpoint
// has the leaf, and that v signed the checkpoint (see [ParseCheckpoint]). The
// caller has compared the leaf with the bundle at hand.
func VerifyProof(proof []byte, leaf Leaf, v note.Verifier) (Checkpoint, error) {
	p, err := ParseProof(proof)
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := ParseCheckpoint(p.Checkpoint, v)
	if err != nil {
		return Checkpoint{}, err
	}
	hash, err := leaf.Hash()
	if err != nil {
		return Checkpoint{}, err
	}
	if err := tlog.CheckRecord(p.Hashes, c.Size, c.Root, int64(p.Index), hash); err != nil {
		return Checkpoint{}, fmt.Errorf("ledger: the proof does not lead from the leaf of bundle %s as %s to the root %s of size %d: %w; the proof is of another entry, or it or the entry was altered",
			leaf.Bundle, where(p.Index), c.Root, c.Size, err)
	}
	return c, nil
}

// ParseProof reads a C2SP tlog-proof of at most MaxProofBytes. An "extra" line
// is refused: we write none, and it would be unauthenticated.
func ParseProof(proof []byte) (InclusionProof, error) {
	if len(proof) > MaxProofBytes {
		return InclusionProof{}, fmt.Errorf("ledger: tlog-proof of %d bytes, want at most %d", len(proof), MaxProofBytes)
	}
	rest, ok := strings.CutPrefix(string(proof), proofHeader+"\n")
	if !ok {
		return InclusionProof{}, fmt.Errorf("ledger: tlog-proof starts with %.40q, want the line %q", proof, proofHeader)
	}
	if strings.HasPrefix(rest, "extra ") {
		return InclusionProof{}, errors.New("ledger: tlog-proof has an extra line, want none: nothing authenticates it")
	}
	rest, ok = strings.CutPrefix(rest, "index ")
	line, rest, found := strings.Cut(rest, "\n")
	index, err := strconv.ParseInt(line, 10, 64)
	if !ok || !found || err != nil || index < 0 || strconv.FormatInt(index, 10) != line {
		return InclusionProof{}, fmt.Errorf("ledger: tlog-proof index line %.60q, want \"index \" and a decimal number without leading zeros", line)
	}
	p := InclusionProof{Index: LeafIndex(index), Hashes: tlog.RecordProof{}}
	for {
		line, rest, found = strings.Cut(rest, "\n")
		if !found {
			return InclusionProof{}, errors.New("ledger: tlog-proof ends before its checkpoint")
		}
		if line == "" {
			break
		}
		if len(p.Hashes) == MaxProofHashes {
			return InclusionProof{}, fmt.Errorf("ledger: tlog-proof has more than %d hashes", MaxProofHashes)
		}
		h, err := parseHash(line)
		if err != nil {
			return InclusionProof{}, fmt.Errorf("ledger: tlog-proof line %d: %w", len(p.Hashes)+3, err)
		}
		p.Hashes = append(p.Hashes, h)
	}
	if rest == "" {
		return InclusionProof{}, errors.New("ledger: tlog-proof has no checkpoint")
	}
	p.Checkpoint = []byte(rest)
	return p, nil
}

func (p InclusionProof) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nindex %d\n", proofHeader, p.Index)
	for _, h := range p.Hashes {
		fmt.Fprintf(&b, "%s\n", h)
	}
	b.WriteByte('\n')
	b.Write(p.Checkpoint)
	return b.Bytes()
}
