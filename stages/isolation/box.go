package isolation

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/machine"
)

// Mount is a file or folder of the machine that a box holds.
type Mount struct {
	// Name is its role: input/ROLE, out, root/NAME, or another name. It gives the place inside, see [Box.Inside].
	Name string
	// Host is its absolute path on the machine. Symbolic links are followed.
	Host string
	// Inside is its absolute path in the box; by the role when empty.
	Inside string
	// Write says whether the box may change it.
	Write bool
}

// Profile says what a box is to hold and to let in.
type Profile struct {
	Box    schemas.Box
	Mounts []Mount // besides the system's folders and the roots of Box, whose paths are absolute
	Dir    string  // host path of the working directory, below a writable mount; a folder of the box's own when empty
	// Env is what the program gets besides PATH, HOME, TMPDIR and LANG, which are
	// the box's own: NAME=value. A name that is one of a credential is refused.
	Env []string
	// RunsProducts lets the program run what it wrote, as a compiler's tests do.
	// Without it nothing below a writable folder can be executed.
	RunsProducts bool

	adjust func(args []string, job *guardJob) []string // opens a hole on purpose, in tests
}

// Box is a prepared box. [Box.Close] takes away what it needed on the machine.
type Box struct {
	profile  Profile
	method   Method
	mounts   []placed        // checked, longest host path first
	env      []string        // what the program gets, sorted
	system   []string        // folders of the system that the box shows, read-only
	private  string          // folder of HOME and TMPDIR where they are not the box's own mounts
	handed   bool            // the writable folder was handed over: the program becomes the user UID
	maker    godigest.Digest // of bwrap
	record   map[string]any
	cleanups []func() error
}

// placed is a checked mount with its place.
type placed struct {
	Mount
	real string // Host without symbolic links
	dir  bool
}

// Open checks a profile and resolves the method. An error names what is
// missing, refused, and what to do about it; a box that cannot be closed is
// never opened half.
func Open(_ context.Context, p Profile) (*Box, error) {
	b := &Box{profile: p, record: map[string]any{}}
	for _, a := range p.Box.Admit {
		if a != schemas.AdmitNetwork && a != schemas.AdmitGPU {
			return nil, fmt.Errorf("box: admit: got %q, want %s or %s", a, schemas.AdmitNetwork, schemas.AdmitGPU)
		}
	}
	for _, step := range []func() error{b.resolve, b.place, b.environment, b.prepare} {
		if err := step(); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// resolve picks the method.
func (b *Box) resolve() error {
	if b.profile.Box.Method != "" {
		b.method = Method(b.profile.Box.Method)
		if !slices.Contains(BoxMethods, b.method) {
			return fmt.Errorf("box: method: got %q, want one of %v", b.method, BoxMethods)
		}
		return boxSupported(b.method)
	}
	var missing []error
	for _, m := range BoxMethods {
		if m == None {
			break
		}
		err := boxSupported(m)
		if err == nil {
			b.method = m
			return nil
		}
		missing = append(missing, err)
	}
	return fmt.Errorf("box: none works on this machine; install bubblewrap (Debian: apt-get install bubblewrap), or declare box: {method: none}, which is recorded: %w", errors.Join(missing...))
}

// BoxMethods are the ways to make a box, best first.
var BoxMethods = []Method{Bubblewrap, Landlock, Sandbox, None}

// BoxWorks tells whether a box can be made in one way on this machine; the error says what is missing.
func BoxWorks(m Method) error {
	if !slices.Contains(BoxMethods, m) {
		return fmt.Errorf("box: method: got %q, want one of %v", m, BoxMethods)
	}
	return boxSupported(m)
}

// Maker is the digest of the program that makes the box; empty where the kernel does it.
func (b *Box) Maker() godigest.Digest { return b.maker }

// Method is the way in which the box is closed.
func (b *Box) Method() Method { return b.method }

// Admits tells whether something is let in by name.
func (b *Box) Admits(name string) bool { return slices.Contains(b.profile.Box.Admit, name) }

// Inside is the path of a file or folder of the machine as the box sees it.
// Bubblewrap renames: an input file is /work/in/ROLE/NAME, an input folder
// /work/in/ROLE, out is /work/out, a root /work/root/NAME. The other ways do
// not. What lies below no mount keeps its path.
func (b *Box) Inside(host string) string {
	if b.method != Bubblewrap {
		return host
	}
	host = filepath.Clean(host)
	for _, m := range b.mounts {
		for _, base := range []string{m.Host, m.real} {
			if rest, ok := within(host, base); ok {
				return filepath.Join(m.Inside, rest)
			}
		}
	}
	return host
}

// Command prepares a program of the machine, by its absolute path there, to run
// in the box. The context kills it; the caller sets the streams. A program that
// the box does not show is refused.
func (b *Box) Command(ctx context.Context, argv ...string) (*exec.Cmd, error) {
	if len(argv) == 0 || !filepath.IsAbs(argv[0]) {
		return nil, fmt.Errorf("box: program: got %q, want an absolute path", strings.Join(argv, " "))
	}
	if err := b.shows(argv[0]); err != nil {
		return nil, err
	}
	switch b.method {
	case Sandbox:
		return b.sandboxCommand(ctx, argv)
	case None:
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) // only its environment and its folder are its own
		cmd.Env, cmd.Dir = b.env, b.profile.Dir
		return cmd, nil
	}
	return b.guarded(ctx, argv)
}

// Facts says which box it is: see the constants of schemas.
func (b *Box) Facts() map[string]string {
	f := map[string]string{schemas.FactBox: string(b.method), schemas.FactNetwork: schemas.NetworkDenied}
	switch {
	case b.Admits(schemas.AdmitNetwork):
		f[schemas.FactNetwork] = schemas.NetworkAdmitted
	case b.method == None:
		f[schemas.FactNetwork] = schemas.NetworkNotEnforced
	}
	if boot := machine.BootID(); boot != "" {
		f[schemas.FactBoot] = godigest.FromString(boot).String()
	}
	if b.maker != "" {
		f[schemas.FactBoxMaker] = b.maker.String()
	}
	if len(b.profile.Box.Admit) > 0 {
		names := slices.Sorted(slices.Values(b.profile.Box.Admit))
		f[schemas.FactAdmitted] = strings.Join(names, ",")
	}
	return f
}

// Record is the box for internalParameters. It names no path of the machine.
func (b *Box) Record() map[string]any {
	mounts := []map[string]any{}
	for _, m := range b.mounts {
		r := map[string]any{"name": m.Name, "write": m.Write}
		if b.method == Bubblewrap && m.Inside != m.Host { // a place of its own, and no path of the machine
			r["inside"] = m.Inside
		}
		mounts = append(mounts, r)
	}
	slices.SortFunc(mounts, func(x, y map[string]any) int { return strings.Compare(x["name"].(string), y["name"].(string)) })
	names := []string{}
	for _, e := range b.env {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	admitted := slices.Sorted(slices.Values(b.profile.Box.Admit))
	if admitted == nil {
		admitted = []string{}
	}
	r := map[string]any{"method": string(b.method), "mounts": mounts, "environment": names, "admitted": admitted, "runsProducts": b.profile.RunsProducts}
	for k, v := range b.record {
		r[k] = v
	}
	return r
}

// Close takes away what the box needed on the machine.
func (b *Box) Close() error {
	var errs []error
	for _, f := range b.cleanups {
		errs = append(errs, f())
	}
	b.cleanups = nil
	return errors.Join(errs...)
}
