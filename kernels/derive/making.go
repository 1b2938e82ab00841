package derive

import (
	"fmt"
	"slices"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// making is one way in which a product's quantized tensors may have been made:
// a hypothesis that the bytes confirm or refute.
type making struct {
	build  quant.Variant
	matrix bool // with the importance matrix at hand, for the tensors that it has
	// via is an unquantized type that all weights passed through on their way. It
	// matters only where it is narrower than what the source stores.
	via gguf.Type
}

// plainly is a plain build without a matrix or an intermediate.
var plainly = making{build: quant.Plain}

func (m making) String() string {
	s := string(m.build) + " build"
	if m.matrix {
		s += ", with the matrix"
	}
	if m.via != gguf.F32 {
		s += fmt.Sprintf(", through %s", m.via)
	}
	return s
}

// narrower lists the types of an intermediate file that would change weights of a stored type.
func narrower(stored gguf.Type) []gguf.Type {
	switch stored {
	case gguf.F32:
		return []gguf.Type{gguf.BF16, gguf.F16}
	case gguf.F16:
		return []gguf.Type{gguf.BF16}
	case gguf.BF16:
		return []gguf.Type{gguf.F16}
	}
	return nil
}

// usesMatrix tells whether the quantizer of a type looks at an importance matrix.
func usesMatrix(t gguf.Type) bool {
	switch t {
	case gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.TQ1_0, gguf.TQ2_0, gguf.MXFP4:
		return false
	}
	return true
}

// builds is the number of builds whose bits can differ for a type; all agree where there is one.
func builds(t gguf.Type) int { return max(1, len(quant.Variants(t))) }

// makings lists every way to try for these pairs, the likeliest first.
func makings(pairs []*pair) []making {
	all, vias, matrix := []quant.Variant{quant.Plain}, []gguf.Type{gguf.F32}, false
	for _, p := range pairs {
		for _, b := range quant.Variants(p.dst.typ) {
			if !slices.Contains(all, b) {
				all = append(all, b)
			}
		}
		for _, t := range narrower(p.src.typ) {
			if !slices.Contains(vias, t) {
				vias = append(vias, t)
			}
		}
		matrix = matrix || p.importance != nil
	}
	var list []making
	for _, via := range vias {
		for _, b := range all {
			if matrix {
				list = append(list, making{b, true, via})
			}
			list = append(list, making{b, false, via})
		}
	}
	return list
}

// of is what a making means for one pair: the parts that cannot matter to it are taken out,
// so that two makings that give the pair the same bytes are equal.
func (m making) of(p *pair) making {
	if !slices.Contains(quant.Variants(p.dst.typ), m.build) {
		m.build = quant.Plain
	}
	m.matrix = m.matrix && p.importance != nil && usesMatrix(p.dst.typ)
	if !slices.Contains(narrower(p.src.typ), m.via) && !m.via.Quantized() {
		m.via = gguf.F32
	}
	return m
}

// maker makes the bytes of one pair's product as a making says. It is not safe for concurrent use.
type maker struct {
	p       *pair
	m       making
	writer  func(dst []byte, weights []float32, numbers []float32)
	numbers []float32       // of the matrix, nil for none
	via     func([]float32) // through the intermediate type, in place; nil for none
	pass    []byte
}

func (p *pair) maker(m making) (*maker, error) {
	m = m.of(p)
	k := &maker{p: p, m: m}
	if err := k.open(); err != nil {
		return nil, err
	}
	if m.via != gguf.F32 {
		c, err := quant.For(m.via)
		if err != nil {
			return nil, err
		}
		quantize, err := rowWriter(m.via, quant.Plain, int(p.width()))
		if err != nil {
			return nil, err
		}
		k.via = func(weights []float32) {
			k.pass = grow(k.pass, c.Size(int64(len(weights))))
			quantize(k.pass, weights, nil)
			c.Dequantize(weights, k.pass)
		}
	}
	return k, nil
}

// open finds the quantizer and the matrix's numbers.
func (k *maker) open() (err error) {
	if k.writer, err = rowWriter(k.p.dst.typ, k.m.build, int(k.p.width())); err != nil {
		return err
	}
	if k.m.matrix {
		k.numbers, err = k.p.importance.of(k.p.src.name)
	}
	return err
}

// rowWriter gives the function that writes whole rows in a type, as a build does where builds differ.
func rowWriter(t gguf.Type, v quant.Variant, width int) (func(dst []byte, weights, numbers []float32), error) {
	q, err := quant.NewQuantizer(t, v)
	if err == nil {
		return func(dst []byte, weights, numbers []float32) { q.Rows(dst, weights, width, numbers) }, nil
	}
	c, err := quant.Writer(t)
	if err != nil {
		return nil, err
	}
	return func(dst []byte, weights, _ []float32) { c.Quantize(dst, weights) }, nil
}

// through takes weights through the intermediate type, in place.
func (k *maker) through(weights []float32) {
	if k.via != nil {
		k.via(weights)
	}
}

// make quantizes whole rows from weight at on into dst.
func (k *maker) make(dst []byte, weights []float32, at int64) {
	k.through(weights)
	width, codec := k.p.width(), k.p.dst.rows.Codec
	if !k.m.matrix {
		k.writer(dst, weights, nil)
		return
	}
	// A matrix has numbers for each expert: rows go to it expert by expert.
	per := k.p.src.rows.Weights() / k.p.experts
	for len(weights) > 0 {
		expert := at / per
		n := min(int64(len(weights)), (expert+1)*per-at)
		k.writer(dst[:codec.Size(n)], weights[:n], k.numbers[expert*width:][:width])
		dst, weights, at = dst[codec.Size(n):], weights[n:], at+n
	}
}
