package compressed

import (
	"context"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/kerneltest"
)

func TestKernelFindsEveryPlantedFault(t *testing.T) {
	for _, name := range []string{"", "ct-nvfp4", "modelopt-nvfp4-kv", "ct-fp8-block"} {
		r, err := Kernel().SelfCheck(context.Background())
		if name != "" {
			r, err = Check(context.Background(), dir("source"), dir(name))
		}
		if err != nil {
			t.Fatal(name, err)
		}
		kerneltest.Passes(t, name, Kernel(), r)
	}
	kerneltest.Sound(t, Kernel())
}
