package quant

import (
	"bytes"
	"fmt"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// codesFunc writes over the codes of a block what the weights and the block's
// scales give. Groups whose scale is zero keep theirs.
type codesFunc func(block []byte, x *[256]float32)

var codesOf = map[gguf.Type]codesFunc{
	gguf.Q2_K: recodeQ2K,
	gguf.Q3_K: recodeQ3K,
	gguf.Q4_K: recodeQ4K,
	gguf.Q5_K: recodeQ5K,
	gguf.Q6_K: recodeQ6K,
}

// CodesFollow says whether the codes of a type are a function of the source
// weights and of the stored scales alone, on every build that does not use fast
// maths. It holds where the quantizer rounds its scales first and then takes
// code = round((x + minimum)/scale) with them: scale and minimum are products of a binary16
// number and of a small integer, hence exact in float32 with a fused multiply-add or without, and the
// sum and the quotient are rounded once on every build.
func CodesFollow(t gguf.Type) bool { return codesOf[t] != nil }

// CheckCodes counts the blocks whose stored codes are not those that the source
// and the stored scales give; first is the index of the first one, −1 for none. What a zero scale
// hides, the codes of its group, is not looked at: they have no effect on the weight.
//
// stored holds the blocks of src, whole blocks of 256 weights of a type for which
// [CodesFollow] says true. It panics for other types and lengths. No bytes in stored make it panic.
func CheckCodes(t gguf.Type, stored []byte, src []float32) (bad int64, first int64) {
	recode := codesOf[t]
	if recode == nil {
		panic(fmt.Sprintf("the codes of type %s do not follow from its scales", t))
	}
	var block [256]byte
	first = -1
	size := codecs[t].Bytes
	want := block[:size]
	for i := int64(0); len(src) > 0; i++ {
		have := stored[:size]
		copy(want, have)
		recode(want, (*[256]float32)(src))
		if !bytes.Equal(have, want) {
			if bad == 0 {
				first = i
			}
			bad++
		}
		stored, src = stored[size:], src[256:]
	}
	return bad, first
}

func recodeQ2K(block []byte, x *[256]float32) {
	b := (*[84]byte)(block)
	var codes [256]byte
	unpackPairs(&codes, (*[64]byte)(b[16:]))
	recodeGroupsQ2K(b, &codes, x)
	packPairs((*[64]byte)(b[16:]), &codes)
}

func recodeQ3K(block []byte, x *[256]float32) {
	b := (*[110]byte)(block)
	var codes [256]byte
	unpackQ3K(&codes, b)
	recodeGroupsQ3K(b, &codes, x)
	packQ3K(b, &codes)
}

func recodeQ4K(block []byte, x *[256]float32) {
	b := (*[144]byte)(block)
	var codes [256]byte
	unpackNibbles(&codes, (*[128]byte)(b[16:]))
	recodeOffset(&codes, (*[16]byte)(b[:]), x, 15)
	packNibbles((*[128]byte)(b[16:]), &codes)
}

func recodeQ5K(block []byte, x *[256]float32) {
	b := (*[176]byte)(block)
	var codes [256]byte
	unpackNibbles(&codes, (*[128]byte)(b[48:]))
	unpackFifths(&codes, (*[32]byte)(b[16:]))
	recodeOffset(&codes, (*[16]byte)(b[:]), x, 31)
	packNibbles((*[128]byte)(b[48:]), &codes)
	packFifths((*[32]byte)(b[16:]), &codes)
}

// recodeOffset computes the codes of the groups of a Q4_K or Q5_K block with a scale.
func recodeOffset(codes *[256]byte, head *[16]byte, x *[256]float32, limit int32) {
	d, dmin := half(head[:]), half(head[2:])
	for j := range 8 {
		s, m := scaleMin(head[4:], j)
		if scale := float32(d * float32(s)); scale != 0 {
			codesOffset(codes[32*j:][:32], x[32*j:][:32], scale, float32(dmin*float32(m)), limit)
		}
	}
}

func recodeQ6K(block []byte, x *[256]float32) {
	b := (*[210]byte)(block)
	var codes [256]byte
	unpackQ6K(&codes, b)
	d := half(b[208:])
	for j, s := range b[192:208] {
		if scale := float32(d * float32(int8(s))); scale != 0 {
			codesSigned((*[16]byte)(codes[16*j:]), (*[16]float32)(x[16*j:]), scale, 32)
		}
	}
	scales := [18]byte(b[192:])
	packQ6K(b, &codes)
	copy(b[192:], scales[:])
}

// unpackNibbles is the inverse of packNibbles.
func unpackNibbles(codes *[256]byte, src *[128]byte) {
	for k := range 4 {
		in, c := (*[32]byte)(src[32*k:]), (*[64]byte)(codes[64*k:])
		for l, q := range in {
			c[l], c[l+32] = q&0xF, q>>4
		}
	}
}

// unpackFifths adds the bits that packFifths stored to codes of four bits.
func unpackFifths(codes *[256]byte, src *[32]byte) {
	for l, bits := range src {
		for j := range 8 {
			codes[32*j+l] |= bits >> j & 1 << 4
		}
	}
}

// unpackQ6K is the inverse of packQ6K.
func unpackQ6K(codes *[256]byte, src *[210]byte) {
	for h := range 2 {
		low, high := (*[64]byte)(src[64*h:]), (*[32]byte)(src[128+32*h:])
		c := (*[128]byte)(codes[128*h:])
		for l, q := range high {
			c[l], c[l+64] = low[l]&0xF|q&3<<4, low[l]>>4|q>>4&3<<4
			c[l+32], c[l+96] = low[l+32]&0xF|q>>2&3<<4, low[l+32]>>4|q>>6<<4
		}
	}
}
