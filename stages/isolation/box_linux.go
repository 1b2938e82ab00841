package isolation

import (
	"context"
	"fmt"
	"os/exec"

	seccomp "github.com/elastic/go-seccomp-bpf"

	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/schemas"
)

func boxSupported(m Method) error {
	switch m {
	case Bubblewrap:
		_, err := bubblewrap()
		return err
	case Landlock:
		version, err := landlockABI()
		if err == nil && version < minLandlock {
			return fmt.Errorf("%s: the kernel has version %d, want at least %d (Linux 6.2)", Landlock, version, minLandlock)
		}
		if err == nil && !seccomp.Supported() {
			return fmt.Errorf("%s: the kernel has no seccomp filters", Landlock)
		}
		return err
	case None:
		return nil
	}
	return fmt.Errorf("%s: %w", m, errNotHere)
}

// prepare finds out what the record says of the method.
func (b *Box) prepare() error {
	b.record["execution"] = "denied below writable mounts"
	if b.profile.RunsProducts {
		b.record["execution"] = "what is written may be executed"
	}
	if b.Admits(schemas.AdmitGPU) {
		b.record["gpu"] = append(append([]string{}, graphicsNodes()...), graphicsFiles()...)
	}
	switch b.method {
	case Bubblewrap:
		return b.prepareBubblewrap()
	case Landlock:
		return b.prepareLandlock()
	}
	delete(b.record, "execution")
	return nil
}

func (b *Box) prepareBubblewrap() error {
	m, err := bubblewrap()
	if err != nil {
		return err
	}
	if !m.noExec && !b.profile.RunsProducts {
		b.record["execution"] = "denied below writable mounts by Landlock alone: a loader can map what was written"
	}
	sums, err := digest.File(context.Background(), m.path)
	if err != nil {
		return fmt.Errorf("box: %w", err)
	}
	b.maker = sums.SHA256
	b.record["binary"] = map[string]any{"name": "bwrap", "sha256": sums.SHA256.Encoded()}
	b.record["uid"] = UID
	return nil
}

// guarded starts this program as the guard, which closes the box and becomes the program.
func (b *Box) guarded(ctx context.Context, argv []string) (*exec.Cmd, error) {
	if b.method == Landlock {
		return b.landlockCommand(ctx, argv)
	}
	m, err := bubblewrap()
	if err != nil {
		return nil, err
	}
	return b.bwrapCommand(ctx, m, argv)
}
