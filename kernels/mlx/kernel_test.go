package mlx

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/kerneltest"
)

func TestKernelFindsEveryPlantedFault(t *testing.T) {
	source := os.DirFS(filepath.Join(fixtures, "source"))
	for _, name := range []string{"", "affine-3-32", "affine-4-64", "layered", "nvfp4"} {
		r, err := Kernel().SelfCheck(context.Background())
		if name != "" {
			r, err = Check(context.Background(), source, os.DirFS(filepath.Join(fixtures, name)))
		}
		if err != nil {
			t.Fatal(name, err)
		}
		kerneltest.Passes(t, name, Kernel(), r)
	}
	kerneltest.Sound(t, Kernel())
}

// TestUnchangedViewIsAccepted shows that controls are red because of their
// fault and not because of how the view is made.
func TestUnchangedViewIsAccepted(t *testing.T) {
	source, product := example()
	_, found, err := compareFolders(context.Background(), source, folder.View{FS: product}, nil)
	if err != nil || len(found) > 0 {
		t.Error(err, found)
	}
}
