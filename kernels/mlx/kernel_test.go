package mlx

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
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
		for _, c := range r.Controls.Results {
			if !c.Red {
				t.Errorf("%s: control %q came out green", name, c.Name)
			}
		}
		if r.Verdict != kernels.Passed || r.Controls.Planted != len(controls) {
			t.Errorf("%s: got %s, %d planted, %v; want passed and %d", name, r.Verdict, r.Controls.Planted, r.Findings, len(controls))
		}
		if err := Kernel().CheckFaults(r.Controls); err != nil {
			t.Error(err)
		}
		if err := Kernel().CheckGates(r); err != nil {
			t.Error(err)
		}
	}
	if c := Kernel().Check(context.Background()); c.Verdict != kernels.Passed || len(c.LimitProblems) > 0 {
		t.Errorf("got %+v, want a passed check without limit problems", c)
	}
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
