package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

const insideSelf = insideBase + "/program/weighmaster"

// Self prepares this program, with args, to run in the best box that works
// here, which holds the mounts and nothing else. Its main function must call
// [Enter] first. Close the box when the program has ended.
func Self(ctx context.Context, mounts []Mount, args ...string) (cmd *exec.Cmd, box *Box, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find the running binary: %w", err)
	}
	p := Profile{Mounts: append([]Mount{{Name: "program/weighmaster", Host: self, Inside: insideSelf}}, mounts...)}
	if box, err = Open(ctx, p); err != nil {
		return nil, nil, err
	}
	if cmd, err = box.Command(ctx, append([]string{self}, args...)...); err != nil {
		return nil, nil, errors.Join(err, box.Close())
	}
	return cmd, box, nil
}
