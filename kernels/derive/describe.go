package derive

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// ropeTolerance is how far computed RoPE factors may lie apart, in units in the last place.
const ropeTolerance = 4

// describe names the first difference by row and column, or by row and block and what in the block.
func (p *pair) describe(d difference) kernels.Finding {
	row, column := d.first/p.width(), d.first%p.width()
	f := kernels.Finding{Check: "values", Where: fmt.Sprintf("tensor %s row %d column %d", p.src.name, row, column)}
	unit, total := "weights", p.src.rows.Weights()
	switch c := p.dst.rows.Codec; {
	case p.dst.typ == gguf.Q8_0:
		unit, total = "blocks", total/int64(c.Weights)
		f.Where = fmt.Sprintf("tensor %s row %d block %d", p.src.name, row, column/int64(c.Weights))
		f.Got, f.Want = q8Difference(d.got, d.want)
	case c.Dequantize != nil && c.Weights == 1:
		f.Got, f.Want = number(d.got, c), number(d.want, c)
	default:
		unit, total = "blocks", total/int64(c.Weights)
		f.Where = fmt.Sprintf("tensor %s row %d block %d", p.src.name, row, column/int64(c.Weights))
		f.Got, f.Want = fmt.Sprintf("%x", d.got), fmt.Sprintf("%x", d.want)
	}
	f.Hint = fmt.Sprintf("%d of %d %s of this tensor differ", d.blocks, total, unit)
	return f
}

// describeCodes names the first block whose codes do not follow from the source and the block's own scales.
func (p *pair) describeCodes(m *measured) kernels.Finding {
	row, column := m.firstBad/p.width(), m.firstBad%p.width()
	return kernels.Finding{
		Check: "codes", Where: fmt.Sprintf("tensor %s row %d block %d", p.src.name, row, column/int64(p.dst.rows.Codec.Weights)),
		Got: "codes that the source does not give with the stored scales", Want: "those that it gives, on every build",
		Hint: fmt.Sprintf("%d of %d blocks of this tensor have such codes", m.badCodes, m.blocks),
	}
}

// q8Difference names what differs in a Q8_0 block: the scale, else the first code.
func q8Difference(got, want []byte) (g, w string) {
	gotScale, wantScale := binary.LittleEndian.Uint16(got), binary.LittleEndian.Uint16(want)
	if gotScale != wantScale {
		return fmt.Sprintf("scale %#04x (%v)", gotScale, quant.HalfToFloat(gotScale)), fmt.Sprintf("scale %#04x (%v)", wantScale, quant.HalfToFloat(wantScale))
	}
	for i := 2; i < len(got); i++ {
		if got[i] != want[i] {
			return fmt.Sprintf("code %d at %d", int8(got[i]), i-2), fmt.Sprintf("code %d at %d", int8(want[i]), i-2)
		}
	}
	return "", ""
}

// number shows one stored number: its bits and its value.
func number(stored []byte, c quant.Codec) string {
	var value [1]float32
	c.Dequantize(value[:], stored)
	var bits uint64
	for i, b := range stored {
		bits |= uint64(b) << (8 * i)
	}
	return fmt.Sprintf("%#0*x (%v)", 2*len(stored), bits, value[0])
}

// ulps is the distance of two numbers in units in the last place; far for NaNs and unlike signs.
func ulps(a, b float32) uint32 {
	x, y := math.Float32bits(a), math.Float32bits(b)
	if a != a || b != b || x>>31 != y>>31 {
		return math.MaxUint32
	}
	return max(x, y) - min(x, y)
}
