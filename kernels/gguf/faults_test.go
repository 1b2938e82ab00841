package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/hostile"
)

var legal = map[string][]byte{
	"nothing":          hostile.V3(0, 0).Bytes(),
	"nothing, padded":  hostile.V3(0, 0).Data(32, 0),
	"sample":           sample(),
	"version 2":        hostile.GGUFHeader(binary.LittleEndian, 2, 1, 0).Tensor("a", uint32(F32), 0, 8).Data(32, 32),
	"big-endian":       hostile.GGUFHeader(binary.BigEndian, 3, 1, 1).KV("k", uint32(TypeArray)).U32(uint32(TypeUint16)).U64(2).Raw(1, 2, 3, 4).Tensor("a", uint32(F32), 0, 8).Data(32, 32),
	"scalar":           hostile.V3(1, 0).Tensor("a", uint32(F32), 0).Data(32, 32),
	"four dimensions":  hostile.V3(1, 0).Tensor("a", uint32(F16), 0, 2, 2, 2, 2).Data(32, 32),
	"alignment 8":      hostile.V3(2, 1).KV(keyAlignment, uint32(TypeUint32)).U32(8).Tensor("a", uint32(I8), 0, 3).Tensor("b", uint32(I8), 8, 8).Data(8, 16),
	"alignment 4096":   hostile.V3(1, 1).KV(keyAlignment, uint32(TypeUint32)).U32(4096).Tensor("a", uint32(I8), 0, 1).Data(4096, 4096),
	"nested arrays":    hostile.V3(0, 1).KV("k", uint32(TypeArray)).U32(uint32(TypeArray)).U64(1).U32(uint32(TypeInt8)).U64(2).Raw(1, 255).Bytes(),
	"split of one":     hostile.V3(0, 1).KV(keySplits, uint32(TypeUint16)).Raw(1, 0).Bytes(),
	"NUL in a value":   hostile.V3(0, 1).KV("k", uint32(TypeString)).Str("a\x00b").Bytes(),
	"empty array":      hostile.V3(0, 1).KV("k", uint32(TypeArray)).U32(uint32(TypeString)).U64(0).Bytes(),
	"no final padding": hostile.V3(1, 0).Tensor("a", uint32(I8), 0, 3).Data(32, 3),
}

func TestLegalFiles(t *testing.T) {
	for name, b := range legal {
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if warned := len(f.Warnings) > 0; warned != (name == "no final padding") {
			t.Errorf("%s: got warnings %q", name, f.Warnings)
		}
	}
}

func TestBigEndian(t *testing.T) {
	b := legal["big-endian"]
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	v, _ := f.KV("k")
	if got := v.Uint32s(); f.Order != binary.BigEndian || !slices.Equal(got, []uint32{0x0102, 0x0304}) {
		t.Errorf("got %v and %x, want big-endian and [102 304]", f.Order, got)
	}
}

func TestHostileFiles(t *testing.T) {
	for _, c := range hostile.GGUF() {
		t.Run(c.Name, func(t *testing.T) {
			f, err := Open(bytes.NewReader(c.Data), int64(len(c.Data)))
			var bad *FormatError
			var cut *TruncatedError
			if f != nil || !errors.As(err, &bad) && !errors.As(err, &cut) || !strings.Contains(err.Error(), c.Want) {
				t.Errorf("got %v, want a refusal that says %q", err, c.Want)
			}
		})
	}
}

// TestInterruptedFileNamesItsMissingTensors cuts a file at every byte of its data.
func TestInterruptedFileNamesItsMissingTensors(t *testing.T) {
	b := hostile.V3(3, 0).Tensor("a", uint32(I8), 0, 32).Tensor("b", uint32(I8), 32, 5).Tensor("c", uint32(I8), 64, 32).Data(32, 96)
	from := len(b) - 96
	for cut := range 96 {
		_, err := Open(bytes.NewReader(b[:from+cut]), int64(from+cut))
		want := []string{"a", "b", "c"}
		switch {
		case cut >= 37:
			want = want[2:]
		case cut >= 32:
			want = want[1:]
		}
		var bad *TruncatedError
		if !errors.As(err, &bad) || !slices.Equal(bad.Missing, want) || bad.Total != 3 {
			t.Fatalf("cut at %d: got %v, want %v missing", cut, err, want)
		}
	}
}

func TestLongNameIsFlagged(t *testing.T) {
	for n, want := range map[int]int{63: 0, 64: 1} {
		b := hostile.V3(1, 0).Tensor(strings.Repeat("n", n), uint32(F32), 0, 8).Data(32, 32)
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil || len(f.Warnings) != want {
			t.Errorf("%d bytes: got %v and %v, want %d warnings", n, f, err, want)
		}
	}
}

