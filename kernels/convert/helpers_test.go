package convert

import (
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

func codecBF16(t testing.TB) quant.Codec {
	t.Helper()
	c, err := quant.For(gguf.BF16)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
