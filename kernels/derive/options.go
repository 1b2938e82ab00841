package derive

import (
	"fmt"
	"sync"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/imatrix"
)

// Options are what is at hand beside both sides.
type Options struct {
	Matrix       *imatrix.Matrix // nil for none
	MatrixDigest godigest.Digest // of the matrix's file, shown as it is given
	NoDigest     bool            // recompute the whole file without hashing it
	// TokenizerCompared leaves what differs of a vocabulary to a comparison of the
	// tokenizers, for converters that were patched: see [Check]. The source is a snapshot.
	TokenizerCompared bool
}

// held is how many tensors' parts of a matrix are in memory at once. Work goes
// tensor after tensor, so that few are in use at a time.
const held = 4

// importance reads parts of a matrix when they are needed and keeps the last few.
type importance struct {
	matrix *imatrix.Matrix
	mutex  sync.Mutex
	parts  []part
}

type part struct {
	name    string
	numbers []float32
}

// of gives one tensor's part.
func (m *importance) of(name string) ([]float32, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, p := range m.parts {
		if p.name == name {
			return p.numbers, nil
		}
	}
	numbers, has, err := m.matrix.Weights(name)
	if err != nil || !has {
		return nil, fmt.Errorf("importance matrix: entry %s: %w", name, err)
	}
	if len(m.parts) == held {
		m.parts = m.parts[1:]
	}
	m.parts = append(m.parts, part{name, numbers})
	return numbers, nil
}

// weigh tells a pair how many experts the matrix has numbers for, 0 where it has none for it.
func (m *importance) weigh(p *pair) error {
	if m == nil || p.same() || !usesMatrix(p.dst.typ) {
		return nil
	}
	e, has := m.matrix.Entry(p.src.name)
	if !has {
		return nil
	}
	n := e.Values()
	if experts := n / p.width(); n == 0 || n%p.width() != 0 || p.src.rows.Weights()/p.width()%experts != 0 {
		return &UncheckedError{Got: fmt.Sprintf("%d numbers in entry %s of the importance matrix", n, p.src.name), Want: fmt.Sprintf("one for each of %d columns, of each expert: the matrix is of another model", p.width())}
	}
	p.importance, p.experts = m, n/p.width()
	return nil
}

func newImportance(o Options) *importance {
	if o.Matrix == nil {
		return nil
	}
	return &importance{matrix: o.Matrix}
}
