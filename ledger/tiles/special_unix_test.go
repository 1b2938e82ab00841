//go:build unix

package tiles_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weighmaster/weighmaster/ledger/tiles"
)

// TestSpecialFiles: what is no file in the folder is not waited for and not
// followed out of it.
func TestSpecialFiles(t *testing.T) {
	for _, name := range []string{"checkpoint", "tile/0/000.p/3", "tile/entries/000.p/3", "tile/0/001"} {
		for _, c := range []struct {
			kind string
			make func(path string) error
			want string
		}{
			{"pipe", func(path string) error { return unix.Mkfifo(path, 0o644) }, "not a regular file|none of the log's"},
			{"link out of the folder", func(path string) error { return os.Symlink("/dev/zero", path) }, "path escapes|none of the log's"},
			{"folder", func(path string) error { return os.Mkdir(path, 0o755) }, "not a regular file|"},
		} {
			_, verifier, folder := exported(t, 3)
			path := filepath.Join(folder, name)
			os.Remove(path)
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(folder)
			if err != nil {
				t.Fatal(err)
			}
			v, err := tiles.Verify(t.Context(), root.FS(), verifier)
			root.Close()
			said := ""
			switch {
			case err != nil:
				said = err.Error()
			case !v.OK():
				said = v.Findings[0].String()
			case name == "tile/0/001" && c.kind == "folder":
				continue // an empty folder holds no file
			}
			first, second, _ := strings.Cut(c.want, "|")
			if said == "" || (!strings.Contains(said, first) && (second == "" || !strings.Contains(said, second))) {
				t.Errorf("%s in the place of %s: %q, want %q", c.kind, name, said, c.want)
			}
		}
	}
}
