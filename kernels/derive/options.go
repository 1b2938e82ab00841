package derive

import "fmt"

// Matrix gives the importance of each column of a tensor as llama-quantize uses
// it: width numbers for each expert, false for a tensor that it does not have.
type Matrix interface {
	Weights(name string) ([]float32, bool, error)
}

// Options are what is at hand beside both sides.
type Options struct {
	Matrix Matrix // nil for none
}

// importance gives the matrix's part for one pair, nil where there is none.
func (o Options) importance(p *pair) ([]float32, error) {
	if o.Matrix == nil || !usesMatrix(p.dst.typ) || p.same() {
		return nil, nil
	}
	w, has, err := o.Matrix.Weights(p.src.name)
	if err != nil || !has {
		return nil, err
	}
	n := int64(len(w))
	if experts := n / p.width(); n == 0 || n%p.width() != 0 || p.src.rows.Weights()/p.width()%experts != 0 {
		return nil, fmt.Errorf("importance matrix: tensor %s: got %d numbers, want one for each of %d columns, of each expert", p.src.name, n, p.width())
	}
	return w, nil
}
