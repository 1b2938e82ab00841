// The program whose machine code fusion_test.go reads: it links the quantizers, and one
// function that leaves a product to the compiler, so that the search for fused ones can be seen to find.
package main

import (
	"os"

	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

//go:noinline
func planted(x, y, z float32) float32 { return x*y + z }

func main() {
	n := float32(len(os.Args))
	q, err := quant.NewQuantizer(gguf.Q4_K, quant.Plain)
	if err != nil {
		panic(err)
	}
	src := make([]float32, 256)
	src[0] = planted(n, n, n)
	dst := make([]byte, 144)
	q.Rows(dst, src, 256, nil)
	bad, _ := quant.CheckCodes(gguf.Q4_K, dst, src)
	os.Exit(int(bad))
}
