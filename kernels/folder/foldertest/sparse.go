// Package foldertest makes folders for tests.
package foldertest

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// Sparse writes a safetensors file into dir: a header, and size bytes of
// tensors that are a hole of zeros.
func Sparse(t *testing.T, dir string, header map[string]any, size int64) {
	t.Helper()
	text := folder.JSON(header)
	path := filepath.Join(dir, safetensors.SingleName)
	if err := os.WriteFile(path, slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(8+len(text))+size); err != nil {
		t.Fatal(err)
	}
}
