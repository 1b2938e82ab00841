package digest

import (
	"context"
	"os"
	"testing"
)

// BenchmarkFileOnDisk hashes the file that WEIGHMASTER_BENCH_FILE names, so that
// the rate can be set beside other tools on the same file.
func BenchmarkFileOnDisk(b *testing.B) {
	path := os.Getenv("WEIGHMASTER_BENCH_FILE")
	if path == "" {
		b.Skip("WEIGHMASTER_BENCH_FILE names no file")
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("SHA256", func(b *testing.B) {
		b.SetBytes(info.Size())
		for b.Loop() {
			if _, err := SHA256(context.Background(), f, info.Size()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("SHA256 and git blob id", func(b *testing.B) {
		b.SetBytes(info.Size())
		for b.Loop() {
			if _, err := File(context.Background(), path); err != nil {
				b.Fatal(err)
			}
		}
	})
}
