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
)

// build writes header fields by hand, in either byte order, without any check.
type build struct {
	b     []byte
	order binary.AppendByteOrder
}

func start(order binary.AppendByteOrder, version uint32, tensors, kvs uint64) *build {
	return (&build{[]byte(magic), order}).u32(version).u64(tensors).u64(kvs)
}

func (x *build) u32(n uint32) *build { x.b = x.order.AppendUint32(x.b, n); return x }
func (x *build) u64(n uint64) *build { x.b = x.order.AppendUint64(x.b, n); return x }
func (x *build) raw(b ...byte) *build {
	x.b = append(x.b, b...)
	return x
}
func (x *build) str(s string) *build { x.u64(uint64(len(s))); return x.raw([]byte(s)...) }
func (x *build) kv(key string, t ValueType) *build {
	return x.str(key).u32(uint32(t))
}
func (x *build) tensor(name string, t Type, offset uint64, dims ...uint64) *build {
	x.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		x.u64(d)
	}
	return x.u32(uint32(t)).u64(offset)
}

// data pads the header to the alignment and adds n bytes.
func (x *build) data(alignment, n int) []byte {
	for len(x.b)%alignment != 0 {
		x.raw(0)
	}
	return append(x.b, make([]byte, n)...)
}

var little3 = func(tensors, kvs uint64) *build { return start(binary.LittleEndian, 3, tensors, kvs) }

var legal = map[string][]byte{
	"nothing":          little3(0, 0).b,
	"nothing, padded":  little3(0, 0).data(32, 0),
	"sample":           sample(),
	"version 2":        start(binary.LittleEndian, 2, 1, 0).tensor("a", F32, 0, 8).data(32, 32),
	"big-endian":       start(binary.BigEndian, 3, 1, 1).kv("k", TypeArray).u32(uint32(TypeUint16)).u64(2).raw(1, 2, 3, 4).tensor("a", F32, 0, 8).data(32, 32),
	"scalar":           little3(1, 0).tensor("a", F32, 0).data(32, 32),
	"four dimensions":  little3(1, 0).tensor("a", F16, 0, 2, 2, 2, 2).data(32, 32),
	"alignment 8":      little3(2, 1).kv(keyAlignment, TypeUint32).u32(8).tensor("a", I8, 0, 3).tensor("b", I8, 8, 8).data(8, 16),
	"alignment 4096":   little3(1, 1).kv(keyAlignment, TypeUint32).u32(4096).tensor("a", I8, 0, 1).data(4096, 4096),
	"nested arrays":    little3(0, 1).kv("k", TypeArray).u32(uint32(TypeArray)).u64(1).u32(uint32(TypeInt8)).u64(2).raw(1, 255).b,
	"split of one":     little3(0, 1).kv(keySplits, TypeUint16).raw(1, 0).b,
	"NUL in a value":   little3(0, 1).kv("k", TypeString).str("a\x00b").b,
	"empty array":      little3(0, 1).kv("k", TypeArray).u32(uint32(TypeString)).u64(0).b,
	"no final padding": little3(1, 0).tensor("a", I8, 0, 3).data(32, 3),
}

