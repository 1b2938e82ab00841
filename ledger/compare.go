package ledger

import (
	"context"
	"errors"
	"fmt"
)

// Compare is [Log.Extends] for a checkpoint that was kept elsewhere, which gives
// the strongest proof there is: where a checkpoint of the same size is kept
// here, the *[Contradiction] carries both signed notes, and nobody needs the
// database to see that they cannot both be true. The given one is Signed.
func (l *Log) Compare(ctx context.Context, checkpoint []byte) (Checkpoint, error) {
	c, err := l.Extends(ctx, checkpoint)
	var lied *Contradiction
	if !errors.As(err, &lied) {
		return c, err
	}
	kept, readErr := l.opt.Checkpoints.At(ctx, c.Size)
	if readErr != nil {
		return c, err // none of this size, or none that can be read: the tree is the other side
	}
	ours, parseErr := ParseCheckpoint(kept, l.opt.Verifier)
	if parseErr != nil || ours.Size != c.Size || ours.Root == c.Root {
		return c, err
	}
	lied.Reason = fmt.Sprintf("two checkpoints of size %d have the roots %s and %s", c.Size, c.Root, ours.Root)
	lied.Other = kept
	return c, lied
}
