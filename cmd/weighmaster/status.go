package main

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// stageStatus is the newest recorded run of a stage.
type stageStatus struct {
	Stage   string          `json:"stage"`
	Uses    string          `json:"uses"`
	Verdict schemas.Verdict `json:"verdict,omitempty"` // empty: never run
	Failure string          `json:"failure,omitempty"`
	Runs    int             `json:"runs"`
}

func (a *app) statusCommand() *cobra.Command {
	var watch bool
	var every time.Duration
	cmd := &cobra.Command{
		Use: "status", Short: "Show each stage's newest recorded run, what runs and what lies about unfinished", Args: cobra.NoArgs,
		Long: "Status shows each stage's newest recorded run, and of the stages that have no end yet what they last said of themselves: bytes, rate, time left, the last sample of\n" +
			"the machine. A stage is called running only while the very process that wrote lately is there, by its boot, pid and start; else it is called stale, stopped or interrupted.",
		Example: "  weighmaster status\n  weighmaster --project my-model status --json\n  weighmaster status --watch",
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer p.close()
			if every < 100*time.Millisecond {
				return usage("--every: got %s, want at least 100ms", every)
			}
			if watch {
				if err := a.watch(cmd.Context(), p, every); err != nil || a.json {
					return err
				}
			}
			pipeline, _, err := p.readPipeline()
			if err != nil {
				return err
			}
			claims, err := p.allClaims(cmd.Context())
			if err != nil {
				return err
			}
			runs, _ := policy.Runs(claims)
			var list []stageStatus
			for _, decl := range pipeline.Stages {
				s := stageStatus{Stage: decl.Name, Uses: decl.Uses}
				for _, run := range runs {
					if run.External.Stage != decl.Name || run.Uses != decl.Uses {
						continue
					}
					s.Runs++
					s.Verdict, s.Failure = p.outcome(cmd.Context(), run)
				}
				list = append(list, s)
			}
			list = append(list, p.unplanned(cmd.Context(), pipeline, runs)...)
			partials, err := filepath.Glob(filepath.Join(p.dir, workDir, "*", "*.partial"))
			if err != nil {
				return err
			}
			if partials == nil {
				partials = []string{}
			}
			now, err := p.standing(cmd.Context(), claims, p.places)
			if err != nil {
				return err
			}
			back, fallen := now.back(), now.decisions("")
			running, faults := p.running(time.Now())
			return a.answer(map[string]any{"stages": list, "running": running, "unreadable": faults, "partials": partials, "withdrawn": back, "fallen": fallen}, func() {
				for _, s := range list {
					if s.Runs == 0 {
						a.printf("---  %-18s %-9s not run\n", s.Stage, s.Uses)
						continue
					}
					a.printf("%s %-18s %-9s %s %s\n", mark(s.Verdict), s.Stage, s.Uses, s.Verdict, s.Failure)
				}
				for _, s := range running {
					a.printf("%s\n", s.line())
				}
				for _, f := range faults {
					a.printf("%s\n", f)
				}
				for _, t := range back {
					t.print(a)
				}
				for _, d := range fallen {
					d.print(a)
				}
				if len(partials) > 0 {
					a.printf("unfinished: %s\n", strings.Join(partials, ", "))
				}
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show the running stages until none is left, then the rest")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "with --watch: the time between two looks")
	return cmd
}

// unplanned are recorded runs of stages that the pipeline does not name, such as those of exec.
func (p *project) unplanned(ctx context.Context, pipeline schemas.Pipeline, runs []*policy.Run) []stageStatus {
	planned := map[string]bool{}
	for _, decl := range pipeline.Stages {
		planned[decl.Name+" "+decl.Uses] = true
	}
	var list []stageStatus
	at := map[string]int{}
	for _, run := range runs {
		key := run.External.Stage + " " + run.Uses
		if planned[key] {
			continue
		}
		i, seen := at[key]
		if !seen {
			i = len(list)
			at[key] = i
			list = append(list, stageStatus{Stage: run.External.Stage, Uses: run.Uses})
		}
		list[i].Runs++
		list[i].Verdict, list[i].Failure = p.outcome(ctx, run)
	}
	return list
}
