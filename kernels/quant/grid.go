package quant

import (
	_ "embed"
	"math/bits"
	"sync"
)

// The grids of the IQ types, see grids/README.md. Decoded, a point is a word with
// one code a byte, the first element in the lowest byte.
var (
	//go:embed grids/iq1s.bin
	packedIQ1S []byte
	//go:embed grids/iq2xxs.bin
	packedIQ2XXS []byte
	//go:embed grids/iq2xs.bin
	packedIQ2XS []byte
	//go:embed grids/iq2s.bin
	packedIQ2S []byte
	//go:embed grids/iq3xxs.bin
	packedIQ3XXS []byte
	//go:embed grids/iq3s.bin
	packedIQ3S []byte

	gridIQ1S   = sync.OnceValue(func() *[2048]uint64 { return (*[2048]uint64)(grid(packedIQ1S, 2)) })
	gridIQ2XXS = sync.OnceValue(func() *[256]uint64 { return (*[256]uint64)(grid(packedIQ2XXS, 2)) })
	gridIQ2XS  = sync.OnceValue(func() *[512]uint64 { return (*[512]uint64)(grid(packedIQ2XS, 2)) })
	gridIQ2S   = sync.OnceValue(func() *[1024]uint64 { return (*[1024]uint64)(grid(packedIQ2S, 2)) })
	gridIQ3XXS = sync.OnceValue(func() *[256]uint64 { return (*[256]uint64)(grid(packedIQ3XXS, 4)) })
	gridIQ3S   = sync.OnceValue(func() *[512]uint64 { return (*[512]uint64)(grid(packedIQ3S, 4)) })
)

// grid spreads points of two bytes, with codes of 2 or 4 bits, to a byte a code.
func grid(packed []byte, width int) []uint64 {
	points := make([]uint64, len(packed)/2)
	for i := range points {
		p := uint64(packed[2*i]) | uint64(packed[2*i+1])<<8
		for j := range 16 / width {
			points[i] |= p >> (j * width) & (1<<width - 1) << (8 * j)
		}
	}
	return points
}

// minus is the bit of a code byte that asks for the negative value.
const minus = 8

// signMasks has, for eight sign bits, minus in byte j where bit j is set.
var signMasks = func() (masks [256]uint64) {
	for s := range masks {
		for j := range 8 {
			masks[s] |= uint64(s>>j&1*minus) << (8 * j)
		}
	}
	return masks
}()

// evenSigns completes seven sign bits with an eighth that makes the number of
// minus signs even.
func evenSigns(s uint32) byte {
	s &= 127
	return byte(s | uint32(bits.OnesCount32(s)&1)<<7)
}

// place looks eight code bytes up.
func place(dst *[8]float32, values *[16]float32, codes uint64) {
	dst[0] = values[codes&15]
	dst[1] = values[codes>>8&15]
	dst[2] = values[codes>>16&15]
	dst[3] = values[codes>>24&15]
	dst[4] = values[codes>>32&15]
	dst[5] = values[codes>>40&15]
	dst[6] = values[codes>>48&15]
	dst[7] = values[codes>>56&15]
}
