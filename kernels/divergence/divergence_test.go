package divergence

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels"
)

var (
	ctx       = context.Background()
	refDigest = godigest.FromString("reference")
)

func value(t *testing.T, r kernels.Report, name string) float64 {
	t.Helper()
	for _, m := range r.Metrics {
		if m.Name == name && m.Identity["text"] == "" {
			return m.Value
		}
	}
	t.Fatalf("the report has no metric %s", name)
	return 0
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(1, math.Abs(b)) }

// Two ids, so that every number can be worked out by hand.
func TestByHand(t *testing.T) {
	side := func(rows ...[]float32) Side {
		return Side{Domain{RealIDs, 2}, godigest.FromString("corpus"), "hand", []Text{{"a", []uint32{0, 1, 0, 0}, rows}}}
	}
	log3, log9 := float32(math.Log(3)), float32(math.Log(9))
	ref := side([]float32{0, 0, 50}, []float32{log3, 0, 50}, []float32{0, 0, 0}, []float32{9, 9, 9})
	cand := side([]float32{0, 0, -50}, []float32{0, log3, 0}, []float32{log9, 0, 0}, []float32{1, 2, 3})
	r, err := Compare(ctx, ref, cand, refDigest)
	if err != nil || r.Verdict != kernels.Passed {
		t.Fatal(r.Verdict, err, r.Controls)
	}
	l3, l9 := float64(log3), float64(log9)
	p3, p9 := math.Exp(l3)/(1+math.Exp(l3)), math.Exp(l9)/(1+math.Exp(l9))
	kl1 := p3*l3 - (1-p3)*l3                           // (3/4, 1/4) against (1/4, 3/4)
	kl2 := -math.Ln2 - (math.Log(p9)+math.Log(1-p9))/2 // (1/2, 1/2) against (9/10, 1/10)
	nllRef := (math.Ln2 - math.Log(p3) + math.Ln2) / 3
	nllCand := (math.Ln2 - math.Log(1-p3) - math.Log(p9)) / 3
	for name, want := range map[string]float64{
		"kl_mean": (kl1 + kl2) / 3, "kl_median": min(kl1, kl2), "kl_p90": max(kl1, kl2), "kl_p99": max(kl1, kl2), "kl_max": max(kl1, kl2),
		"top1_agreement": 2.0 / 3, // a tie goes to the smaller id
		"positions":      3, "nll_reference": nllRef, "nll_candidate": nllCand, "nll_ratio": nllCand/nllRef - 1,
		"logprob_diff_max": -math.Ln2 - math.Log(1-p9),
	} {
		if got := value(t, r, name); !near(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	d1, d2 := math.Log(p9)+math.Ln2, math.Log(1-p9)+math.Ln2
	if got, want := value(t, r, "logprob_diff_rms"), math.Sqrt((2*l3*l3+d1*d1+d2*d2)/6); !near(got, want) {
		t.Errorf("logprob_diff_rms: got %v, want %v", got, want)
	}
}

func TestSameSideIsZero(t *testing.T) {
	ref, _ := sample()
	r, err := Compare(ctx, ref, ref, refDigest)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kl_mean", "kl_max", "logprob_diff_max", "nll_ratio"} {
		if got := value(t, r, name); got != 0 {
			t.Errorf("%s of a side against itself: got %v, want 0", name, got)
		}
	}
	if r.Verdict != kernels.Passed || value(t, r, "top1_agreement") != 1 {
		t.Errorf("got %s, agreement %v", r.Verdict, value(t, r, "top1_agreement"))
	}
	for _, m := range r.Metrics {
		if m.Identity["domain"] != RealIDs || m.Identity["ids"] != "12" || m.Identity["reference"] != refDigest.String() ||
			m.Identity["corpus"] != ref.Corpus.String() || m.Identity["engine"] != ref.Engine {
			t.Errorf("%s: got identity %v", m.Name, m.Identity)
		}
	}
}

// Large logits do not overflow, and an impossible token gives a large NLL, not an infinity.
func TestStable(t *testing.T) {
	ref, cand := sample()
	cand = withRow(cand, 0, []float32{3e38, -3e38, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	r, err := Compare(ctx, ref, cand, refDigest)
	if err != nil {
		t.Fatal(err)
	}
	if got := value(t, r, "logprob_diff_max"); !(got > 5e38) {
		t.Errorf("got %v, want about 6e38", got)
	}
}

// CASES F: a row that is not finite is refused before anything is compared.
func TestNotFiniteIsRefusedFirst(t *testing.T) {
	ref, cand := sample()
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	row := func(s Side, p int) []float32 { return s.Texts[0].Rows[p] }
	for name, c := range map[string]struct {
		ref, cand Side
		where     string
	}{
		"NaN in the candidate":      {ref, withRow(cand, 2, changed(row(cand, 2), 3, nan)), `candidate, text "sample", row 2, id 3`},
		"-Inf in the reference":     {withRow(ref, 4, changed(row(ref, 4), 0, inf)), cand, `reference, text "sample", row 4, id 0`},
		"on both sides":             {withRow(ref, 1, changed(row(ref, 1), 5, inf)), withRow(cand, 1, changed(row(cand, 1), 5, inf)), `row 1, id 5`},
		"in the padding":            {ref, withRow(cand, 0, changed(row(cand, 0), 13, nan)), `row 0, id 13`},
		"in the row after the last": {ref, lastRow(cand, nan), `row 5, id 13`},
	} {
		r, err := Compare(ctx, c.ref, c.cand, refDigest)
		if err != nil {
			t.Fatal(name, err)
		}
		if r.Verdict != kernels.Failed || len(r.Metrics) != 0 || len(r.Findings) == 0 || r.Findings[0].Check != "finite" || !strings.Contains(r.Findings[0].Where, c.where) {
			t.Errorf("%s: got %s, %d metrics, findings %v, want a finding at %s and no metric", name, r.Verdict, len(r.Metrics), r.Findings, c.where)
		}
		if err := Kernel().CheckFaults(r.Controls); err != nil || r.Controls.Missed > 0 {
			t.Errorf("%s: %v, %d controls missed", name, err, r.Controls.Missed)
		}
	}
}

func TestNotComparable(t *testing.T) {
	ref, good := sample()
	text := good.Texts[0]
	for name, c := range map[string]struct {
		change func(*Side)
		want   string
	}{
		"domain":           {func(s *Side) { s.Domain = Domain{FullWidth, 14} }, "domain"},
		"fewer ids":        {func(s *Side) { s.Domain.IDs = 11 }, "domain"},
		"corpus":           {func(s *Side) { s.Corpus = godigest.FromString("other") }, "corpus"},
		"a text more":      {func(s *Side) { s.Texts = append(slices.Clone(s.Texts), s.Texts[0]) }, "texts"},
		"name":             {func(s *Side) { s.Texts = []Text{{"other", text.IDs, text.Rows}} }, "name"},
		"tokens":           {func(s *Side) { s.Texts = []Text{{text.Name, []uint32{0, 1, 2, 3, 4, 5}, text.Rows}} }, "token ids"},
		"a row less":       {func(s *Side) { s.Texts = []Text{{text.Name, text.IDs, text.Rows[1:]}} }, "rows of logits"},
		"one row narrower": {func(s *Side) { *s = withRow(*s, 3, text.Rows[3][:13]) }, "width of row 3"},
	} {
		cand := good
		c.change(&cand)
		_, err := Compare(ctx, ref, cand, refDigest)
		if !errors.Is(err, ErrNotComparable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error about %q", name, err, c.want)
		}
	}
	both := func(change func(*Side)) (Side, Side) {
		a, b := ref, good
		change(&a)
		change(&b)
		return a, b
	}
	for name, change := range map[string]func(*Side){
		"no texts":                func(s *Side) { s.Texts = nil },
		"unknown domain":          func(s *Side) { s.Domain.Name = "all" },
		"token beyond the domain": func(s *Side) { s.Domain.IDs = 6 },
		"domain wider than rows":  func(s *Side) { s.Domain.IDs = 15 },
		"full width that is not":  func(s *Side) { s.Domain.Name = FullWidth },
		"no corpus digest":        func(s *Side) { s.Corpus = "" },
	} {
		a, b := both(change)
		if _, err := Compare(ctx, a, b, refDigest); err == nil {
			t.Errorf("%s: compared all the same", name)
		}
	}
}

// KL over the padded width differs from KL over the real ids: the domain matters.
func TestDomainChangesTheNumber(t *testing.T) {
	ref, cand := sample()
	narrow, err := Compare(ctx, ref, cand, refDigest)
	if err != nil {
		t.Fatal(err)
	}
	ref.Domain, cand.Domain = Domain{FullWidth, 14}, Domain{FullWidth, 14}
	wide, err := Compare(ctx, ref, cand, refDigest)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := value(t, narrow, "kl_mean"), value(t, wide, "kl_mean"); a == b {
		t.Errorf("got %v over both domains", a)
	}
}

func TestSelfCheck(t *testing.T) {
	k := Kernel()
	r, err := k.SelfCheck(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.CheckFaults(r.Controls); err != nil {
		t.Error(err)
	}
	if r.Verdict != kernels.Passed || r.Controls.Missed > 0 {
		t.Errorf("got %s, controls %+v", r.Verdict, r.Controls)
	}
	if _, err := kernels.NewRegistry(k); err != nil {
		t.Error(err)
	}
}

// Rows that are all alike hide a swap: the control is missed and the report undecided, not passed.
func TestMissedControlIsUndecided(t *testing.T) {
	ref, cand := sample()
	text := cand.Texts[0]
	for i := range text.Rows {
		text.Rows[i] = text.Rows[0]
	}
	r, err := Compare(ctx, ref, with(cand, text), refDigest)
	if err != nil || r.Verdict != kernels.Undecided || r.Controls.Missed != 1 {
		t.Errorf("got %s, %d missed, %v, want undecided with the swap missed", r.Verdict, r.Controls.Missed, err)
	}
}
