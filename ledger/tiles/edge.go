package tiles

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// edge is the right edge of a growing tree: the last complete node of each level,
// all that package tlog needs for the next leaf and for the root, and the tiles
// that are not full yet. Its size does not grow with the tree.
type edge struct {
	size  int64
	index [64]int64
	hash  [64]tlog.Hash
	tiles [64/height + 1][]tlog.Hash
}

// ReadHashes gives nodes of the edge to package tlog.
func (e *edge) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		level, _ := tlog.SplitStoredHashIndex(x)
		if e.index[level] != x {
			return nil, fmt.Errorf("tiles: node %d is not on the edge of the tree of size %d", x, e.size)
		}
		out[i] = e.hash[level]
	}
	return out, nil
}

// push adds a leaf. It calls full for every tile that the leaf completes, from
// level 0 up.
func (e *edge) push(leaf tlog.Hash, full func(t tlog.Tile, hashes []tlog.Hash) error) error {
	hashes, err := tlog.StoredHashesForRecordHash(e.size, leaf, e)
	if err != nil {
		return fmt.Errorf("tiles: nodes of entry %d: %w", e.size, err)
	}
	first := tlog.StoredHashIndex(0, e.size)
	e.size++
	for level, h := range hashes {
		e.index[level], e.hash[level] = first+int64(level), h
		if level%height != 0 {
			continue
		}
		l := level / height
		if e.tiles[l] = append(e.tiles[l], h); len(e.tiles[l]) < width {
			continue
		}
		n := e.size>>(height*(l+1)) - 1
		if err := full(tlog.Tile{H: height, L: l, N: n, W: width}, e.tiles[l]); err != nil {
			return err
		}
		e.tiles[l] = e.tiles[l][:0]
	}
	return nil
}

// partial calls visit for every tile that is not full, from level 0 up.
func (e *edge) partial(visit func(t tlog.Tile, hashes []tlog.Hash) error) error {
	for l, hashes := range e.tiles {
		if len(hashes) == 0 {
			continue
		}
		n := e.size >> (height * (l + 1))
		if err := visit(tlog.Tile{H: height, L: l, N: n, W: len(hashes)}, hashes); err != nil {
			return err
		}
	}
	return nil
}

func (e *edge) root() (tlog.Hash, error) { return tlog.TreeHash(e.size, e) }

// edgeAt reads the edge of the tree of the given size, a multiple of width, from
// stored nodes.
func edgeAt(size int64, nodes tlog.HashReader) (*edge, error) {
	e := &edge{size: size}
	for level := range e.hash {
		if size>>level == 0 {
			break
		}
		x := tlog.StoredHashIndex(level, size>>level-1)
		hashes, err := nodes.ReadHashes([]int64{x})
		if err != nil {
			return nil, fmt.Errorf("tiles: node %d at level %d: %w", size>>level-1, level, err)
		}
		e.index[level], e.hash[level] = x, hashes[0]
	}
	for l := 1; size>>(height*l) > 0; l++ {
		t := tileAt(l, size>>(height*(l+1)), size)
		if t.W == 0 {
			continue
		}
		hashes, err := nodes.ReadHashes(nodesOf(t))
		if err != nil {
			return nil, fmt.Errorf("tiles: nodes of %s: %w", path(t), err)
		}
		e.tiles[l] = hashes
	}
	return e, nil
}

// nodesOf lists the storage indexes of a tile's hashes.
func nodesOf(t tlog.Tile) []int64 {
	list := make([]int64, t.W)
	for i := range list {
		list[i] = tlog.StoredHashIndex(t.L*height, t.N*width+int64(i))
	}
	return list
}
