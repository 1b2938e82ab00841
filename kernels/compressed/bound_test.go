package compressed

import (
	"fmt"
	"testing"
)

// TestTheBoundIsTight judges magnitudes on both sides of each code's cell: just within it, and a
// thousandth beyond it. A bound that is wider than it says would let edits pass.
func TestTheBoundIsTight(t *testing.T) {
	for _, format := range []Format{FP8, NVFP4} {
		cells := format.cells()
		for code := range format.largest() + 1 {
			c := cells[code]
			for name, edge := range map[string]struct {
				at, beyond float64
			}{"below": {c.low * (1 - quotient), 1 - 1.0/1000}, "above": {c.high * (1 + quotient), 1 + 1.0/1000}} {
				if code == 0 && name == "below" {
					continue
				}
				t.Run(fmt.Sprintf("%s code %d %s", format, code, name), func(t *testing.T) {
					const scale = 0.25
					if j := newJudge(format); !j.add(c, edge.at*scale*(2-edge.beyond), scale, true) || j.ofBound > 1 {
						t.Errorf("just within: refused, %v of the bound", j.ofBound)
					}
					if j := newJudge(format); j.add(c, edge.at*scale*edge.beyond, scale, true) || j.ofBound <= 1 {
						t.Errorf("beyond: accepted, %v of the bound", j.ofBound)
					}
				})
			}
			if j := newJudge(format); code > 0 && j.add(c, c.value, 1, false) {
				t.Errorf("%s code %d: accepted with another sign", format, code)
			}
		}
	}
}
