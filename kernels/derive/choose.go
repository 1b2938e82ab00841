package derive

import (
	"context"
	"slices"

	"github.com/weighmaster/weighmaster/kernels/quant"
)

// probeSize is about the number of weights of each of a tensor's two probes.
const probeSize = 16 << 10

// probe counts the blocks that differ in two places of a tensor, at its start and in its middle.
func (p *pair) probe(ctx context.Context, m making) (int64, error) {
	unit := p.width() * max(1, probeSize/p.width())
	total := p.src.rows.Weights()
	var blocks int64
	for _, from := range slices.Compact([]int64{0, total / 2 / p.width() * p.width()}) {
		d, err := p.compare(ctx, m, from, min(from+unit, total))
		if err != nil {
			return 0, err
		}
		blocks += d.blocks
	}
	return blocks, nil
}

// choose finds the ways in which all pairs may have been made: those that
// probes of a few tensors of each type do not refute, the likeliest first.
func choose(ctx context.Context, pairs []*pair, list []making) ([]making, error) {
	probed := map[*pair]map[making]int64{}
	var left []making
	for _, m := range list {
		fits := true
		for _, p := range sample(pairs) {
			own := m.of(p)
			blocks, known := probed[p][own]
			if !known {
				var err error
				if blocks, err = p.probe(ctx, own); err != nil {
					return nil, err
				}
				if probed[p] == nil {
					probed[p] = map[making]int64{}
				}
				probed[p][own] = blocks
			}
			if fits = blocks == 0; !fits {
				break
			}
		}
		if fits {
			left = append(left, m)
		}
	}
	return left, nil
}

// perType is how many tensors of each type are probed.
const perType = 4

// sample takes a few pairs of each type, evenly over the file.
func sample(pairs []*pair) []*pair {
	byType := map[string][]*pair{}
	for _, p := range pairs {
		byType[p.dst.typ.String()] = append(byType[p.dst.typ.String()], p)
	}
	var out []*pair
	for _, name := range sortedNames(byType) {
		of := byType[name]
		for i := range min(perType, len(of)) {
			out = append(out, of[i*len(of)/min(perType, len(of))])
		}
	}
	return out
}

// made compares all pairs under the way that fits the whole file best. The
// making is the zero value where none fits the probes: each pair then has its own best.
func made(ctx context.Context, pairs []*pair) (file making, how []making, diffs []difference, err error) {
	list := makings(pairs)
	left, err := choose(ctx, pairs, list)
	if err != nil {
		return making{}, nil, nil, err
	}
	for _, m := range left {
		ways := make([]making, len(pairs))
		for i, p := range pairs {
			ways[i] = m.of(p)
		}
		if how != nil && !better(ways, how, diffs) {
			continue
		}
		found, err := compareAll(ctx, pairs, ways)
		if err != nil {
			return making{}, nil, nil, err
		}
		if how == nil || differingPairs(found) < differingPairs(diffs) {
			file, how, diffs = m, ways, found
		}
		if differingPairs(diffs) == 0 {
			return file, how, diffs, nil
		}
	}
	if how == nil {
		how = make([]making, len(pairs))
		diffs = make([]difference, len(pairs))
		for i := range diffs {
			diffs[i].blocks = 1 // to be looked at below
		}
	}
	return refine(ctx, pairs, list, file, how, diffs)
}

// better tells that a way could fit a pair that the best one so far does not.
func better(ways, how []making, diffs []difference) bool {
	for i := range ways {
		if diffs[i].blocks > 0 && ways[i] != how[i] {
			return true
		}
	}
	return false
}

func differingPairs(diffs []difference) int {
	n := 0
	for _, d := range diffs {
		if d.blocks > 0 {
			n++
		}
	}
	return n
}

// refine gives each pair that differs the way with the fewest differing blocks in its probes.
func refine(ctx context.Context, pairs []*pair, list []making, file making, how []making, diffs []difference) (making, []making, []difference, error) {
	var again []*pair
	var at []int
	var ways []making
	for i, p := range pairs {
		if diffs[i].blocks == 0 {
			continue
		}
		best, err := p.nearest(ctx, list)
		if err != nil {
			return file, nil, nil, err
		}
		if best != how[i] {
			again, at, ways = append(again, p), append(at, i), append(ways, best)
		}
	}
	found, err := compareAll(ctx, again, ways)
	if err != nil {
		return file, nil, nil, err
	}
	for j, i := range at {
		if how[i] == (making{}) || found[j].blocks < diffs[i].blocks {
			how[i], diffs[i] = ways[j], found[j]
		}
	}
	return file, how, diffs, nil
}

// nearest finds the way with the fewest differing blocks in a pair's probes.
// Builds differ in a small part of the blocks: where the plain one differs in
// most of them, the others are not tried, and a matrix that does not help is left out.
func (p *pair) nearest(ctx context.Context, list []making) (making, error) {
	unit := p.width() * max(1, probeSize/p.width())
	most := min(2*unit, p.src.rows.Weights()) / int64(p.dst.rows.Codec.Weights) / 2
	best, fewest := plainly, int64(-1)
	far := map[making]bool{}
	for _, m := range list {
		own := m.of(p)
		family := own
		family.build = quant.Plain
		if far[family] {
			continue
		}
		blocks, err := p.probe(ctx, own)
		if err != nil {
			return best, err
		}
		far[family] = own == family && blocks > most
		if fewest < 0 || blocks < fewest {
			best, fewest = own, blocks
		}
		if blocks == 0 {
			break
		}
	}
	if fewest > most {
		return plainly, nil
	}
	return best, nil
}