var hostile = map[string]struct {
	file []byte
	want string
}{
	"empty file":                         {nil, "this is not a GGUF file"},
	"other magic":                        {[]byte("GGML\x03\x00\x00\x00"), `got "GGML"`},
	"magic alone":                        {[]byte(magic), "the file is truncated"},
	"Git LFS pointer":                    {[]byte("version https://git-lfs.github.com/spec/v1\n"), "this is a Git LFS pointer, not the file"},
	"version 0":                          {start(binary.LittleEndian, 0, 0, 0).b, "want 2 or 3"},
	"version 1":                          {start(binary.LittleEndian, 1, 0, 0).b, "version 1 of GGUF"},
	"version 4":                          {start(binary.LittleEndian, 4, 0, 0).b, "the file is newer than this reader"},
	"2^60 tensors":                       {little3(1<<60, 0).b, "number of tensors: got a count of 1152921504606846976"},
	"2^63 keys":                          {little3(0, 1<<63).b, "number of key-value pairs"},
	"more tensors than bytes":            {little3(1000, 0).b, "the remaining"},
	"duplicate key":                      {little3(0, 2).kv("k", TypeUint8).raw(1).kv("k", TypeUint8).raw(1).b, `"k" a second time`},
	"empty key":                          {little3(0, 1).kv("", TypeUint64).u64(1).b, "an empty name"},
	"NUL in a key":                       {little3(0, 1).kv("k\x00", TypeUint8).raw(1).b, "without NUL"},
	"key that is not UTF-8":              {little3(0, 1).kv("k\xff", TypeUint8).raw(1).b, "want UTF-8"},
	"key of 2^63 bytes":                  {little3(0, 1).u64(1 << 63).raw(make([]byte, 20)...).b, "key 0: got a count of 9223372036854775808"},
	"string of 2^63 bytes":               {little3(0, 1).kv("k", TypeString).u64(1 << 63).b, `key "k": got a count of 9223372036854775808`},
	"string beyond the file":             {little3(0, 1).kv("k", TypeString).u64(100).raw(1).b, "the remaining 1 bytes"},
	"array of 2^63 elements":             {little3(0, 1).kv("k", TypeArray).u32(uint32(TypeUint8)).u64(1 << 63).b, "array length"},
	"array of wide elements":             {little3(0, 1).kv("k", TypeArray).u32(uint32(TypeUint64)).u64(2).raw(make([]byte, 15)...).b, "at most 1, which"},
	"array of strings beyond the file":   {little3(0, 1).kv("k", TypeArray).u32(uint32(TypeString)).u64(3).raw(make([]byte, 16)...).b, "at most 2, which"},
	"arrays nested too deep":             {little3(0, 1).kv("k", TypeArray).raw(bytes.Repeat([]byte{9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, 9)...).b, "nested deeper"},
	"unknown value type":                 {little3(0, 1).kv("k", 13).u64(1).b, "unknown value type 13"},
	"unknown element type":               {little3(0, 1).kv("k", TypeArray).u32(77).u64(0).b, "unknown value type 77"},
	"BOOL 2":                             {little3(0, 1).kv("k", TypeBool).raw(2).b, "got BOOL 2, want 0 or 1"},
	"BOOL 255 in an array":               {little3(0, 1).kv("k", TypeArray).u32(uint32(TypeBool)).u64(2).raw(1, 255).b, `key "k"[1]: got BOOL 255`},
	"alignment 0":                        {little3(0, 1).kv(keyAlignment, TypeUint32).u32(0).b, "got 0, want a UINT32 that is a power of two"},
	"alignment 48":                       {little3(0, 1).kv(keyAlignment, TypeUint32).u32(48).b, "got 48"},
	"alignment 4":                        {little3(0, 1).kv(keyAlignment, TypeUint32).u32(4).b, "got 4"},
	"alignment 2^31":                     {little3(0, 1).kv(keyAlignment, TypeUint32).u32(1 << 31).b, "got 2147483648"},
	"alignment of type UINT64":           {little3(0, 1).kv(keyAlignment, TypeUint64).u64(32).b, "got UINT64"},
	"part of a split":                    {little3(0, 2).kv(keySplits, TypeUint16).raw(3, 0).kv(keySplitNo, TypeUint16).raw(1, 0).b, "part 2 of 3 of a split file, want a whole file; open all parts together"},
	"split without a number":             {little3(0, 1).kv(keySplits, TypeString).str("3").b, "want an integer"},
	"duplicate tensor":                   {little3(2, 0).tensor("a", F32, 0, 8).tensor("a", F32, 32, 8).data(32, 64), `"a" a second time`},
	"NUL in a tensor name":               {little3(1, 0).tensor("a\x00b", F32, 0, 8).data(32, 32), "without NUL"},
	"five dimensions":                    {little3(1, 0).tensor("a", F32, 0, 1, 1, 1, 1, 1).data(32, 32), "got 5, want at most 4"},
	"zero dimension":                     {little3(1, 0).tensor("a", F32, 0, 8, 0).data(32, 32), "dimension 1: got zero"},
	"dimension product wraps":            {little3(1, 0).tensor("a", F32, 0, 1<<32, 1<<32).data(32, 32), "want at most 9223372036854775807 elements"},
	"dimension product wraps to small":   {little3(1, 0).tensor("a", Q8_0, 0, 1<<62, 4, 2).data(32, 32), "elements"},
	"dimension of 2^63":                  {little3(1, 0).tensor("a", I8, 0, 1<<63).data(32, 32), "elements"},
	"size in bytes wraps":                {little3(1, 0).tensor("a", F64, 0, 1<<61).data(32, 32), "bytes"},
	"sum of sizes wraps":                 {little3(2, 0).tensor("a", I8, 0, 1<<62).tensor("b", I8, 1<<62, 1<<62).data(32, 32), "sum stays below 2^63"},
	"padding of a size wraps":            {little3(1, 0).tensor("a", I8, 0, math.MaxInt64-70).data(32, 32), "below 2^63"},
	"unknown type 99":                    {little3(1, 0).tensor("a", 99, 0, 8).data(32, 32), "unknown tensor type 99"},
	"removed type":                       {little3(1, 0).tensor("a", 31, 0, 8).data(32, 32), "removed tensor type 31 (Q4_0_4_4)"},
	"row that the block does not divide": {little3(1, 0).tensor("a", Q4_K, 0, 128, 2).data(32, 144), "a multiple of 256"},
	"gap":                                {little3(2, 0).tensor("a", F32, 0, 8).tensor("b", F32, 64, 8).data(32, 96), `tensor "b": offset: got 64, want 32`},
	"overlap":                            {little3(2, 0).tensor("a", F32, 0, 8).tensor("b", F32, 0, 8).data(32, 64), `tensor "b": offset: got 0, want 32`},
	"offset not aligned":                 {little3(2, 0).tensor("a", I8, 0, 3).tensor("b", I8, 3, 3).data(32, 64), "got 3, want 32"},
	"offset of 2^63":                     {little3(1, 0).tensor("a", F32, 1<<63, 8).data(32, 32), "got 9223372036854775808, want 0"},
	"bytes after the last tensor":        {little3(1, 0).tensor("a", F32, 0, 8).data(32, 33), "got 1 bytes after the last tensor"},
	"bytes without tensors":              {little3(0, 0).data(32, 1), "after the last tensor"},
	"bytes within the final padding":     {little3(1, 0).tensor("a", I8, 0, 3).data(32, 5), "got 2 bytes after the last tensor"},
	"padding not zero":                   {append(little3(1, 0).tensor("a", I8, 0, 3).data(32, 31), 1), "got byte 0x01, want zeros"},
	"padding between not zero":           {padded(), `padding after tensor "a": got byte 0x07`},
	"header cut":                         {little3(1, 0).tensor("a.long.name.of.a.tensor", F32, 0, 8).b[:60], "the file is truncated"},
}

func padded() []byte {
	b := little3(2, 0).tensor("a", I8, 0, 3).tensor("b", I8, 32, 32).data(32, 64)
	b[len(b)-33] = 7
	return b
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
	for name, c := range hostile {
		f, err := Open(bytes.NewReader(c.file), int64(len(c.file)))
		var bad *FormatError
		if f != nil || !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a refusal that says %q", name, err, c.want)
		}
	}
}

