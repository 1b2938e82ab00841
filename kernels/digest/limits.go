package digest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/weighmaster/weighmaster/kernels"
)

// limits is what the comparison of a folder does not look at.
func limits() []kernels.Limit {
	return []kernels.Limit{
		{What: "permissions, times and empty folders are not covered", Probe: func(ctx context.Context) error {
			return kernels.Unseen(changedFolder(ctx, func(dir string) error {
				return errors.Join(os.Chmod(filepath.Join(dir, "a"), 0o400), os.Chtimes(filepath.Join(dir, "a"), time.Unix(1, 0), time.Unix(1, 0)), os.Mkdir(filepath.Join(dir, "empty"), 0o700))
			}))
		}},
		{What: "symbolic links that leave the folder are refused, not followed", Probe: func(ctx context.Context) error {
			r, err := changedFolder(ctx, func(dir string) error { return os.Symlink(os.TempDir(), filepath.Join(dir, "link")) })
			return kernels.Refuses(r, err, "link")
		}},
	}
}

// changedFolder verifies a folder with one file after a change to it.
func changedFolder(ctx context.Context, change func(dir string) error) (kernels.Report, error) {
	dir, err := os.MkdirTemp("", "weighmaster-digest-")
	if err != nil {
		return kernels.Report{}, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("weights"), 0o600); err != nil {
		return kernels.Report{}, err
	}
	m, err := ManifestOf(ctx, dir)
	if err != nil {
		return kernels.Report{}, err
	}
	if err := change(dir); err != nil {
		return kernels.Report{}, err
	}
	return Verify(ctx, dir, m)
}
