package main

import (
	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/derive"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/kernels/divergence"
	"github.com/weighmaster/weighmaster/kernels/evaluate"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
	"github.com/weighmaster/weighmaster/kernels/token"
	"github.com/weighmaster/weighmaster/stages"
)

// registry holds every kernel of this version.
func registry() (*kernels.Registry, error) {
	return kernels.NewRegistry(digest.Kernel(), safetensors.Kernel(), gguf.Kernel(), token.Kernel(), derive.Kernel(), evaluate.Kernel(), divergence.Kernel(),
		stages.AcquireKernel(), stages.ReloadKernel())
}

// selfCheck is how one kernel did on its built-in input with its controls planted.
type selfCheck struct {
	Name     string           `json:"name"`
	Version  string           `json:"version"`
	Verdict  kernels.Verdict  `json:"verdict"`
	Failure  string           `json:"failure,omitempty"`
	Controls kernels.Controls `json:"controls"`
}

func (a *app) kernelsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "kernels", Short: "List the verification kernels, or run their self-checks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	list := &cobra.Command{
		Use: "list", Short: "List kernels with version, specification and the faults they claim to find", Args: cobra.NoArgs, Example: "  weighmaster kernels list --json",
		RunE: func(*cobra.Command, []string) error {
			reg, err := registry()
			if err != nil {
				return err
			}
			type row struct {
				Name    string   `json:"name"`
				Version string   `json:"version"`
				Spec    string   `json:"spec"`
				Summary string   `json:"summary"`
				Limits  []string `json:"limits"`
				Faults  []string `json:"faults"`
			}
			var rows []row
			for _, k := range reg.List() {
				rows = append(rows, row{k.Name, k.Version, k.Spec, k.Summary, k.Limits, k.Faults})
			}
			return a.answer(rows, func() {
				for _, k := range rows {
					a.printf("%-12s %-7s %s\n             %s\n", k.Name, k.Version, k.Summary, k.Spec)
					for _, f := range k.Faults {
						a.printf("             finds: %s\n", f)
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
			var controls kernels.Controls
			fail, rows := 0, []selfCheck{}
			for _, k := range reg.List() {
				rep, err := k.SelfCheck(cmd.Context())
				if err == nil {
					err = k.CheckFaults(rep.Controls)
				}
				controls.Planted += rep.Controls.Planted
				controls.Red += rep.Controls.Red
				controls.Missed += rep.Controls.Missed
				row := selfCheck{Name: k.Name, Version: k.Version, Verdict: rep.Verdict, Controls: rep.Controls}
				if err != nil {
					row.Verdict, row.Failure = kernels.Failed, err.Error()
				}
				if row.Verdict != kernels.Passed {
					fail++
				}
				rows = append(rows, row)
			}
			if err := a.answer(map[string]any{"kernels": rows, "failed": fail, "missed": controls.Missed}, func() {
				for _, r := range rows {
					if r.Verdict != kernels.Passed {
						a.printf("FAIL %-12s %s %s\n", r.Name, r.Verdict, r.Failure)
						continue
					}
					a.printf("ok   %-12s controls %d/%d red\n", r.Name, r.Controls.Red, r.Controls.Planted)
				}
				a.printf("%d kernels: %d pass, %d fail; %d controls: %d red as planted, %d missed\n", len(rows), len(rows)-fail, fail, controls.Planted, controls.Red, controls.Missed)
			}); err != nil {
				return err
			}
			if fail > 0 || controls.Missed > 0 {
				return &exitError{code: exitFalse}
			}
			return nil
		},
	}
	cmd.AddCommand(list, check)
	return cmd
}