// TestInterruptedFileNamesItsMissingTensors cuts a file at every byte of its data.
func TestInterruptedFileNamesItsMissingTensors(t *testing.T) {
	b := little3(3, 0).tensor("a", I8, 0, 32).tensor("b", I8, 32, 5).tensor("c", I8, 64, 32).data(32, 96)
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
		b := little3(1, 0).tensor(strings.Repeat("n", n), F32, 0, 8).data(32, 32)
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil || len(f.Warnings) != want {
			t.Errorf("%d bytes: got %v and %v, want %d warnings", n, f, err, want)
		}
	}
}

// TestPromisesAllocateNothing opens files of a kilobyte that promise much.
func TestPromisesAllocateNothing(t *testing.T) {
	const huge = 1 << 60
	for name, x := range map[string]*build{
		"tensors":  little3(huge, 0),
		"keys":     little3(0, huge),
		"key":      little3(0, 1).u64(huge),
		"string":   little3(0, 1).kv("k", TypeString).u64(huge),
		"array":    little3(0, 1).kv("k", TypeArray).u32(uint32(TypeUint8)).u64(huge),
		"strings":  little3(0, 1).kv("k", TypeArray).u32(uint32(TypeString)).u64(huge),
		"nested":   little3(0, 1).kv("k", TypeArray).u32(uint32(TypeArray)).u64(huge),
		"tensor":   little3(1, 0).tensor("a", F32, 0, huge),
		"in range": little3(0, 1).kv("k", TypeString).u64(MaxString),
	} {
		b := append(x.b, make([]byte, 1024)...)
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

func FuzzOpen(f *testing.F) {
	for _, b := range legal {
		f.Add(b)
	}
	for _, c := range hostile {
		f.Add(c.file)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		var sources []TensorSource
		for _, info := range file.Tensors {
			if info.Offset < file.DataOffset || info.Offset+info.Size > int64(len(b)) {
				t.Fatalf("%s: got [%d, %d) in a file of %d bytes", info.Name, info.Offset, info.Offset+info.Size, len(b))
			}
			sources = append(sources, file.Source(info))
		}
		var again bytes.Buffer
		if err := Write(&again, file.KVs, sources); err != nil {
			t.Fatalf("written again it is refused: %v", err)
		}
		same := file.Version == 3 && file.Order == binary.LittleEndian && again.Len() == len(b)
		if same && !bytes.Equal(again.Bytes(), b) {
			t.Fatal("written again it is another file")
		}
	})
}
