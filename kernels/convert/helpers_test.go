package convert

import (
	"io"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

func zeros(n int64) func(w io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(make([]byte, n)); return err }
}

func codecBF16(t testing.TB) quant.Codec {
	t.Helper()
	c, err := quant.For(gguf.BF16)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
