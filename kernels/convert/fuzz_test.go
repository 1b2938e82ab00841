package convert

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
)

func FuzzSentencePiece(f *testing.F) {
	if real, err := os.ReadFile(shared.Path(f, "data", "llama-odd", "hf", "tokenizer.model")); err == nil {
		f.Add(real)
	}
	f.Add([]byte{0x0A, 0x05, 0x0A, 0x01, 'a', 0x18, 0x01})                                        // one piece
	f.Add([]byte{0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F})                     // a length of 2^63
	f.Add([]byte{0x0A, 0x03, 0x18, 0xFF, 0x01})                                                   // type 255
	f.Add([]byte{0x08, 0x01})                                                                     // a piece that is a number
	f.Add(append([]byte{0x0A, 0x05, 0x15}, binary.LittleEndian.AppendUint32(nil, 0x7FC00000)...)) // a NaN score
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		pieces, err := parsePieces(body)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "tokenizer.model: ") || pieces != nil {
				t.Fatalf("got %d pieces and %v, want none and the file's name", len(pieces), err)
			}
			return
		}
		if len(pieces) == 0 || len(pieces) > len(body)/2 {
			t.Fatalf("got %d pieces of %d bytes", len(pieces), len(body))
		}
		for i, p := range pieces {
			if p.kind < TokenNormal || p.kind > TokenByte {
				t.Fatalf("piece %d: got type %d", i, p.kind)
			}
		}
	})
}

func FuzzRows(f *testing.F) {
	f.Add(uint8(4), uint8(8), uint8(3), uint16(7))
	f.Add(uint8(1), uint8(2), uint8(1), uint16(0))
	f.Fuzz(func(t *testing.T, heads, dim, width uint8, first uint16) {
		rows := int64(heads) * int64(dim)
		if !Permutes(rows, int64(heads)) || width == 0 {
			return
		}
		order, seen := HeadOrder(rows, int64(heads)), map[int64]bool{}
		for row := range rows {
			if from := order(row); from < 0 || from >= rows || from/int64(dim) != row/int64(dim) || seen[from] {
				t.Fatalf("row %d of %d in %d heads comes from row %d", row, rows, heads, from)
			}
			seen[order(row)] = true
		}
		checkRows(t, rows, int64(width), order, int64(first)%(rows*int64(width)))
	})
}

// checkRows compares a read from any weight to the end with a plain permutation.
func checkRows(t *testing.T, rows, width int64, order Order, first int64) {
	t.Helper()
	stored, want := make([]byte, 2*rows*width), []byte{}
	for i := range stored {
		stored[i] = byte(i * 7 / 2)
	}
	for row := range rows {
		want = append(want, stored[2*order(row)*width:][:2*width]...)
	}
	got := make([]byte, int64(len(want))-2*first)
	r := Rows{R: bytes.NewReader(stored), Codec: codecBF16(t), Count: rows, Width: width, Order: order}
	if err := r.Raw(got, first); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want[2*first:]) {
		t.Fatal("rows differ from a plain permutation")
	}
}
