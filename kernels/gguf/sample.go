package gguf

import (
	"bytes"
	"io"
)

// encoded writes a file that is known to be sound.
func encoded(kvs []KV, tensors []TensorSource) []byte {
	var b bytes.Buffer
	if err := Write(&b, kvs, tensors); err != nil {
		panic(err) // the samples are constants
	}
	return b.Bytes()
}

func zeros(n int) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(make([]byte, n)); return err }
}

// sample is a small valid file of two tensors.
func sample() []byte {
	return encoded([]KV{
		{"general.architecture", String("llama")},
		{"general.name", String("sample")},
		{"tokenizer.ggml.tokens", Strings([]string{"<s>", "a", "b"})},
	}, []TensorSource{
		{Name: "token_embd.weight", Dims: []uint64{32, 3}, Type: Q8_0, Data: zeros(3 * 34)},
		{Name: "output_norm.weight", Dims: []uint64{5}, Type: F32, Data: zeros(20)},
	})
}

// samplePart is part no (from 0) of count of a split model, with one tensor.
func samplePart(no, count uint16, total int32, tensor string, more ...KV) Part {
	kvs := append(more, KV{keySplitNo, Uint16(no)}, KV{keySplits, Uint16(count)}, KV{keySplitTensors, Int32(total)})
	b := encoded(kvs, []TensorSource{{Name: tensor, Dims: []uint64{8}, Type: F32, Data: zeros(32)}})
	return Part{R: bytes.NewReader(b), Size: int64(len(b))}
}

// samplePair is a small valid model in two parts.
func samplePair() [2]Part {
	return [2]Part{samplePart(0, 2, 2, "token_embd.weight", KV{"general.name", String("sample")}), samplePart(1, 2, 2, "output_norm.weight")}
}

// splitControl plants one fault in a built-in split model; the refusal has to say want.
type splitControl struct {
	name, fault, want string
	change            func(one, two Part) []Part
}

var splitControls = []splitControl{
	{"the second part left out", "missing part", "missing: part 2", func(one, _ Part) []Part { return []Part{one} }},
	{"the first part twice", "part given twice", "a second time", func(one, two Part) []Part { return []Part{one, two, one} }},
	{"the first part's tensor in the second too", "tensor in two parts", "a second time", func(one, _ Part) []Part {
		return []Part{one, samplePart(1, 2, 2, "token_embd.weight")}
	}},
	{"a second part that counts three tensors", "tensors of all parts miscounted", "split.tensors.count = 3", func(one, _ Part) []Part {
		return []Part{one, samplePart(1, 2, 3, "output_norm.weight")}
	}},
	{"a second part of another name", "parts of different models", "different models", func(one, _ Part) []Part {
		return []Part{one, samplePart(1, 2, 2, "output_norm.weight", KV{"general.name", String("other")})}
	}},
	{"the second part under the first one's file name", "name that disagrees with split.no", "by its name", func(one, two Part) []Part {
		two.Name = "m-00001-of-00002.gguf"
		return []Part{one, two}
	}},
}
