package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/calibration"
	"github.com/weighmaster/weighmaster/kernels/compressed"
	"github.com/weighmaster/weighmaster/kernels/derive"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/kernels/divergence"
	"github.com/weighmaster/weighmaster/kernels/evaluate"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/imatrix"
	"github.com/weighmaster/weighmaster/kernels/mlx"
	"github.com/weighmaster/weighmaster/kernels/placement"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
	"github.com/weighmaster/weighmaster/kernels/token"
	"github.com/weighmaster/weighmaster/stages"
)

// registry holds every kernel of this version.
func registry() (*kernels.Registry, error) {
	return kernels.NewRegistry(digest.Kernel(), safetensors.Kernel(), gguf.Kernel(), token.Kernel(), derive.Kernel(), evaluate.Kernel(), divergence.Kernel(), imatrix.Kernel(), mlx.Kernel(), compressed.Kernel(), placement.Kernel(), calibration.Kernel(),
		stages.AcquireKernel(), stages.ReloadKernel(), stages.IsolationKernel())
}

func (a *app) kernelsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "kernels", Short: "List the verification kernels, or run their self-checks", Args: cobra.NoArgs,
	}
	list := &cobra.Command{
		Use: "list", Short: "List kernels with version, specification and the faults they claim to find", Args: cobra.NoArgs, Example: "  weighmaster kernels list --json",
		RunE: func(*cobra.Command, []string) error {
			reg, err := registry()
			if err != nil {
				return err
			}
			type row struct {
				Name    string         `json:"name"`
				Version string         `json:"version"`
				Spec    string         `json:"spec"`
				Summary string         `json:"summary"`
				Limits  []string       `json:"limits"`
				Gates   []kernels.Gate `json:"gates"`
				Faults  []string       `json:"faults"`
			}
			var rows []row
			for _, k := range reg.List() {
				limits := []string{}
				for _, l := range k.Limits {
					limits = append(limits, l.What)
				}
				rows = append(rows, row{k.Name, k.Version, k.Spec, k.Summary, limits, k.Gates, k.Faults})
			}
			return a.answer(rows, func() {
				for _, k := range rows {
					a.printf("%-12s %-7s %s\n             %s\n", k.Name, k.Version, k.Summary, k.Spec)
					for _, f := range k.Faults {
						a.printf("             finds: %s\n", f)
					}
					for _, g := range k.Gates {
						a.printf("             gate:  %s\n", g)
					}
					for _, l := range k.Limits {
						a.printf("             limit: %s\n", l)
					}
				}
			})
		},
	}
	check := &cobra.Command{
		Use: "check", Short: "Run every kernel on its built-in input with all its controls planted", Args: cobra.NoArgs, Example: "  weighmaster kernels check",
		RunE: func(cmd *cobra.Command, _ []string) error {
			reg, err := registry()
			if err != nil {
				return err
			}
			return a.checkKernels(cmd.Context(), reg)
		},
	}
	cmd.RunE = list.RunE
	cmd.AddCommand(list, check)
	return cmd
}

// checkKernels fails when a kernel fails, a control is missed or a limit is not as stated.
func (a *app) checkKernels(ctx context.Context, reg *kernels.Registry) error {
	sum := reg.Check(ctx)
	if err := a.answer(sum, func() {
		for _, k := range sum.Kernels {
			word := "ok  "
			if k.Verdict != kernels.Passed || k.Controls.Missed > 0 || len(k.LimitProblems) > 0 {
				word = "FAIL"
			}
			a.printf("%s %-12s %s, controls %d/%d red %s\n", word, k.Name, k.Verdict, k.Controls.Red, k.Controls.Planted, k.Failure)
			for _, c := range k.Controls.Results {
				if !c.Red {
					a.printf("     missed: %s (%s): %s\n", c.Name, c.Fault, c.Detail)
				}
			}
			for _, p := range k.LimitProblems {
				a.printf("     limit: %s\n", p)
			}
		}
		a.printf("%s\n", sum)
	}); err != nil {
		return err
	}
	if !sum.OK() {
		return &exitError{code: exitFalse}
	}
	return nil
}
