package imatrix

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
)

const (
	mixtralGGUF  = "../../fixtures/imatrix/mixtral.gguf"
	mixtralDat   = "../../fixtures/imatrix/mixtral.dat"
	mixtralModel = "../../fixtures/architectures/mixtral/BF16.gguf"
)

// TestBothFormsSayTheSame reads what llama-imatrix wrote twice about one run.
func TestBothFormsSayTheSame(t *testing.T) {
	g, d := open(t, readFile(t, mixtralGGUF)), open(t, readFile(t, mixtralDat))
	if d.Form != FormDat || d.Chunks != g.Chunks || d.Chunks != 6 || !slices.Equal(d.Datasets, g.Datasets) || !slices.Equal(d.Datasets, []string{"text.txt"}) {
		t.Errorf("got %s with %d chunks of %q, want dat with %d of %q", d.Form, d.Chunks, d.Datasets, g.Chunks, g.Datasets)
	}
	if len(d.Entries) != len(g.Entries) {
		t.Fatalf("got %d entries, want %d", len(d.Entries), len(g.Entries))
	}
	experts := 0
	for _, e := range g.Entries {
		if e.Experts > 1 {
			experts++
		}
		want, _, err := g.Weights(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		got, ok, err := d.Weights(e.Name)
		if err != nil || !ok || len(got) != len(want) {
			t.Fatalf("%s: got %d weights, %v; want %d", e.Name, len(got), err, len(want))
		}
		for i := range want { // the old form multiplied by the calls once and rounded
			if diff := math.Abs(float64(got[i] - want[i])); diff > 2e-7*math.Abs(float64(want[i])) {
				t.Fatalf("%s: weight %d: got %v, want %v", e.Name, i, got[i], want[i])
			}
		}
	}
	if experts == 0 {
		t.Error("no entry has experts")
	}
	for _, m := range []*Matrix{g, d} {
		for _, f := range m.Validate(tensorsOf(t, mixtralModel)) {
			t.Errorf("%s: got %s, want nothing", m.Form, f)
		}
	}
}

func TestWritingTheOldFormGivesTheRealBytes(t *testing.T) {
	want := readFile(t, mixtralDat)
	m := open(t, want)
	c := Content{Datasets: m.Datasets, Chunks: m.Chunks}
	for _, e := range m.Entries {
		d := Data{Name: e.Name, Counts: e.Counts}
		if err := m.sums(e, func(_ int64, s []float32) error { d.Sums = append(d.Sums, s...); return nil }); err != nil {
			t.Fatal(err)
		}
		c.Entries = append(c.Entries, d)
	}
	var got bytes.Buffer
	if err := WriteDat(&got, c); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got %d bytes, want the %d of llama-imatrix", got.Len(), len(want))
	}
}

// oldForm is a small file of the old form.
func oldForm(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	c := Content{Datasets: []string{"text"}, Chunks: 2, Entries: []Data{
		{"blk.0.attn_q.weight", []float32{2}, ramp(32)}, {"blk.0.ffn_up_exps.weight", []float32{2}, ramp(64)},
	}}
	if err := WriteDat(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func patched(b []byte, at int, n int32) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint32(b[at:], uint32(n))
	return b
}

// TestTheOldFormRefuses: numbers that were read are compared with what the file holds.
func TestTheOldFormRefuses(t *testing.T) {
	b := oldForm(t)
	// offsets: entries 0, length 4, name 8 to 27, calls 27, values 31, numbers from 35 on.
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"no entries", patched(b, 0, 0), "byte 0: number of entries: got 0, want 1 to"},
		{"more entries than bytes", patched(b, 0, 1<<30), "number of entries: got 1073741824"},
		{"a negative number of entries", patched(b, 0, -1), "number of entries: got -1"},
		{"a name longer than the file", patched(b, 4, 1<<30), "byte 4: entry 1 of 2: name: length: got 1073741824"},
		{"an empty name", patched(b, 4, 0), "entry 1 of 2: name: length: got 0"},
		{"negative calls", patched(b, 27, -2), "calls: got -2"},
		{"no values", patched(b, 31, 0), "values: got 0"},
		{"more values than bytes", patched(b, 31, math.MaxInt32), "values: got 2147483647"},
		{"a third entry that is not there", patched(b, 0, 3), "entry 3 of 3"},
		{"bytes after the end", append(bytes.Clone(b), 0), "got 1 bytes more"},
		{"cut within numbers", b[:100], "values: got 32, want 1 to 16, the numbers that the file can hold"},
		{"cut within the name of the text", b[:len(b)-1], "name of the text: length: got 4"},
		{"a name with a NUL", func() []byte { x := bytes.Clone(b); x[10] = 0; return x }(), "want UTF-8 without NUL bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(bytes.NewReader(c.b), int64(len(c.b)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says: %s", err, c.want)
			}
		})
	}
}

// TestTheOldestFilesEndAfterTheirEntries reads files without chunks, and without a text.
func TestTheOldestFilesEndAfterTheirEntries(t *testing.T) {
	b := oldForm(t)
	end := len(b) - 12 // chunks, length, text
	for _, n := range []int{end, end + 4} {
		m := open(t, b[:n])
		if len(m.Entries) != 2 || len(m.Datasets) != 0 || (m.Chunks == 2) != (n > end) {
			t.Errorf("%d bytes: got %d entries, %d chunks, %q", n, len(m.Entries), m.Chunks, m.Datasets)
		}
	}
}

// TestOneNameTwice: readers disagree about which numbers count.
func TestOneNameTwice(t *testing.T) {
	var b bytes.Buffer
	e := Data{"blk.0.attn_q.weight", []float32{2}, ramp(4)}
	if err := WriteDat(&b, Content{Chunks: 1, Entries: []Data{e, e}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(bytes.NewReader(b.Bytes()), int64(b.Len())); err == nil || !strings.Contains(err.Error(), `"blk.0.attn_q.weight" a second time`) {
		t.Errorf("got %v, want the name", err)
	}
}
