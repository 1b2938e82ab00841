package convert

import "io"

func zeros(n int64) func(w io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(make([]byte, n)); return err }
}
