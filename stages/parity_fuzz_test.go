package stages

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// FuzzPieces: what llama-tokenize prints is read back id by id, or refused.
func FuzzPieces(f *testing.F) {
	f.Add("abc", "'\n    15 -> '", uint32(15), uint32(7))
	f.Add("\n", "", uint32(0), uint32(0))
	f.Add("' -> '", "\xff", uint32(1234567), uint32(1))
	f.Fuzz(func(t *testing.T, first, second string, a, b uint32) {
		printed := fmt.Sprintf("%6d -> '%s'\n%6d -> '%s'\n", a, first, b, second)
		side := &tokenizeTool{pieces: map[uint32][]byte{}}
		failure := side.readPieces([]byte(printed), []uint32{a, b})
		mark := fmt.Sprintf("'\n%6d -> '", b)
		if failure == "" && a != b && !strings.Contains(first+"'", mark) && !strings.Contains(first, mark[:1]) {
			if string(side.pieces[a]) != first || string(side.pieces[b]) != second {
				t.Errorf("got %q and %q, want %q and %q", side.pieces[a], side.pieces[b], first, second)
			}
		}
		if (&tokenizeTool{pieces: map[uint32][]byte{}}).readPieces([]byte(printed[:len(printed)-1]), []uint32{a, b}) == "" {
			t.Errorf("%q: the end cut off was not seen", printed)
		}
	})
}

// FuzzServerPiece: a piece is a string or bytes, and nothing else.
func FuzzServerPiece(f *testing.F) {
	for _, s := range []string{`"a"`, `[255, 0]`, `[256]`, `[-1]`, `null`, `{}`, `"\ud800"`, `[1.5]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var p piece
		if json.Unmarshal(body, &p) == nil && len(p) > len(body)*3 {
			t.Errorf("%q gives %d bytes", body, len(p))
		}
	})
}

func TestCutAt(t *testing.T) {
	sep := []uint32{1, 2, 2, 2}
	for _, c := range []struct {
		ids  []uint32
		want [][]uint32
	}{
		{nil, [][]uint32{nil}},
		{[]uint32{9, 1, 2, 2, 2, 8}, [][]uint32{{9}, {8}}},
		{[]uint32{1, 1, 2, 2, 2, 2, 1, 2, 2, 2}, [][]uint32{{1}, {2}, {}}},
		{[]uint32{1, 2, 1, 2, 2, 2}, [][]uint32{{1, 2}, {}}},
		{[]uint32{1, 2, 2}, [][]uint32{{1, 2, 2}}},
	} {
		got := cutAt(c.ids, sep)
		if !slices.EqualFunc(got, c.want, func(a, b []uint32) bool { return slices.Equal(a, b) }) {
			t.Errorf("%v: got %v, want %v", c.ids, got, c.want)
		}
	}
}
