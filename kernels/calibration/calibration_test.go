package calibration

import (
	"testing"

	"github.com/weighmaster/weighmaster/kernels/kerneltest"
)

func TestKernelIsSound(t *testing.T) { kerneltest.Sound(t, Kernel()) }

func TestSelfCheckPlantsEveryFault(t *testing.T) {
	r, err := Kernel().SelfCheck(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.Passes(t, "self-check", Kernel(), r)
}
