//go:build linux

package isolation

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

// hole is one thing let in, and the attributes that are then not shown: exactly these.
type hole struct {
	name string
	open func(p *Profile, pl *plants)
	want []string
	says string // why the first of them is not shown
}

// adjusted adds to what a test changes of a box.
func adjusted(p *Profile, more func(args []string, job *guardJob) []string) { p.adjust = more }

// bind lets a path of the machine in at its own place, last and so over all else.
func bind(how string, paths ...string) func([]string, *guardJob) []string {
	return func(args []string, _ *guardJob) []string {
		at := slices.Index(args, "--remount-ro")
		var more []string
		for _, p := range paths {
			more = append(more, how, p, p)
		}
		return slices.Insert(args, at, more...)
	}
}

// whereVsock are attributes that fail where the kernel has such sockets.
func whereVsock(attributes ...string) []string {
	if got := (Try{Kind: "vsock"}).run(context.Background(), ""); got == "made" {
		return attributes
	}
	return nil
}

// rootOnly are attributes that fail for root alone: another user is refused by the machine itself.
func rootOnly(attributes ...string) []string {
	if os.Geteuid() == 0 {
		return attributes
	}
	return nil
}

func without(option string) func([]string, *guardJob) []string {
	return func(args []string, _ *guardJob) []string {
		return slices.DeleteFunc(args, func(a string) bool { return a == option })
	}
}

func passes(name string) func([]string, *guardJob) []string {
	return func(args []string, job *guardJob) []string {
		job.Env = append(job.Env, name+"=x")
		return args
	}
}

func TestEachHoleInBubblewrapIsSeen(t *testing.T) {
	needs(t, Bubblewrap)
	home := filepath.Join(t.TempDir(), "home")
	if err := os.MkdirAll(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(home, "agent"))
	for _, h := range []hole{
		{"nothing", func(*Profile, *plants) {}, nil, ""},
		{"the network by name", func(p *Profile, _ *plants) { p.Box.Admit = []string{"network"} }, []string{schemas.NetworkIsDenied, schemas.MetadataAddressIsDenied}, "it succeeded inside the box (connected)"},
		{"the network unsaid", func(p *Profile, _ *plants) { adjusted(p, without("--unshare-net")) }, []string{schemas.NetworkIsDenied, schemas.MetadataAddressIsDenied}, "it succeeded inside the box (connected)"},
		{"a way to the hypervisor", func(p *Profile, _ *plants) {
			adjusted(p, func(args []string, job *guardJob) []string { job.Families = nil; return args })
		}, whereVsock(schemas.NetworkIsDenied), "make a socket to the hypervisor"},
		{"the canary", func(p *Profile, pl *plants) { p.Mounts = append(p.Mounts, Mount{Name: "extra", Host: pl.canary}) }, []string{schemas.CanaryUnreadable}, "read a file outside"},
		{"a foreign binary", func(p *Profile, pl *plants) { p.Mounts = append(p.Mounts, Mount{Name: "extra", Host: pl.foreign}) }, []string{schemas.ForeignBinaryDenied}, "execute a program outside"},
		{"what it writes is run", func(p *Profile, _ *plants) { p.RunsProducts = true }, []string{schemas.ForeignBinaryDenied}, "write a program to"},
		{"a home", func(p *Profile, _ *plants) { adjusted(p, bind("--ro-bind", home)) }, []string{schemas.HomesHidden}, "see a home folder"},
		{"another model", func(p *Profile, pl *plants) { p.Mounts = append(p.Mounts, Mount{Name: "extra", Host: pl.model}) }, []string{schemas.OtherModelsHidden}, "another model"},
		{"a variable with a credential", func(p *Profile, pl *plants) { adjusted(p, passes(pl.variable)) }, []string{schemas.CredentialsAbsent}, "find a credential in the environment"},
		{"a variable named like one", func(p *Profile, _ *plants) { adjusted(p, passes("HF_TOKEN")) }, []string{schemas.CredentialsAbsent}, `got "HF_TOKEN"`},
		{"a file of credentials", func(p *Profile, pl *plants) { p.Mounts = append(p.Mounts, Mount{Name: "extra", Host: pl.secret}) }, []string{schemas.CredentialsAbsent}, "read a file of credentials"},
		{"an agent's socket", func(p *Profile, pl *plants) { adjusted(p, bind("--ro-bind", pl.agent)) }, []string{schemas.AgentSocketsAbsent}, "connect to a socket in the file system"},
		{"the way to an agent", func(p *Profile, _ *plants) { adjusted(p, passes("SSH_AUTH_SOCK")) }, []string{schemas.CredentialsAbsent, schemas.AgentSocketsAbsent}, "SSH_AUTH_SOCK"},
		{"a source to write to", func(p *Profile, pl *plants) {
			adjusted(p, func(args []string, _ *guardJob) []string {
				return slices.Insert(args, slices.Index(args, "--remount-ro"), "--bind", pl.source, insideBase+"/probe/source")
			})
		}, []string{schemas.SourceReadOnly}, "open the source for writing"},
		{"root by name", func(p *Profile, _ *plants) {
			adjusted(p, func(args []string, _ *guardJob) []string { args[slices.Index(args, "--uid")+1] = "0"; return args })
		}, []string{schemas.UID65534}, "user 0 0 0"},
		{"a file of the machine's /tmp", func(p *Profile, pl *plants) { adjusted(p, bind("--ro-bind", pl.tmp)) }, []string{schemas.PrivateTmp}, "see a file in the machine's /tmp"},
		{"the machine's processes", func(p *Profile, _ *plants) { adjusted(p, bind("--ro-bind", "/proc")) }, []string{schemas.PrivateProc}, "see the process"},
		{"the kernel's settings", func(p *Profile, _ *plants) {
			adjusted(p, func(args []string, _ *guardJob) []string {
				at := slices.Index(args, "/proc") // as in --remount-ro /proc, the last one
				for i, a := range args {
					if a == "/proc" {
						at = i
					}
				}
				return slices.Delete(args, at-1, at+1)
			})
		}, rootOnly(schemas.PrivateProc), "change how the machine's kernel works"},
		{"the machine's shared memory", func(p *Profile, _ *plants) { adjusted(p, bind("--bind", "/dev/shm")) }, []string{schemas.PrivateShm}, "/dev/shm"},
		{"System V's shared memory", func(p *Profile, _ *plants) { adjusted(p, without("--unshare-ipc")) }, []string{schemas.PrivateShm}, "find the machine's shared memory"},
	} {
		t.Run(h.name, func(t *testing.T) { h.check(t, Bubblewrap, newBench(t)) })
	}
}

