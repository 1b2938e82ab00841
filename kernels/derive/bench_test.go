package derive

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
)

// BenchmarkTensors reports bytes of source; the controls and the metadata are not in it.
func BenchmarkTensors(b *testing.B) {
	dir := shared.Path(b, "data", "llama-grouped")
	for _, name := range []string{"BF16", "Q8_0"} {
		b.Run(name, func(b *testing.B) {
			src, err := open(Input{Snapshot: os.DirFS(filepath.Join(dir, "hf"))})
			if err != nil {
				b.Fatal(err)
			}
			defer src.close()
			dst, err := openFile(readFile(b, filepath.Join(dir, name+".gguf")))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(src.size())
			for b.Loop() {
				inv, err := compareTensors(b.Context(), src, dst, Options{})
				if err != nil || len(inv.findings) > 0 {
					b.Fatal(err, inv.findings)
				}
			}
		})
	}
}

// BenchmarkCheck is the whole check of a small model: mostly its fixed costs.
func BenchmarkCheck(b *testing.B) {
	dir := shared.Path(b, "data", "llama-grouped")
	product := readFile(b, filepath.Join(dir, "BF16.gguf"))
	b.SetBytes(product.Size)
	for b.Loop() {
		if _, err := Check(b.Context(), Input{Snapshot: os.DirFS(filepath.Join(dir, "hf"))}, product, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
