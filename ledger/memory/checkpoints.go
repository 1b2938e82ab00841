package memory

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/weighmaster/weighmaster/ledger"
)

// Checkpoints is a [ledger.Checkpoints].
type Checkpoints struct {
	mu   sync.RWMutex
	kept map[int64][]byte
}

// NewCheckpoints returns an empty place for checkpoints.
func NewCheckpoints() *Checkpoints { return &Checkpoints{kept: map[int64][]byte{}} }

func (c *Checkpoints) Sizes(context.Context) iter.Seq2[int64, error] {
	c.mu.RLock()
	sizes := slices.Sorted(maps.Keys(c.kept))
	c.mu.RUnlock()
	return func(yield func(int64, error) bool) {
		for _, size := range sizes {
			if !yield(size, nil) {
				return
			}
		}
	}
}

func (c *Checkpoints) Newest(context.Context) (int64, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	newest := int64(-1)
	for size := range c.kept {
		newest = max(newest, size)
	}
	if newest < 0 {
		return 0, fmt.Errorf("memory: newest checkpoint: %w", ledger.ErrNotFound)
	}
	return newest, nil
}

func (c *Checkpoints) At(_ context.Context, size int64) ([]byte, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	msg, ok := c.kept[size]
	if !ok {
		return nil, fmt.Errorf("memory: checkpoint of size %d: %w", size, ledger.ErrNotFound)
	}
	return bytes.Clone(msg), nil
}

func (c *Checkpoints) Latest(ctx context.Context) ([]byte, error) {
	newest, err := c.Newest(ctx)
	if err != nil {
		return nil, err
	}
	return c.At(ctx, newest)
}

func (c *Checkpoints) Put(_ context.Context, size int64, msg []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.kept[size]; ok && !bytes.Equal(old, msg) {
		return fmt.Errorf("memory: checkpoint of size %d: %w", size, ledger.ErrConflict)
	}
	c.kept[size] = bytes.Clone(msg)
	return nil
}

func (c *Checkpoints) Replace(_ context.Context, size int64, old, msg []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, ok := c.kept[size]
	switch {
	case !ok:
		return fmt.Errorf("memory: checkpoint of size %d: %w", size, ledger.ErrNotFound)
	case !bytes.Equal(kept, old):
		return fmt.Errorf("memory: checkpoint of size %d: %w", size, ledger.ErrConflict)
	}
	c.kept[size] = bytes.Clone(msg)
	return nil
}
