package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
	"github.com/weighmaster/weighmaster/stages/azure"
	"github.com/weighmaster/weighmaster/stages/machine"
)

// machineVariable names this machine where --machine does not.
const machineVariable = "WEIGHMASTER_MACHINE"

// azureVariable holds the URL of a test server on this machine that stands in
// for Azure; what is recorded then says so.
const azureVariable = "WEIGHMASTER_AZURE_ENDPOINT"

// stageTypes are all stage types of this version.
func stageTypes() map[string]stages.Stage {
	rentals := azure.Rentals(azure.Options{Endpoint: os.Getenv(azureVariable)})
	byUses := map[string]stages.Stage{}
	for _, s := range []stages.Stage{
		stages.Acquire{Env: os.Getenv}, stages.Inspect{}, stages.Isolate{}, stages.Patch{}, stages.Build{}, stages.Exec{}, stages.Convert{}, stages.Quantize{}, stages.Calibrate{}, stages.Derive{}, stages.Parity{},
		stages.Baseline{}, stages.Evaluate{}, stages.Accept{}, stages.Deliver{}, stages.Reload{}, stages.Complete{},
		stages.Observe{Connect: rentals}, stages.Release{Connect: rentals},
	} {
		byUses[s.Uses()] = s
	}
	return byUses
}

func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run", Short: "Run the pipeline; what the ledger proves complete is not run again",
		Args:    cobra.NoArgs,
		Example: "  weighmaster run\n  weighmaster --project my-model run --progress json\n  weighmaster run --keep-going",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runPipeline(cmd.Context(), nil, nil)
		},
	}
	cmd.Flags().BoolVar(&a.keepGoing, "keep-going", false, "after a failure run what does not rest on it")
	a.waitFlag(cmd)
	return cmd
}

// waitFlag is for every verb that runs stages.
func (a *app) waitFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.noWait, "no-wait", false, "end instead of waiting while another project runs a heavy stage on this machine")
}

// stageCommand runs the pipeline's stages of one type, or those named; what
// they need must be complete.
func (a *app) stageCommand(uses, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use: uses + " [STAGE...]", Short: short,
		Example: "  weighmaster " + uses + "        (every stage of the pipeline that uses " + uses + ")",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runPipeline(cmd.Context(), func(p schemas.Pipeline) ([]string, error) {
				return stagesOf(p, uses, args)
			}, nil)
		},
	}
	a.waitFlag(cmd)
	return cmd
}

func stagesOf(p schemas.Pipeline, uses string, named []string) ([]string, error) {
	var list []string
	byName := map[string]string{}
	for _, s := range p.Stages {
		byName[s.Name] = s.Uses
		if s.Uses == uses && len(named) == 0 {
			list = append(list, s.Name)
		}
	}
	for _, name := range named {
		if byName[name] != uses {
			return nil, usage("stage %q of %s: got uses %q, want %q", name, pipelineFile, byName[name], uses)
		}
		list = append(list, name)
	}
	if len(list) == 0 {
		return nil, usage("%s has no stage that uses %s", pipelineFile, uses)
	}
	return list, nil
}

// runPipeline runs a project's pipeline, or the chosen part of it, with further
// stages at its end, and leaves evidence packages beside what was delivered.
func (a *app) runPipeline(ctx context.Context, choose func(schemas.Pipeline) ([]string, error), more []schemas.StageDecl) error {
	p, err := a.open(ctx, true)
	if err != nil {
		return err
	}
	defer p.close()
	runner, err := a.runner(ctx, p)
	if err != nil {
		return err
	}
	runner.Pipeline.Stages = append(runner.Pipeline.Stages, more...)
	for _, s := range runner.Pipeline.Stages { // said before anything runs
		if runner.Stages[s.Uses] == nil {
			known := slices.Sorted(maps.Keys(runner.Stages))
			return usage("%s: stage %s: uses %q, which is no stage type; known are %s", pipelineFile, s.Name, s.Uses, strings.Join(known, ", "))
		}
	}
	if choose != nil {
		if runner.Only, err = choose(runner.Pipeline); err != nil {
			return err
		}
	}
	_, runErr := runner.Run(ctx)
	packages, packErr := p.packDelivered(context.WithoutCancel(ctx))
	checkpoint, err := p.log.Checkpoint(context.WithoutCancel(ctx))
	if err = errors.Join(runErr, packErr, err); err != nil {
		return err
	}
	return a.answer(map[string]any{"verdict": schemas.Passed, "packages": packages, "checkpoint": string(checkpoint)}, func() {
		for _, name := range packages {
			a.printf("%s\n", name)
		}
		a.printf("\n%s", checkpoint)
	})
}

// runner prepares a run of the project's pipeline.
func (a *app) runner(ctx context.Context, p *project) (*stages.Runner, error) {
	pipeline, pipelineBody, err := p.readPipeline()
	if err != nil {
		return nil, err
	}
	policyDoc, policyBody, err := p.readPolicy()
	if err != nil {
		return nil, err
	}
	signers, err := a.signers(ctx, p)
	if err != nil {
		return nil, err
	}
	binary, err := stages.BinaryDigest()
	if err != nil {
		return nil, err
	}
	root, err := a.machineFolder()
	if err != nil {
		return nil, err
	}
	delivered := filepath.Join(p.dir, deliveredDir)
	if err := os.MkdirAll(delivered, 0o755); err != nil {
		return nil, err
	}
	return &stages.Runner{
		Project: p.dir, Pipeline: pipeline, Stages: stageTypes(), Signers: signers,
		Append: func(ctx context.Context, bundle []byte) error {
			_, err := p.record(ctx, bundle)
			return err
		},
		Claims: p.allClaims, Objects: evidenceStore{p.objects}, Builder: stages.Builder{Version: version(), Digest: binary},
		Extra: stages.Extra{
			Policy: policyDoc, PolicyDigest: godigest.FromBytes(policyBody), PipelineDigest: godigest.FromBytes(pipelineBody), Stages: pipeline.Stages, Delivered: delivered,
			Evidence: p.policyEvidence, Attachment: p.attachmentOf,
			Checkpoint: func(ctx context.Context) (string, error) {
				cp, err := p.log.Checkpoint(ctx)
				return string(cp), err
			},
		},
		Now: time.Now, Observe: a.observer(), Machine: a.machine,
		MachineRoot: root, NoWait: a.noWait, KeepGoing: a.keepGoing, Interval: machine.Interval,
	}, nil
}
