package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/hostile"
)

// splitParts reads the parts that llama-gguf-split made.
func splitParts(t *testing.T, prefix string) []Part {
	t.Helper()
	names := PartNames("../../fixtures/split/" + prefix + "-00002-of-00003.gguf")
	if len(names) != 3 {
		t.Fatalf("got %q, want 3 names", names)
	}
	parts := make([]Part, len(names))
	for i, name := range names {
		parts[i] = part(filepath.Base(name), read(t, name))
	}
	return parts
}

func part(name string, b []byte) Part { return Part{name, bytes.NewReader(b), int64(len(b))} }

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSplitIsReadAsOneFile compares parts in any order with the file that they were made from.
func TestSplitIsReadAsOneFile(t *testing.T) {
	b := read(t, "../../fixtures/split/whole.gguf")
	whole, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"part", "first"} { // first: a first part without tensors
		parts := splitParts(t, prefix)
		for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}} {
			f, err := OpenSplit([]Part{parts[order[0]], parts[order[1]], parts[order[2]]})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(f.KVs, whole.KVs, func(a, b KV) bool { return a.Key == b.Key && a.Value.Equal(b.Value) }) {
				t.Errorf("%s: got keys %v, want %v", prefix, f.KVs, whole.KVs)
			}
			if f.Size != parts[0].Size+parts[1].Size+parts[2].Size || len(f.Parts) != 3 {
				t.Errorf("%s: got %d bytes in %d parts", prefix, f.Size, len(f.Parts))
			}
			for i, want := range whole.Tensors {
				got := f.Tensors[i]
				data, err := io.ReadAll(f.Section(got))
				original, err2 := io.ReadAll(whole.Section(want))
				if err != nil || err2 != nil || got.Name != want.Name || !bytes.Equal(data, original) {
					t.Errorf("%s: %s: got %s with other bytes, %v, %v", prefix, want.Name, got.Name, err, err2)
				}
				if found, ok := f.Tensor(want.Name); !ok || found.Part != got.Part {
					t.Errorf("%s: %s is not found by its name", prefix, want.Name)
				}
			}
		}
	}
}

// TestMergedFileIsWhole: a merge leaves the split's keys behind, with a count of 0.
func TestMergedFileIsWhole(t *testing.T) {
	b := read(t, "../../fixtures/split/merged.gguf")
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil || len(f.Tensors) != 7 {
		t.Errorf("got %v, %v, want 7 tensors", f, err)
	}
	for name, b := range map[string][]byte{"x-00001-of-00001.gguf": b, "never split": sample(), "one part": splitHeader(0, 1, 1, "a")} {
		if f, err := OpenSplit([]Part{part(name, b)}); err != nil || len(f.Tensors) == 0 {
			t.Errorf("%s: got %v, %v, want the whole file", name, f, err)
		}
	}
}

// header builds part no (from 0) of count with one tensor, and further keys.
func splitHeader(no, count uint16, total int32, tensor string, more ...func(*hostile.Builder)) []byte {
	x := hostile.V3(1, uint64(3+len(more)))
	for _, add := range more {
		add(x)
	}
	x.KV(keySplitNo, uint32(TypeUint16)).Raw(byte(no), byte(no>>8)).KV(keySplits, uint32(TypeUint16)).Raw(byte(count), byte(count>>8)).KV(keySplitTensors, uint32(TypeInt32)).U32(uint32(total))
	return x.Tensor(tensor, uint32(F32), 0, 8).Data(32, 32)
}

func text(key, value string) func(*hostile.Builder) {
	return func(x *hostile.Builder) { x.KV(key, uint32(TypeString)).Str(value) }
}

