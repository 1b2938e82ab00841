//go:build !unix

package stages

import "os"

// stamp is what tells one state of a file from another without reading it.
type stamp struct {
	size, modified int64
	mode           os.FileMode
}

func stampOf(path string) (stamp, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return stamp{}, err
	}
	return stamp{st.Size(), st.ModTime().UnixNano(), st.Mode()}, nil
}

// at is the last change, in nanoseconds since 1970.
func (s stamp) at() int64 { return s.modified }
