package divergence

import (
	"context"
	"math"
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
)

// row is what one scored row gave.
type row struct {
	text                 string
	kl                   float64 // nats
	refTop, candTop      int
	diffMax, diffSquares float64 // |ln p − ln q|: largest, and sum of squares over the domain's ids
	ids                  int
	refNLL, candNLL      float64 // nats
}

// measure scores every row that has a next token. Both sides are comparable and finite.
func measure(ctx context.Context, reference, candidate Side) ([]row, error) {
	var rows []row
	n := reference.Domain.IDs
	for i, t := range reference.Texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for p := range len(t.IDs) - 1 {
			r := score(t.Rows[p][:n], candidate.Texts[i].Rows[p][:n], int(t.IDs[p+1]))
			r.text = t.Name
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func score(ref, cand []float32, next int) row {
	r := row{ids: len(ref), refTop: top(ref), candTop: top(cand)}
	refNorm, candNorm := logSumExp(ref), logSumExp(cand)
	for id := range ref {
		lp, lq := float64(ref[id])-refNorm, float64(cand[id])-candNorm
		d := lp - lq
		r.kl += float64(math.Exp(lp) * d)
		r.diffSquares += float64(d * d)
		r.diffMax = max(r.diffMax, math.Abs(d))
	}
	r.kl = max(r.kl, 0) // exact arithmetic never gives less; rounding can, by some 1e-16
	r.refNLL, r.candNLL = refNorm-float64(ref[next]), candNorm-float64(cand[next])
	return r
}

// logSumExp is ln Σ exp(x), with the largest value taken out so that nothing overflows.
func logSumExp(x []float32) float64 {
	m := float64(x[top(x)])
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - m)
	}
	return m + math.Log(sum)
}

// top is the id of the largest logit, the smallest id at a tie.
func top(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

func metrics(rows []row, id map[string]string) []kernels.Metric {
	n := float64(len(rows))
	kl := make([]float64, len(rows))
	var klSum, agree, diffMax, squares, ids, ref, cand float64
	for i, r := range rows {
		kl[i] = r.kl
		klSum += r.kl
		if r.refTop == r.candTop {
			agree++
		}
		diffMax = max(diffMax, r.diffMax)
		squares += r.diffSquares
		ids += float64(r.ids)
		ref += r.refNLL
		cand += r.candNLL
	}
	slices.Sort(kl)
	list := []kernels.Metric{
		{Name: "kl_mean", Unit: "nats", Value: klSum / n},
		{Name: "kl_median", Unit: "nats", Value: quantile(kl, 0.5)},
		{Name: "kl_p90", Unit: "nats", Value: quantile(kl, 0.9)},
		{Name: "kl_p99", Unit: "nats", Value: quantile(kl, 0.99)},
		{Name: "kl_max", Unit: "nats", Value: kl[len(kl)-1]},
		{Name: "top1_agreement", Unit: "fraction", Value: agree / n},
		{Name: "logprob_diff_max", Unit: "nats", Value: diffMax},
		{Name: "logprob_diff_rms", Unit: "nats", Value: math.Sqrt(squares / ids)},
		{Name: "nll_reference", Unit: "nats/token", Value: ref / n},
		{Name: "nll_candidate", Unit: "nats/token", Value: cand / n},
		{Name: "nll_ratio", Unit: "fraction", Value: cand/ref - 1},
		{Name: "positions", Unit: "positions", Value: n},
	}
	for i := range list {
		list[i].Identity = id
	}
	return append(list, textMetrics(rows, id)...)
}

// textMetrics gives each text's own mean NLL. Rows of one text are adjacent.
func textMetrics(rows []row, id map[string]string) []kernels.Metric {
	var list []kernels.Metric
	for len(rows) > 0 {
		end := 1
		for end < len(rows) && rows[end].text == rows[0].text {
			end++
		}
		var ref, cand float64
		for _, r := range rows[:end] {
			ref += r.refNLL
			cand += r.candNLL
		}
		own := map[string]string{"text": rows[0].text}
		for k, v := range id {
			own[k] = v
		}
		list = append(list,
			kernels.Metric{Name: "text_nll_reference", Unit: "nats/token", Value: ref / float64(end), Identity: own},
			kernels.Metric{Name: "text_nll_candidate", Unit: "nats/token", Value: cand / float64(end), Identity: own})
		rows = rows[end:]
	}
	return list
}

// quantile is the smallest of the sorted values that a share of at least q does not exceed.
func quantile(sorted []float64, q float64) float64 {
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}