func TestHostileSplits(t *testing.T) {
	real := splitParts(t, "part")
	one := part("m-00001-of-00002.gguf", splitHeader(0, 2, 2, "a"))
	two := part("m-00002-of-00002.gguf", splitHeader(1, 2, 2, "b"))
	big := hostile.GGUFHeader(binary.BigEndian, 3, 1, 3).KV(keySplitNo, uint32(TypeUint16)).Raw(0, 1).KV(keySplits, uint32(TypeUint16)).Raw(0, 2).KV(keySplitTensors, uint32(TypeInt32)).U32(2)
	if _, err := OpenSplit([]Part{one, two}); err != nil {
		t.Fatalf("the sound pair is refused: %v", err)
	}
	for name, c := range map[string]struct {
		parts []Part
		want  string
	}{
		"nothing":                      {nil, "got no part"},
		"a missing part is named":      {[]Part{real[0], real[2]}, "got 2 of 3 parts; missing: part 2 (part-00002-of-00003.gguf), want all parts"},
		"two missing parts":            {[]Part{real[1]}, "missing: part 1 (part-00001-of-00003.gguf), part 3 (part-00003-of-00003.gguf)"},
		"a missing part without names": {[]Part{{R: one.R, Size: one.Size}}, "got 1 of 2 parts; missing: part 2, want"},
		"65535 parts, one at hand":     {[]Part{part("", splitHeader(0, 65535, 2, "a"))}, "and 65518 more"},
		"a part twice":                 {[]Part{one, two, {R: two.R, Size: two.Size}}, "part 2 a second time"},
		"a whole file among parts":     {[]Part{one, part("whole.gguf", sample())}, "whole.gguf: got a file without split.count"},
		"two whole files":              {[]Part{part("x", sample()), part("y", sample())}, "x: got a file without split.count"},
		"duplicate tensor across parts": {[]Part{one, part("m-00002-of-00002.gguf", splitHeader(1, 2, 2, "a"))},
			`m-00002-of-00002.gguf: got tensor "a" a second time, after m-00001-of-00002.gguf`},
		"another count":            {[]Part{one, part("n", splitHeader(1, 3, 2, "b"))}, "got a part of 3, want a part of 2"},
		"another total":            {[]Part{one, part("n", splitHeader(1, 2, 3, "b"))}, "n: got split.tensors.count = 3, want 2"},
		"fewer tensors than told":  {[]Part{part("o", splitHeader(0, 2, 9, "a")), part("n", splitHeader(1, 2, 9, "b"))}, "o: got split.tensors.count = 9, want 2"},
		"a negative total":         {[]Part{part("o", splitHeader(0, 2, -2, "a")), part("n", splitHeader(1, 2, -2, "b"))}, "split.tensors.count = -2"},
		"name and number disagree": {[]Part{one, part("m-00001-of-00002.gguf", splitHeader(1, 2, 2, "b"))}, "got part 2 of 2 by its keys, want part 1 of 2 by its name"},
		"another model's part": {[]Part{part("o", splitHeader(0, 2, 2, "a", text("general.name", "A"))), part("n", splitHeader(1, 2, 2, "b", text("general.name", "B")))},
			`n: got general.name = "B", want "A", as in the first part; these are parts of different models`},
		"another architecture's part": {[]Part{one, part("n", splitHeader(1, 2, 2, "b", text("general.architecture", "llama")))}, "want no architecture"},
		"another byte order":          {[]Part{one, part("n", big.Tensor("b", uint32(F32), 0, 8).Data(32, 32))}, "got version 3, BigEndian, want version 3, LittleEndian"},
		"split.no beyond the count":   {[]Part{part("o", splitHeader(2, 2, 2, "a"))}, `key "split.no": got UINT16 2, want an integer below 2`},
		"split.count is a string":     {[]Part{part("o", hostile.V3(0, 1).KV(keySplits, uint32(TypeString)).Str("3").Bytes())}, `key "split.count": got STRING "3", want an integer`},
		"split.count is huge":         {[]Part{part("o", hostile.V3(0, 1).KV(keySplits, uint32(TypeUint64)).U64(1<<40).Bytes())}, "want an integer from 0 to 65535"},
		"a part is cut":               {[]Part{one, {two.Name, two.R, two.Size - 1}}, "m-00002-of-00002.gguf: gguf: truncated"},
		"bytes after a part's tensor": {[]Part{one, part("n", append(splitHeader(1, 2, 2, "b"), 0))}, "n: gguf: byte"},
	} {
		f, err := OpenSplit(c.parts)
		if f != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a refusal that says %q", name, err, c.want)
		}
	}
}

