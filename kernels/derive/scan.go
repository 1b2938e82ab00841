package derive

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
)

// maxMemory bounds the chunks that all workers hold together, in bytes.
const maxMemory = 128 << 20

// workers is the number of chunks that may be worked on at once.
func workers(pairs []*pair) int {
	largest := int64(chunk)
	for _, p := range pairs {
		largest = max(largest, p.step())
	}
	// A weight takes at most 4 bytes as read, 4 as a number, and in the measurement
	// 4 in each of two products; their bytes, and an intermediate's, are below 4 each.
	return int(max(1, min(int64(runtime.GOMAXPROCS(0)), maxMemory/(28*largest))))
}

// parts runs fn over parts of all pairs, in parallel over tensors and within them.
// fn is called with the index of the pair and bounds that are multiples of its step, or its end.
func parts(ctx context.Context, pairs []*pair, fn func(ctx context.Context, i int, from, to int64) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers(pairs))
	for i, p := range pairs {
		job := p.step()
		if p.same() {
			job *= 64 // about a millisecond of comparing; a chunk of quantizing takes longer than that
		} else {
			job *= max(1, 8*chunk/job)
		}
		for from := int64(0); from < p.src.rows.Weights(); from += job {
			if ctx.Err() != nil {
				return group.Wait()
			}
			group.Go(func() error { return fn(ctx, i, from, min(from+job, p.src.rows.Weights())) })
		}
	}
	return group.Wait()
}

// compareAll compares all pairs, each made in its own way.
func compareAll(ctx context.Context, pairs []*pair, how []making) ([]difference, error) {
	diffs := make([]difference, len(pairs))
	var mutex sync.Mutex
	err := parts(ctx, pairs, func(ctx context.Context, i int, from, to int64) error {
		d, err := pairs[i].compare(ctx, how[i], from, to)
		mutex.Lock()
		defer mutex.Unlock()
		diffs[i].add(d)
		return err
	})
	return diffs, err
}
