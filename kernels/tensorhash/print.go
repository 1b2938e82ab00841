package tensorhash

import (
	"fmt"
	"io"
)

// Print writes digests as llama-gguf-hash does with --all: three lines for each
// tensor, named FILE:TENSOR, and three for the model, named FILE. What was not
// computed has no line.
func Print(w io.Writer, file string, tensors []string, of []Digests, model Digests) error {
	for i, d := range of {
		if err := d.print(w, file+":"+tensors[i]); err != nil {
			return err
		}
	}
	return model.print(w, file)
}

func (d Digests) print(w io.Writer, name string) error {
	for _, line := range [][2]string{{"xxh64", d.XXH64}, {"sha1", d.SHA1}, {"sha256", d.SHA256}} {
		if line[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-8s  %s  %s\n", line[0], line[1], name); err != nil {
			return err
		}
	}
	return nil
}