func TestPartNames(t *testing.T) {
	got := PartNames("dir/m-00002-of-00002.gguf")
	if want := []string{"dir/m-00001-of-00002.gguf", "dir/m-00002-of-00002.gguf"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, name := range []string{"m.gguf", "m-1-of-2.gguf", "m-00003-of-00002.gguf", "m-00000-of-00002.gguf", "m-00001-of-99999.gguf", "m-000001-of-000002.gguf",
		"m-00001-of-00002.safetensors", "m-99999999999999999999-of-99999999999999999999.gguf"} {
		if got := PartNames(name); got != nil {
			t.Errorf("%s: got %d names, want none", name, len(got))
		}
	}
}

// TestBigEndianData compares a file that llama.cpp's own script turned round with the original.
func TestBigEndianData(t *testing.T) {
	little, big := read(t, "../../fixtures/byteorder/little.gguf"), read(t, "../../fixtures/byteorder/big.gguf")
	f, err := Open(bytes.NewReader(little), int64(len(little)))
	if err != nil {
		t.Fatal(err)
	}
	g, err := Open(bytes.NewReader(big), int64(len(big)))
	if err != nil {
		t.Fatal(err)
	}
	if g.Order != binary.BigEndian || !slices.EqualFunc(f.KVs, g.KVs, func(a, b KV) bool { return a.Key == b.Key && a.Value.Equal(b.Value) }) {
		t.Errorf("got %v and keys %v, want big-endian and %v", g.Order, g.KVs, f.KVs)
	}
	turned := 0
	for i, a := range f.Tensors {
		b := g.Tensors[i]
		want, err := io.ReadAll(f.Section(a))
		if err != nil {
			t.Fatal(err)
		}
		data, err := g.Data(b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(data)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got other bytes, %v", a.Name, err)
		}
		if raw, _ := io.ReadAll(g.Section(b)); !bytes.Equal(raw, want) {
			turned++
		}
		for _, n := range []int{1, 3, 100} { // from anywhere, over the borders of blocks
			p := make([]byte, n)
			for off := range len(want) - n + 1 {
				if m, err := data.ReadAt(p, int64(off)); m != n || err != nil || !bytes.Equal(p, want[off:off+n]) {
					t.Fatalf("%s: %d bytes at %d: got %d, %v or other bytes", a.Name, n, off, m, err)
				}
			}
		}
	}
	if want := len(f.Tensors) - 2; turned != want { // MXFP4 and NVFP4 are bytes
		t.Errorf("got %d tensors whose bytes differ, want %d", turned, want)
	}
	var sources []TensorSource
	for _, info := range g.Tensors {
		sources = append(sources, g.Source(info))
	}
	var out bytes.Buffer
	if err := Write(&out, g.KVs, sources); err != nil || !bytes.Equal(out.Bytes(), little) {
		t.Errorf("written as little-endian it is another file, %v", err)
	}
}

// TestBigEndianDataOfManyBlocks reads more at once than is turned round at once.
func TestBigEndianDataOfManyBlocks(t *testing.T) {
	const blocks, block = 1500, 210
	b := hostile.GGUFHeader(binary.BigEndian, 3, 1, 0).Tensor("a", uint32(Q6_K), 0, 256, blocks).Data(32, blocks*block)
	b = append(b, make([]byte, (32-len(b)%32)%32)...)
	data := b[len(b)/32*32-(blocks*block+31)/32*32:][:blocks*block]
	want := make([]byte, len(data))
	for i := range data {
		data[i] = byte(i*31 ^ i>>7)
	}
	copy(want, data)
	for i := 0; i < len(want); i += block {
		want[i+208], want[i+209] = want[i+209], want[i+208]
	}
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Data(f.Tensors[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range []int{0, 1, 209, 70_000} {
		got := make([]byte, len(want)-off)
		if n, err := r.ReadAt(got, int64(off)); n != len(got) || err != nil || !bytes.Equal(got, want[off:]) {
			t.Errorf("from byte %d: got %d bytes, %v, or other ones", off, n, err)
		}
	}
	if n, err := r.ReadAt(make([]byte, 10), int64(len(want))-4); n != 4 || err != io.EOF {
		t.Errorf("over the end: got %d bytes and %v, want 4 and EOF", n, err)
	}
}

// TestByteOrderIsDefinedForFewTypes names what nobody defined.
func TestByteOrderIsDefinedForFewTypes(t *testing.T) {
	for typ, g := range types {
		b := hostile.GGUFHeader(binary.BigEndian, 3, 1, 0).Tensor("a", uint32(typ), 0, g.elements).Data(32, int(g.bytes))
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Data(f.Tensors[0])
		var undefined *OrderError
		if _, defined := fields[typ]; defined != (err == nil) || !defined && (!errors.As(err, &undefined) || !strings.Contains(err.Error(), "got "+typ.String())) {
			t.Errorf("%s: got %v, defined %v", typ, err, defined)
		}
	}
}

// TestVersion2IsVersion3InLittleEndian: the two differ in the number only.
func TestVersion2IsVersion3InLittleEndian(t *testing.T) {
	b := read(t, "../../fixtures/byteorder/little.gguf")
	three, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	c := bytes.Clone(b)
	c[4] = 2
	two, err := Open(bytes.NewReader(c), int64(len(c)))
	if err != nil || two.Version != 2 || two.DataOffset != three.DataOffset || !slices.EqualFunc(two.KVs, three.KVs, func(a, b KV) bool { return a.Key == b.Key && a.Value.Equal(b.Value) }) {
		t.Errorf("got %+v, %v, want the same as version 3", two, err)
	}
	c[4] = 1
	if _, err := Open(bytes.NewReader(c), int64(len(c))); err == nil || !strings.Contains(err.Error(), "version 1 of GGUF (2023) is not read; convert the model again") {
		t.Errorf("version 1: got %v, want a refusal that says what to do", err)
	}
}
