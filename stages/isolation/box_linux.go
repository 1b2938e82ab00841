package isolation

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/schemas"
)

func boxSupported(m Method) error {
	switch m {
	case Bubblewrap:
		_, err := bubblewrap()
		return err
	case None:
		return nil
	}
	return fmt.Errorf("%s: %w", m, errNotHere)
}

// prepare finds out what the record says of the method.
func (b *Box) prepare() error {
	if b.method != Bubblewrap {
		return nil
	}
	path, err := bubblewrap()
	if err != nil {
		return err
	}
	sums, err := digest.File(context.Background(), path)
	if err != nil {
		return fmt.Errorf("box: %w", err)
	}
	b.record["binary"] = map[string]any{"name": "bwrap", "sha256": sums.SHA256.Encoded()}
	b.record["uid"] = UID
	switch _, err := landlockABI(); {
	case b.profile.RunsProducts:
		b.record["execution"] = "what is written may be executed"
	case err != nil:
		b.record["execution"] = "not enforced: the kernel has no Landlock"
	default:
		b.record["execution"] = "denied below writable mounts"
	}
	if b.Admits(schemas.AdmitGPU) {
		b.record["gpu"] = append(graphicsNodes(), graphicsFiles()...)
	}
	return nil
}

func (b *Box) command(ctx context.Context, argv []string) (*exec.Cmd, error) {
	if b.method == Bubblewrap {
		return b.bwrapCommand(ctx, argv)
	}
	return b.openCommand(ctx, argv)
}
