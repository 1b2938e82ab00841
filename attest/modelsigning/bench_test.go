package modelsigning_test

import (
	"context"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/attest/modelsigning"
)

// BenchmarkScan reads a folder of eight files; the floor is SHA-256.
func BenchmarkScan(b *testing.B) {
	const size = 8 << 20
	files := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		files[name] = strings.Repeat(name, size)
	}
	dir := folder(b, files)
	b.SetBytes(int64(len(files)) * size)
	for b.Loop() {
		if _, err := modelsigning.Scan(context.Background(), dir, 0, nil); err != nil {
			b.Fatal(err)
		}
	}
}
