package compressed

import (
	"context"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
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
