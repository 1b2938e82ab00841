package derive

import (
	"fmt"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
)

// UncheckedError tells why nothing was checked: the two sides are of kinds that are not compared, or the
// importance matrix at hand cannot be used. It says nothing against the target.
type UncheckedError struct {
	Got, Want string
	Findings  []kernels.Finding // of the matrix
}

func (e *UncheckedError) Error() string {
	said := fmt.Sprintf("got %s, want %s", e.Got, e.Want)
	if len(e.Findings) > 0 {
		said += "\n" + kernels.Lines(e.Findings)
	}
	return said
}

// SourceError tells that the source cannot be read. It says nothing against the target.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return "source: " + e.Err.Error() }

func (e *SourceError) Unwrap() error { return e.Err }

// judgeMatrix validates the matrix at hand before anything is made with it. The
// findings that are left do not speak against its use.
func judgeMatrix(src *side, o Options) ([]kernels.Finding, error) {
	if o.Matrix == nil {
		return nil, nil
	}
	var bad, left []kernels.Finding
	for _, f := range o.Matrix.Validate(infos(src)) {
		if imatrix.Unusable(f) {
			bad = append(bad, f)
		} else {
			left = append(left, f)
		}
	}
	if len(bad) > 0 {
		return nil, &UncheckedError{Got: fmt.Sprintf("an importance matrix with faults (%d)", len(bad)), Want: "a matrix whose numbers can be used; compare without it, or with the one that the target was made with", Findings: bad}
	}
	return left, nil
}
