package quant

import "math"

// A codeTable turns the seven low bits of a number plus magic, which are those of the
// nearest integer from −64 to 63, into the bits of the code as a float32, limited to a type's range.
type codeTable [128]uint32

func newCodeTable(low, high int32) *codeTable {
	t := new(codeTable)
	for i := range t {
		t[i] = math.Float32bits(float32(clamp(int32(int8(i<<1))>>1, low, high)))
	}
	return t
}

// The tables of signed codes, of two to five bits above the sign, and of unsigned ones.
var (
	signedTables = [4]*codeTable{newCodeTable(-4, 3), newCodeTable(-8, 7), newCodeTable(-16, 15), newCodeTable(-32, 31)}
	tableTo3     = newCodeTable(0, 3)
	tableTo15    = newCodeTable(0, 15)
	tableTo31    = newCodeTable(0, 31)
)

// groupCodes are the codes of up to 32 weights in a search, as bits of float32 numbers.
type groupCodes [32]uint32

// fill computes the codes (x − low)·inverse, of magnitude below 60, and says
// whether any differs from what stood there. The sums of a search are a function
// of the codes, so a try that changes none needs no sums.
//
// len(x) is a multiple of four.
func fill[B build](codes *groupCodes, table *codeTable, inverse, low float32, x []float32) bool {
	var b B
	var changed uint32
	c := codes[:len(x)]
	for len(x) >= 4 && len(c) >= 4 {
		c0 := table[math.Float32bits(mulAddIf(b, fuseNearest, inverse, x[0]-low, magic))&127]
		c1 := table[math.Float32bits(mulAddIf(b, fuseNearest, inverse, x[1]-low, magic))&127]
		c2 := table[math.Float32bits(mulAddIf(b, fuseNearest, inverse, x[2]-low, magic))&127]
		c3 := table[math.Float32bits(mulAddIf(b, fuseNearest, inverse, x[3]-low, magic))&127]
		changed |= (c0 ^ c[0]) | (c1 ^ c[1]) | (c2 ^ c[2]) | (c3 ^ c[3])
		c[0], c[1], c[2], c[3] = c0, c1, c2, c3
		x, c = x[4:], c[4:]
	}
	return changed != 0
}

// fillWide is fill for numbers of any magnitude, also those that are none.
func fillWide[B build](codes *groupCodes, limit int32, inverse, low float32, x []float32) bool {
	changed := false
	for i, v := range x {
		code := math.Float32bits(float32(clamp(nearestProduct[B](inverse, v-low), 0, limit)))
		changed = changed || code != codes[i]
		codes[i] = code
	}
	return changed
}
