package kernels

import "io"

// Patch replaces bytes of an input from Offset on.
type Patch struct {
	Offset int64 // bytes, 0-based
	Bytes  []byte
}

// Overlay reads R with the patches laid over it. Planted controls use it: the
// fault is in a view of the input, the input itself is never written.
type Overlay struct {
	R       io.ReaderAt
	Patches []Patch
}

// ReadAt implements io.ReaderAt.
func (o Overlay) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.R.ReadAt(p, off)
	for _, patch := range o.Patches {
		from, to := max(patch.Offset, off), min(patch.Offset+int64(len(patch.Bytes)), off+int64(n))
		if from < to {
			copy(p[from-off:to-off], patch.Bytes[from-patch.Offset:])
		}
	}
	return n, err
}
