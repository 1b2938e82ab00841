package gguf

import (
	"fmt"
	"strconv"
)

// shown bounds the text that String gives of a string or an array.
const shown = 96

// String renders the value for people: strings quoted and cut, arrays by type
// and length.
func (v Value) String() string {
	if s, ok := v.Text(); ok {
		if len(s) > shown {
			return fmt.Sprintf("%q… (%d bytes)", s[:shown], len(s))
		}
		return strconv.Quote(s)
	}
	if b, ok := v.Bool(); ok {
		return strconv.FormatBool(b)
	}
	if x, ok := v.Float(); ok {
		return strconv.FormatFloat(x, 'g', -1, v.Type.size()*8)
	}
	if n, ok := v.Int(); ok {
		return strconv.FormatInt(n, 10)
	}
	if n, ok := v.Uint(); ok {
		return strconv.FormatUint(n, 10)
	}
	return fmt.Sprintf("%s × %d", v.Elem, v.Len)
}
