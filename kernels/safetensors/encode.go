package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// field is one member of a header's object, as it will be written.
type field struct {
	name string
	body string // JSON
}

// fields gives the header of a file in its offsets' order.
func (f *File) fields() []field {
	var list []field
	if f.Metadata != nil {
		list = append(list, field{metadataKey, marshal(f.Metadata)})
	}
	for _, t := range f.Tensors {
		list = append(list, tensorField(t.Name, string(t.DType), t.Shape, t.Begin-f.HeaderSize, t.End-f.HeaderSize))
	}
	return list
}

func tensorField(name, dtype string, shape []uint64, begin, end int64) field {
	if shape == nil {
		shape = []uint64{}
	}
	return field{name, fmt.Sprintf(`{"dtype":%s,"shape":%s,"data_offsets":[%d,%d]}`, marshal(dtype), marshal(shape), begin, end)}
}

// marshal is compact JSON without HTML escapes, of values that always have one.
func marshal(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // strings, numbers and maps of strings cannot fail
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// encodeHeader writes N and the object, padded with spaces to a multiple of 8 bytes.
func encodeHeader(list []field) []byte {
	var b bytes.Buffer
	b.Write(make([]byte, lengthSize))
	b.WriteByte('{')
	for i, f := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(marshal(f.name) + ":" + f.body)
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(b.Len()-lengthSize))
	return b.Bytes()
}

// spliced reads head, then r from the given offset.
type spliced struct {
	head []byte
	r    io.ReaderAt
	from int64
}

func (s spliced) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(s.head)) {
		if n = copy(p, s.head[off:]); n == len(p) {
			return n, nil
		}
	}
	m, err := s.r.ReadAt(p[n:], off+int64(n)-int64(len(s.head))+s.from)
	return n + m, err
}
