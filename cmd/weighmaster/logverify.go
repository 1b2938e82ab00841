package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/weighmaster/weighmaster/ledger"
)

func (a *app) logVerifyCommand() *cobra.Command {
	var elsewhere verifyElsewhere
	cmd := &cobra.Command{
		Use: "verify", Short: "Rehash every entry and hold the tree against every checkpoint kept outside", Args: cobra.NoArgs,
		Example: "  weighmaster log verify\n" +
			"  weighmaster log verify --against /elsewhere/checkpoint\n" +
			"  weighmaster log verify --tiles public/log --trust trust.yaml",
		Long: "Verify rehashes every stored entry, reads again what each bundle is about, recomputes the tree and checks it against every checkpoint, checks every signature,\n" +
			"and rehashes every evidence object. It tells everything that does not hold, also of a ledger that no other command opens.\n" +
			"Exit code 3: the log contradicts itself; what is printed proves it to anyone who has the log's key. Exit code 1: a checkpoint's file or an evidence object was altered, or is missing.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if elsewhere.tiles != "" {
				return a.verifyTiles(cmd.Context(), elsewhere)
			}
			if elsewhere.trust != "" {
				return usage("--trust goes with --tiles: a project has its own trust file")
			}
			against, err := elsewhere.checkpoints()
			if err != nil {
				return err
			}
			p, opt, err := a.unopened(cmd.Context(), false)
			if err != nil {
				return err
			}
			defer p.close()
			report, err := p.verifyLog(cmd.Context(), opt, against...)
			if err != nil {
				return err
			}
			if err := a.answer(report, func() { a.printf("%s", report) }); err != nil {
				return err
			}
			return report.exit()
		},
	}
	elsewhere.flags(cmd)
	return cmd
}

// logReport is the answer of log verify.
type logReport struct {
	Size        int64            `json:"size"`        // entries rehashed
	Root        tlog.Hash        `json:"root"`        // recomputed from the stored leaves
	Checkpoints int              `json:"checkpoints"` // kept outside, that hold
	Compared    int              `json:"compared"`    // given with --against, that hold
	Cosigned    int              `json:"cosigned"`    // cosignatures by witnesses of trust.yaml, that hold
	Claims      int              `json:"claims"`      // entries whose signatures hold
	Objects     int              `json:"objects"`     // evidence objects that the claims name
	Absent      int              `json:"absent"`      // of imported claims, private and not here
	Findings    []ledger.Finding `json:"findings"`
	Truncated   bool             `json:"truncated"` // there were more findings
	Proof       *logProof        `json:"contradiction,omitempty"`
}

// logProof is what a third party needs to see that the log lied.
type logProof struct {
	Reason string    `json:"reason"`
	Key    string    `json:"key"`             // the log's, as a note verifier key
	Signed string    `json:"signed"`          // checkpoint that the log signed
	Other  string    `json:"other,omitempty"` // another one that cannot hold beside it
	Size   int64     `json:"storedSize"`      // entries that are stored now
	At     int64     `json:"rootAt"`          // entries under Root
	Root   tlog.Hash `json:"storedRoot"`      // root of the first At stored entries
}

func (p *project) verifyLog(ctx context.Context, opt ledger.Options, against ...[]byte) (*logReport, error) {
	_, newest := opt.Checkpoints.Newest(ctx)
	if _, latest := opt.Checkpoints.Latest(ctx); errors.Is(newest, ledger.ErrNotFound) && errors.Is(latest, ledger.ErrNotFound) {
		return nil, ledger.ErrNoCheckpoint
	}
	v, err := ledger.Verify(ctx, p.store, opt)
	if err != nil {
		return nil, err
	}
	report := &logReport{Size: v.Size, Root: v.Root, Checkpoints: v.Checkpoints, Findings: append([]ledger.Finding{}, v.Findings...), Truncated: v.Truncated}
	lied := v.Contradiction
	if v.OK() {
		if p.log, err = ledger.Open(ctx, p.store, opt); err != nil && !errors.As(err, &lied) {
			return nil, err
		}
	}
	for _, msg := range against {
		if p.log == nil || lied != nil {
			break // what is stored contradicts what lies beside it already
		}
		if _, err := p.log.Compare(ctx, msg); err == nil {
			report.Compared++
		} else if !errors.As(err, &lied) {
			return nil, err
		}
	}
	if lied != nil {
		report.Proof = proofOf(lied, p.trust.Log.Key)
	}
	var check evidenceCheck
	if p.log == nil {
		// Nobody can say what the claims are; the objects' digests are their names.
		check, err = p.checkEvidence(ctx, nil)
	} else {
		claims, claimsErr := p.allClaims(ctx)
		if claimsErr != nil {
			return nil, claimsErr
		}
		report.Claims = len(claims)
		if err := p.checkImported(ctx); err != nil {
			return nil, err
		}
		check, err = p.checkEvidence(ctx, claims)
	}
	if err != nil {
		return nil, err
	}
	report.Objects, report.Absent = check.named, check.absent
	report.Findings = append(report.Findings, check.findings...)
	return report, p.checkCosignatures(ctx, opt, report)
}

// String is the report for people.
func (r *logReport) String() string {
	var b strings.Builder
	b.WriteString(r.failures())
	if r.Proof != nil {
		return b.String()
	}
	fmt.Fprintf(&b, "%d entries, root %s, %d checkpoints outside the database, %d claims, %d evidence objects\n", r.Size, r.Root, r.Checkpoints, r.Claims, r.Objects)
	if r.Compared > 0 {
		fmt.Fprintf(&b, "%d checkpoints from elsewhere hold\n", r.Compared)
	}
	if r.Cosigned > 0 {
		fmt.Fprintf(&b, "%d cosignatures by witnesses hold\n", r.Cosigned)
	}
	if r.Absent > 0 {
		fmt.Fprintf(&b, "%d evidence objects of imported claims are not here: private evidence stays where it was made\n", r.Absent)
	}
	return b.String()
}

// failures are the findings and the proof.
func (r *logReport) failures() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "FAIL %s\n", f)
	}
	if r.Truncated {
		fmt.Fprintf(&b, "FAIL and more\n")
	}
	if p := r.Proof; p != nil {
		fmt.Fprintf(&b, "The log contradicts itself: %s.\nIt signed, with the key %s:\n\n%s\n", p.Reason, p.Key, quoted(p.Signed))
		if p.Other != "" {
			fmt.Fprintf(&b, "and also signed:\n\n%s\nKeep both: anyone with the key can see that they cannot both be true.\n", quoted(p.Other))
		} else {
			fmt.Fprintf(&b, "The stored tree has %d entries, and %d of them have the root %s.\nKeep this checkpoint and the database: anyone with the key and both can see it.\n", p.Size, p.At, p.Root)
		}
	}
	return b.String()
}

func quoted(note string) string {
	return "    " + strings.ReplaceAll(strings.TrimSuffix(note, "\n"), "\n", "\n    ") + "\n"
}

// exit is 3 where what is stored contradicts itself or what was signed, 1 where
// copies outside the database are not what they were.
func (r *logReport) exit() error {
	code := exitHolds
	if r.Proof != nil || r.Truncated {
		code = exitContradicts
	}
	for _, f := range r.Findings {
		switch {
		case strings.HasPrefix(f.Check, "evidence ") || f.Check == ledger.CheckNote:
			code = max(code, exitFalse)
		default:
			code = exitContradicts
		}
	}
	if code == exitHolds {
		return nil
	}
	return &exitError{code: code}
}