// TestPromisesAllocateNothing opens files of a kilobyte that promise much.
func TestPromisesAllocateNothing(t *testing.T) {
	const huge = 1 << 60
	for name, x := range map[string]*hostile.Builder{
		"tensors":  hostile.V3(huge, 0),
		"keys":     hostile.V3(0, huge),
		"key":      hostile.V3(0, 1).U64(huge),
		"string":   hostile.V3(0, 1).KV("k", uint32(TypeString)).U64(huge),
		"array":    hostile.V3(0, 1).KV("k", uint32(TypeArray)).U32(uint32(TypeUint8)).U64(huge),
		"strings":  hostile.V3(0, 1).KV("k", uint32(TypeArray)).U32(uint32(TypeString)).U64(huge),
		"nested":   hostile.V3(0, 1).KV("k", uint32(TypeArray)).U32(uint32(TypeArray)).U64(huge),
		"tensor":   hostile.V3(1, 0).Tensor("a", uint32(F32), 0, huge),
		"in range": hostile.V3(0, 1).KV("k", uint32(TypeString)).U64(MaxString),
	} {
		b := append(x.Bytes(), make([]byte, 1024)...)
		for _, size := range []int64{int64(len(b)), 1 << 40} { // also with a size that is not true
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Open(bytes.NewReader(b), size)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; err == nil || used > 4<<20 {
				t.Errorf("%s in %d bytes: got %v and %d bytes allocated, want a refusal within 4 MiB", name, size, err, used)
			}
		}
	}
}

func TestValuesRoundTrip(t *testing.T) {
	kvs := []KV{
		{"u8", Uint8(255)}, {"i8", Int8(-1)}, {"u16", Uint16(65535)}, {"i16", Int16(-2)}, {"u32", Uint32(1 << 31)}, {"i32", Int32(-3)},
		{"u64", Uint64(1 << 63)}, {"i64", Int64(-4)}, {"f32", Float32(float32(math.Inf(1)))}, {"f64", Float64(0.1)}, {"yes", Bool(true)}, {"no", Bool(false)},
		{"s", String("a\x00b")}, {"ss", Strings([]string{"", "x"})}, {"none", Strings(nil)}, {"u8s", Uint8s([]byte{1, 2})}, {"i32s", Int32s([]int32{-1, 2})},
		{"u32s", Uint32s([]uint32{7})}, {"i64s", Int64s([]int64{math.MinInt64})}, {"f32s", Float32s([]float32{0.5, -0.25})}, {"bools", Bools([]bool{true, false})},
		{"nested", Arrays([]Value{Int32s([]int32{1}), Strings([]string{"y"})})},
	}
	var b bytes.Buffer
	if err := Write(&b, kvs, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for i, kv := range f.KVs {
		if kv.Key != kvs[i].Key || !kv.Value.Equal(kvs[i].Value) {
			t.Errorf("got %s = %v, want %s = %v", kv.Key, kv.Value, kvs[i].Key, kvs[i].Value)
		}
	}
	get := func(key string) Value { v, _ := f.KV(key); return v }
	if n, ok := get("i16").Int(); n != -2 || !ok {
		t.Errorf("got %d, want -2", n)
	}
	if _, ok := get("i16").Uint(); ok {
		t.Error("a negative number is taken for a Uint")
	}
	if _, ok := get("u64").Int(); ok {
		t.Error("2^63 is taken for an Int")
	}
	if get("i32s").Uint32s() != nil || !slices.Equal(get("i32s").Ints(), []int64{-1, 2}) || !slices.Equal(get("f32s").Floats(), []float64{0.5, -0.25}) {
		t.Error("arrays come back as others")
	}
	if get("ss").Ints() != nil || get("u8").Ints() != nil || get("f32s").Ints() != nil || get("s").Strings() != nil {
		t.Error("values are taken for arrays of another kind")
	}
}

func TestWriteRefuses(t *testing.T) {
	zero := func(n int) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(make([]byte, n)); return err }
	}
	one := func(name string, t Type, n int, dims ...uint64) []TensorSource {
		return []TensorSource{{Name: name, Dims: dims, Type: t, Data: zero(n)}}
	}
	for name, c := range map[string]struct {
		kvs     []KV
		tensors []TensorSource
		want    string
	}{
		"duplicate key":       {[]KV{{"k", Uint8(1)}, {"k", Uint8(1)}}, nil, "want each key once"},
		"value by hand":       {[]KV{{"k", Value{Type: TypeArray, Elem: TypeUint8, Len: 9}}}, nil, "no constructor made"},
		"alignment":           {[]KV{{keyAlignment, Uint32(7)}}, nil, "a power of two"},
		"duplicate tensor":    {nil, append(one("a", F32, 4, 1), one("a", F32, 4, 1)...), "want each name once"},
		"unknown type":        {nil, one("a", 99, 4, 1), "unknown tensor type 99"},
		"too few bytes":       {nil, one("a", F32, 3, 1), "got 3 bytes, want 4"},
		"too many bytes":      {nil, one("a", F32, 5, 1), "1 bytes more"},
		"NUL in a name":       {nil, one("a\x00", F32, 4, 1), "without NUL"},
		"overflowing tensors": {nil, append(one("a", I8, 0, 1<<62), one("b", I8, 0, 1<<62)...), "below 2^63"},
	} {
		if err := Write(io.Discard, c.kvs, c.tensors); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a refusal that says %q", name, err, c.want)
		}
	}
}
