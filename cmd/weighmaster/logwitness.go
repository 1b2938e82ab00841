package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/witness"
)

// timeFormat is how times of others are printed.
const timeFormat = time.RFC3339

func (a *app) logWitnessCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "witness [NAME...]", Short: "Ask the witnesses of trust.yaml over the network to cosign the newest checkpoint", Args: cobra.ArbitraryArgs,
		Long: "Witness sends the newest signed checkpoint, with a proof that it extends what the witness saw before, to every witness of trust.yaml that has a url (C2SP tlog-witness), or to those named.\n" +
			"Verified cosignatures are kept with the checkpoint, and the evidence packages of what was delivered are written anew with it.\n" +
			"Nothing but the checkpoint and hashes leaves this machine. Exit code 2: a witness did not cosign. Exit code 3: a witness shows a checkpoint that the log signed and that this ledger contradicts.",
		Example: "  weighmaster log witness",
		RunE: func(cmd *cobra.Command, names []string) error {
			p, err := a.open(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer p.close()
			asked, err := p.askWitnesses(cmd.Context(), names, timeout)
			if err != nil {
				return err
			}
			if err := a.answer(asked, func() {
				for _, w := range asked.Witnesses {
					if w.Error != "" {
						a.printf("FAIL %s: %s\n", w.Name, w.Error)
						continue
					}
					a.printf("ok   %s cosigned %d entries at %s\n", w.Name, asked.Size, w.Time.Format(timeFormat))
				}
				for _, name := range asked.Packages {
					a.printf("wrote %s\n", name)
				}
				if asked.Proof != nil {
					a.printf("%s", (&logReport{Proof: asked.Proof}).failures())
				}
			}); err != nil {
				return err
			}
			if asked.Proof != nil {
				return &exitError{code: exitContradicts}
			}
			if asked.failed {
				return &exitError{code: exitUndecided}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", witness.DefaultTimeout, "for everything that one witness is asked")
	return cmd
}

// witnessAnswer is the answer of log witness.
type witnessAnswer struct {
	Size       int64          `json:"size"`
	Witnesses  []witnessState `json:"witnesses"`
	Checkpoint string         `json:"checkpoint"`         // with the cosignatures
	Packages   []string       `json:"packages,omitempty"` // written anew
	Proof      *logProof      `json:"contradiction,omitempty"`
	failed     bool
}

type witnessState struct {
	Name  string     `json:"name"`
	URL   string     `json:"url"`
	Time  *time.Time `json:"time,omitempty"`
	Error string     `json:"error,omitempty"`
}

// askWitnesses asks one after the other, so that each is asked what the ones
// before it could not change.
func (p *project) askWitnesses(ctx context.Context, names []string, timeout time.Duration) (*witnessAnswer, error) {
	keys, err := witnessKeys(p.trust)
	if err != nil {
		return nil, usage("%s: witnesses: %v", trustFile, err)
	}
	list, err := p.witnesses(names, keys)
	if err != nil {
		return nil, err
	}
	checkpoint, err := p.log.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	c, err := p.log.Extends(ctx, checkpoint)
	if err != nil {
		return nil, err
	}
	answer := &witnessAnswer{Size: c.Size, Checkpoint: string(checkpoint)}
	client := &witness.Client{Timeout: timeout}
	prove := func(ctx context.Context, old int64) (tlog.TreeProof, error) {
		return p.log.Consistency(ctx, old, checkpoint)
	}
	changed := false
	for _, w := range list {
		state := witnessState{Name: w.Key.Name(), URL: w.URL}
		cosigned, found, err := client.Cosign(ctx, w, p.logKey, checkpoint, prove)
		if err == nil {
			var kept []byte
			if kept, err = p.log.AddCosignatures(ctx, cosigned, keys); err == nil {
				answer.Checkpoint, state.Time, changed = string(kept), &found.Time, true
			}
		}
		if err != nil {
			answer.failed, state.Error = true, err.Error()
			if lied := p.shownLie(ctx, err); lied != nil {
				answer.Proof = proofOf(lied, p.trust.Log.Key)
			}
		}
		answer.Witnesses = append(answer.Witnesses, state)
	}
	if changed && exists(filepath.Join(p.dir, deliveredDir)) {
		if answer.Packages, err = p.packDelivered(ctx); err != nil {
			return nil, fmt.Errorf("the cosignatures are kept; evidence packages: %w", err)
		}
	}
	return answer, nil
}

// witnesses are those to ask: all that have an address, or the ones named.
func (p *project) witnesses(names []string, keys []note.Verifier) ([]witness.Witness, error) {
	var list []witness.Witness
	for i, w := range p.trust.Witnesses {
		named := slices.Contains(names, w.Origin)
		if len(names) > 0 && !named {
			continue
		}
		if w.URL == "" && named {
			return nil, usage("%s: the witness %s has no url to ask it at", trustFile, w.Origin)
		}
		if w.URL != "" {
			key, ok := keys[i].(*ledger.WitnessKey)
			if !ok {
				return nil, usage("%s: the key of witness %s is not one for cosignatures", trustFile, w.Origin)
			}
			list = append(list, witness.Witness{URL: w.URL, Key: key})
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(list, func(w witness.Witness) bool { return w.Key.Name() == name }) {
			return nil, usage("%s has no witness %q", trustFile, name)
		}
	}
	if len(list) == 0 {
		return nil, usage("%s has no witness with a url; add one under witnesses", trustFile)
	}
	return list, nil
}

// shownLie compares the checkpoint that a witness showed with the ledger; nil
// where they do not contradict each other, or none was shown.
func (p *project) shownLie(ctx context.Context, err error) *ledger.Contradiction {
	var failed *witness.Error
	var lied *ledger.Contradiction
	if errors.As(err, &lied) {
		return lied
	}
	if errors.As(err, &failed) && failed.Checkpoint != nil {
		if _, err := p.log.Compare(ctx, failed.Checkpoint); errors.As(err, &lied) {
			return lied
		}
	}
	return nil
}

// checkCosignatures verifies what the witnesses of trust.yaml signed on the
// checkpoints that are kept. That a cosignature was taken away cannot be seen
// here: a policy that demands it sees it.
func (p *project) checkCosignatures(ctx context.Context, opt ledger.Options, report *logReport) error {
	keys, err := witnessKeys(p.trust)
	if err != nil {
		return usage("%s: witnesses: %v", trustFile, err)
	}
	if len(keys) == 0 {
		return nil
	}
	for size, err := range opt.Checkpoints.Sizes(ctx) {
		if err != nil {
			return err
		}
		msg, err := opt.Checkpoints.At(ctx, size)
		if err != nil {
			return err
		}
		if _, err := ledger.ParseCheckpoint(msg, opt.Verifier); err != nil {
			continue // said already
		}
		found, err := ledger.Cosignatures(msg, opt.Verifier, keys)
		report.Cosigned += len(found)
		if err != nil && len(report.Findings) < ledger.MaxFindings {
			report.Findings = append(report.Findings, ledger.Finding{Check: ledger.CheckNote, Where: fmt.Sprintf("checkpoint of size %d", size), Got: err.Error(), Want: "cosignatures that verify, or none"})
		}
	}
	return nil
}
