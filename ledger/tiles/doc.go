// Package tiles writes a log as a static tiled log, plain files that any web
// server can serve, and checks such a folder without the log's database.
//
// The layout is C2SP tlog-tiles:
//
//	checkpoint                   the newest signed checkpoint (C2SP tlog-checkpoint)
//	tile/<L>/<N>[.p/<W>]         hashes of 32 bytes, 256 of them or W
//	tile/entries/<N>[.p/<W>]     as many entries, each after its length as a big-endian uint16
//
// An entry is the canonical leaf of [ledger.Leaf], so that the RFC 6962 leaf
// hash of its bytes is the hash in the tile of level 0. Bundles and evidence are
// not in the folder: what it shows is that the log has exactly these entries.
//
// Nothing in a folder ever changes but checkpoint, which is replaced last, when
// everything that it signs is there. Tiles of smaller trees stay, because their
// checkpoints were published.
package tiles

import (
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

// Sizes of tiles.
const (
	height = 8           // levels of the tree in a tile
	width  = 1 << height // hashes or entries in a full tile

	maxEntryBytes  = 1<<16 - 1 // of the uint16 length
	maxBundleBytes = width * (2 + maxEntryBytes)
)

const (
	checkpointFile = "checkpoint"
	entriesLevel   = -1 // package tlog's level of the data
)

// Names of the checks over a folder.
const (
	CheckFile    = "file is there"           // every tile that the checkpoint's size calls for
	CheckTile    = "tile recomputes"         // hashes of every level against the entries
	CheckEntries = "entries hash to tile"    // entries against the tile of level 0
	CheckStray   = "file belongs to the log" // nothing else lies in the folder
)

// path is the place of a tile in the folder.
func path(t tlog.Tile) string {
	return "tile/" + strings.TrimPrefix(strings.Replace(t.Path(), "tile/8/data/", "tile/8/entries/", 1), "tile/8/")
}

// parsePath reads what path writes, and nothing else.
func parsePath(name string) (tlog.Tile, error) {
	rest, ok := strings.CutPrefix(name, "tile/")
	if entries, is := strings.CutPrefix(rest, "entries/"); is {
		rest = "data/" + entries
	}
	t, err := tlog.ParseTilePath("tile/8/" + rest)
	if err != nil || !ok || path(t) != name {
		return tlog.Tile{}, fmt.Errorf("tiles: %.200q is not the path of a tile", name)
	}
	return t, nil
}

// parseHashes reads a tile of w hashes.
func parseHashes(data []byte, w int) ([]tlog.Hash, error) {
	if len(data) != w*tlog.HashSize {
		return nil, fmt.Errorf("%d bytes, want %d for %d hashes", len(data), w*tlog.HashSize, w)
	}
	list := make([]tlog.Hash, w)
	for i := range list {
		copy(list[i][:], data[i*tlog.HashSize:])
	}
	return list, nil
}

// parseEntries reads a bundle of exactly w entries. They share its memory.
func parseEntries(data []byte, w int) ([][]byte, error) {
	list := make([][]byte, 0, min(w, width))
	for rest := data; len(rest) > 0; {
		if len(list) == w {
			return nil, fmt.Errorf("%d bytes after the last of %d entries", len(rest), w)
		}
		if len(rest) < 2 {
			return nil, fmt.Errorf("a length of one byte after entry %d of %d", len(list), w)
		}
		n := int(rest[0])<<8 | int(rest[1])
		if n > len(rest)-2 {
			return nil, fmt.Errorf("entry %d of %d bytes, and %d are left", len(list), n, len(rest)-2)
		}
		list, rest = append(list, rest[2:2+n:2+n]), rest[2+n:]
	}
	if len(list) != w {
		return nil, fmt.Errorf("%d entries, want %d", len(list), w)
	}
	return list, nil
}

// appendEntry adds an entry to a bundle.
func appendEntry(bundle, entry []byte) ([]byte, error) {
	if len(entry) > maxEntryBytes {
		return nil, fmt.Errorf("tiles: entry of %d bytes, want at most %d", len(entry), maxEntryBytes)
	}
	return append(append(bundle, byte(len(entry)>>8), byte(len(entry))), entry...), nil
}

// appendHashes makes a tile.
func appendHashes(tile []byte, hashes []tlog.Hash) []byte {
	for _, h := range hashes {
		tile = append(tile, h[:]...)
	}
	return tile
}

// tileAt is the tile of a level of hashes (or of entriesLevel) that a tree of
// the given size has at index n; W is 0 when it has none.
func tileAt(level int, n, size int64) tlog.Tile {
	count := size
	if level > 0 {
		count = size >> (height * level)
	}
	w := int64(0)
	if n <= count/width { // before multiplying: n may come from a file's name
		w = min(count-n*width, width)
	}
	return tlog.Tile{H: height, L: level, N: n, W: int(w)}
}

// leafBound keeps our own entries within an entry's length.
var _ [maxEntryBytes - ledger.MaxLeafBytes]struct{}
