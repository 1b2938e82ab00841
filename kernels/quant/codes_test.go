package quant

import (
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// checkCodes runs CheckCodes over every tensor of a real file for which it can.
func checkCodes(t *testing.T, source, target *gguf.File) (blocks, bad map[gguf.Type]int64) {
	t.Helper()
	blocks, bad = map[gguf.Type]int64{}, map[gguf.Type]int64{}
	for _, tensor := range target.Tensors {
		if !CodesFollow(tensor.Type) {
			continue
		}
		n, first := CheckCodes(tensor.Type, body(t, target, tensor), floats(t, source, tensor.Name))
		if (n == 0) != (first == -1) {
			t.Errorf("%s: %d bad blocks, the first at %d", tensor.Name, n, first)
		}
		blocks[tensor.Type] += int64(tensor.Elements() / 256)
		bad[tensor.Type] += n
	}
	return blocks, bad
}

// TestCodesOfHonestFilesFollow checks every block of every file, also of the build
// with fused multiply-add, whose scales differ.
func TestCodesOfHonestFilesFollow(t *testing.T) {
	source := model(t, "llama-grouped", "BF16.gguf")
	total := map[gguf.Type]int64{}
	for _, name := range madeBy(t, "", "more", "fma-build") {
		blocks, bad := checkCodes(t, source, model(t, "llama-grouped", name))
		for typ, n := range bad {
			total[typ] += blocks[typ]
			if n != 0 {
				t.Errorf("%s: %d of %d blocks of %s do not follow from their scales", name, n, blocks[typ], typ)
			}
		}
	}
	t.Log(total)
}

// TestCodesOfForgedFileDoNotFollow checks a Q4_K_M that was made from the Q8_0.
func TestCodesOfForgedFileDoNotFollow(t *testing.T) {
	blocks, bad := checkCodes(t, model(t, "llama-grouped", "BF16.gguf"), model(t, "llama-grouped", "forged", "Q4_K_M-made-from-Q8_0.gguf"))
	for typ, n := range blocks {
		t.Logf("%s: %d of %d blocks are bad", typ, bad[typ], n)
		if bad[typ] < n*8/10 {
			t.Errorf("%s: %d of %d blocks are bad, want most", typ, bad[typ], n)
		}
	}
}
