package mlx

import (
	"encoding/binary"
)

// unpack takes codes of the given number of bits from packed bytes, low bits
// first over the whole run; its length is that of a group or of several.
func unpack(dst []byte, src []byte, bits int) {
	switch bits {
	case 8:
		copy(dst, src)
		return
	case 4:
		for i, b := range src {
			dst[2*i], dst[2*i+1] = b&15, b>>4
		}
		return
	}
	mask := uint64(1)<<bits - 1
	for len(src) >= 4 { // 32 codes are a whole number of words for every width
		var window uint64
		have := 0
		for i := 0; i < 32; i++ {
			if have < bits {
				window |= uint64(binary.LittleEndian.Uint32(src)) << have
				src, have = src[4:], have+32
			}
			dst[i] = byte(window & mask)
			window >>= bits
			have -= bits
		}
		dst = dst[32:]
	}
}

// pack is the inverse of unpack: it appends the codes.
func pack(dst []byte, codes []byte, bits int) []byte {
	var window uint64
	have := 0
	for _, c := range codes {
		window |= uint64(c) << have
		have += bits
		for have >= 8 {
			dst = append(dst, byte(window))
			window >>= 8
			have -= 8
		}
	}
	return dst
}