func TestEachHoleInLandlockIsSeen(t *testing.T) {
	needs(t, Landlock)
	job := func(change func(*guardJob)) func([]string, *guardJob) []string {
		return func(args []string, job *guardJob) []string { change(job); return args }
	}
	reads := func(p *Profile, path string) {
		adjusted(p, job(func(j *guardJob) { j.Files.Read = append(j.Files.Read, path) }))
	}
	for _, h := range []hole{
		{"nothing", func(*Profile, *plants) {}, nil, ""},
		{"the network by name", func(p *Profile, _ *plants) { p.Box.Admit = []string{"network"} }, []string{schemas.NetworkIsDenied, schemas.MetadataAddressIsDenied}, "connected"},
		{"the canary", func(p *Profile, pl *plants) { reads(p, pl.canary) }, []string{schemas.CanaryUnreadable}, "read a file outside"},
		{"a foreign binary", func(p *Profile, pl *plants) {
			adjusted(p, job(func(j *guardJob) {
				j.Executable = append(j.Executable, pl.foreign)
				j.Files.Read = append(j.Files.Read, pl.foreign)
			}))
		}, []string{schemas.ForeignBinaryDenied}, "execute a program outside"},
		{"what it writes is run", func(p *Profile, _ *plants) { p.RunsProducts = true }, []string{schemas.ForeignBinaryDenied}, "write a program to"},
		{"a variable with a credential", func(p *Profile, pl *plants) { adjusted(p, passes(pl.variable)) }, []string{schemas.CredentialsAbsent}, "find a credential in the environment"},
		{"a file of credentials", func(p *Profile, pl *plants) { reads(p, pl.secret) }, []string{schemas.CredentialsAbsent}, "read a file of credentials"},
		{"a source to write to", func(p *Profile, pl *plants) {
			adjusted(p, job(func(j *guardJob) { j.Files.Write = append(j.Files.Write, pl.source) }))
		}, []string{schemas.SourceReadOnly}, "open the source for writing"},
	} {
		t.Run(h.name, func(t *testing.T) { h.check(t, Landlock, newBench(t)) })
	}
}

func (h hole) check(t *testing.T, m Method, b bench) {
	pl, err := plant()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pl.remove(); err != nil {
			t.Error(err)
		}
	}()
	p := b.profile(schemas.Box{Method: string(m)})
	h.open(&p, pl)
	e, err := examine(t.Context(), p, pl)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range ShownBy(e) {
		if !slices.Contains(Gives(m), s.Attribute) {
			continue
		}
		if want := !slices.Contains(h.want, s.Attribute); s.Shown != want {
			t.Errorf("%s shown: got %v, want %v: %s", s.Attribute, s.Shown, want, s.Statement)
		}
		if len(h.want) > 0 && s.Attribute == h.want[0] && !strings.Contains(s.Statement, h.says) {
			t.Errorf("%s: got %q, want it to say %q", s.Attribute, s.Statement, h.says)
		}
	}
}
