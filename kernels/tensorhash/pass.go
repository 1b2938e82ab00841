package tensorhash

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// parallel is the size in bytes from which a block is hashed on several cores.
const parallel = 64 << 10

// pass reads ranges of one file block by block.
type pass struct {
	ctx context.Context
	r   io.ReaderAt
	buf []byte
}

// hash hands the bytes [from, to) to every writer.
func (p *pass) hash(from, to int64, writers ...io.Writer) error {
	for from < to && len(writers) > 0 {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		block := p.buf[:min(to-from, int64(len(p.buf)))]
		if n, err := p.r.ReadAt(block, from); n < len(block) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("tensorhash: read at byte %d: %w", from+int64(n), err)
		}
		if err := each(block, writers); err != nil {
			return err
		}
		from += int64(len(block))
	}
	return nil
}

// each lets every writer take the block, each on its own core where that pays.
func each(block []byte, writers []io.Writer) error {
	if len(block) < parallel {
		for _, w := range writers {
			if _, err := w.Write(block); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(writers))
	var wait sync.WaitGroup
	for i, w := range writers[1:] {
		wait.Go(func() { _, errs[i+1] = w.Write(block) })
	}
	_, errs[0] = writers[0].Write(block)
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
