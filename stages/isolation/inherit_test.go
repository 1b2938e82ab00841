//go:build linux

package isolation

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/schemas"
)

func TestNoDescriptorOfTheOutsideIsInherited(t *testing.T) {
	for _, m := range boxesHere(t) {
		t.Run(string(m), func(t *testing.T) {
			b := newBench(t)
			fd, err := unix.Open(b.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0) // not close-on-exec: a careless parent
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			script := fmt.Sprintf("cat /proc/self/fd/%d/canary; ls /proc/self/fd", fd)
			control := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
			if out, err := control.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "weights") {
				t.Fatalf("the control: the descriptor is not inherited without a box: %v %s", err, out)
			}
			cmd, err := openBox(t, b.profile(schemas.Box{Method: string(m)})).Command(t.Context(), "/bin/sh", "-c", script+"; exit 0")
			if err != nil {
				t.Fatal(err)
			}
			if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "weights") {
				t.Errorf("got %v, %s", err, out)
			}
		})
	}
}

func TestNothingOfTheOutsideIsInTheFirstProcess(t *testing.T) {
	needs(t, Bubblewrap)
	t.Setenv("WEIGHMASTER_PLANTED", "planted-outside")
	b := newBench(t)
	p := b.profile(schemas.Box{Method: "bubblewrap"})
	p.Env = []string{"DECLARED=declared-value"}
	box := openBox(t, p)
	got := says(t, box, `for f in /proc/[0-9]*; do cat $f/environ $f/cmdline 2>/dev/null | tr '\0' '\n'; done; echo; env`)
	for _, secret := range []string{"planted-outside", b.dir} {
		if strings.Contains(got, secret) {
			t.Errorf("%s shows in a process of the box: %s", secret, got)
		}
	}
	if !strings.Contains(got, "bwrap") || !strings.Contains(got, "declared-value") {
		t.Errorf("the control: got %s, want the first process and the declared variable", got)
	}
}

func TestTheProcessListOutsideShowsNoValue(t *testing.T) {
	p := newBench(t).profile(schemas.Box{})
	p.Env = []string{"DECLARED=declared-value"}
	for _, m := range boxesHere(t) {
		p.Box.Method = string(m)
		cmd, err := openBox(t, p).Command(t.Context(), "/bin/sh", "-c", "echo an-argument")
		if err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(append(cmd.Args, cmd.Env...), " "); strings.Contains(all, "declared-value") || strings.Contains(all, "an-argument") {
			t.Errorf("%s: got %s", m, all)
		}
	}
}

func TestNoCoreIsLeft(t *testing.T) {
	for _, m := range boxesHere(t) {
		if got := says(t, openBox(t, newBench(t).profile(schemas.Box{Method: string(m)})), "ulimit -c"); got != "0" {
			t.Errorf("%s: got a limit of %s", m, got)
		}
	}
}

func TestTheBoxesSystemIsReadOnly(t *testing.T) {
	needs(t, Bubblewrap)
	box := openBox(t, newBench(t).profile(schemas.Box{Method: "bubblewrap"}))
	// Opened only: were it not refused, a write would change the machine.
	for _, path := range []string{"/x", "/usr/x", "/etc/x", "/etc/passwd", "/work/x", "/work/in/x", "/work/in/model/model.gguf", "/dev/x", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", "/proc/self/oom_score_adj"} {
		if got := says(t, box, "(: >> "+path+") 2>&1 || echo refused"); !strings.HasSuffix(got, "refused") {
			t.Errorf("%s: got %q", path, got)
		}
	}
	for _, path := range []string{"/etc/shadow", "/etc/ssh", "/etc/hostname", "/root", "/home", "/var/log", "/run/x", "/sys/class", "/boot", "/srv", "/opt"} {
		if got := says(t, box, "ls -d "+path+" 2>/dev/null || echo hidden"); got != "hidden" {
			t.Errorf("%s is seen", path)
		}
	}
	if got := says(t, box, "cat /etc/passwd; hostname"); got != "nobody:x:65534:65534:nobody:/work/home:/usr/sbin/nologin\nbox" {
		t.Errorf("got %q", got)
	}
}

// No further namespace, no capability by a program with the set-user-ID bit, no keyring.
func TestNoPowerIsGained(t *testing.T) {
	for _, m := range boxesHere(t) {
		t.Run(string(m), func(t *testing.T) {
			box := openBox(t, newBench(t).profile(schemas.Box{Method: string(m)}))
			for _, script := range []string{"unshare -U true", "unshare -n true", "mount -t tmpfs x /tmp", "chroot / true", "nsenter -t 1 -m true"} {
				if got := says(t, box, script+" 2>/dev/null && echo done || echo refused"); got != "refused" {
					t.Errorf("%s: got %s", script, got)
				}
			}
			got := says(t, box, "for f in CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs; do grep $f: /proc/self/status; done 2>/dev/null; grep -c . /proc/keys 2>/dev/null; true")
			for _, line := range strings.Split(got, "\n") {
				name, value, _ := strings.Cut(line, ":\t")
				if want := "0000000000000000"; strings.HasPrefix(name, "Cap") && value != want && name != "CapBnd" || name == "NoNewPrivs" && value != "1" {
					t.Errorf("got %s", line)
				}
			}
			for _, program := range []string{"/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd"} {
				if st, err := os.Stat(program); err == nil && st.Mode()&os.ModeSetuid != 0 {
					return // no-new-privileges holds for it, as the status says
				}
			}
		})
	}
}

// The user's session keyring stays outside, and no call reaches any.
func TestNoKeyringIsReached(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		shared.Missing(t, "python3 is not installed")
	}
	for _, m := range boxesHere(t) {
		box := openBox(t, newBench(t).profile(schemas.Box{Method: string(m)}))
		script := `import ctypes,errno;l=ctypes.CDLL(None,use_errno=True)
print([errno.errorcode.get(ctypes.get_errno()) for n,a in ((` + fmt.Sprint(unix.SYS_KEYCTL) + `,0),(` + fmt.Sprint(unix.SYS_IO_URING_SETUP) + `,1),(` + fmt.Sprint(unix.SYS_BPF) + `,0)) if l.syscall(n,a,0,0,0,0)==-1])`
		cmd, err := box.Command(t.Context(), mustFind(t, "/usr/bin/python3"), "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "['EPERM', 'EPERM', 'EPERM']" {
			t.Errorf("%s: got %v, %s", m, err, out)
		}
	}
}

func mustFind(t *testing.T, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		shared.Missing(t, "%v", err)
	}
	return path
}

// Where root can hand the folder over, Landlock's program is nobody, and what it made is root's again at the end.
func TestLandlockHandsOverWhatOthersCanReach(t *testing.T) {
	needs(t, Landlock)
	if os.Geteuid() != 0 {
		t.Skip("only root can hand a folder over")
	}
	dir, err := os.MkdirTemp("", "handed")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	out := filepath.Join(dir, "out")
	for _, d := range []string{dir, out} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	box, err := Open(t.Context(), Profile{Box: schemas.Box{Method: "landlock"}, Dir: out, Mounts: []Mount{{Name: "out", Host: out, Write: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := says(t, box, "id -u; id -g; id -G; echo x > made && touch $HOME/y $TMPDIR/z && while read l; do case $l in CapBnd*) echo $l;; esac; done < /proc/self/status"); got != "65534\n65534\n65534\nCapBnd: 0000000000000000" {
		t.Errorf("got %q", got)
	}
	if box.Record()["uid"] != UID {
		t.Errorf("got the record %v", box.Record())
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{out, filepath.Join(out, "made")} {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil || st.Uid != 0 {
			t.Errorf("%s: owner %d, %v", path, st.Uid, err)
		}
	}
	if _, err := os.Stat(box.private); !os.IsNotExist(err) {
		t.Errorf("the private folder is left: %v", err)
	}
}

// A filter by name does not know the calls of another instruction set: without
// more, socket(2) of i386 would pass it.
func TestCallsOfAnotherInstructionSetAreRefused(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("another instruction set is tried on amd64")
	}
	python := mustFind(t, "/usr/bin/python3")
	// push rbx; mov eax, 359 (socket of i386); mov ebx, AF_INET; mov ecx, SOCK_STREAM; xor edx, edx; int 0x80; pop rbx; ret
	const script = `import ctypes,mmap
m=mmap.mmap(-1,4096,prot=7);m.write(bytes.fromhex("53b867010000bb02000000b90100000031d2cd805bc3"))
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))())`
	out, err := exec.CommandContext(t.Context(), python, "-c", script).CombinedOutput()
	if err != nil || strings.HasPrefix(string(out), "-") {
		t.Skipf("this kernel runs no calls of i386: %v %s", err, out)
	}
	for _, m := range boxesHere(t) {
		cmd, err := openBox(t, newBench(t).profile(schemas.Box{Method: string(m)})).Command(t.Context(), python, "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "-1" {
			t.Errorf("%s: got %v, %s, want EPERM", m, err, out)
		}
	}
}

// What a box leaves behind gives nobody outside its maker's rights.
func TestNoSetIDBitIsLeft(t *testing.T) {
	python := mustFind(t, "/usr/bin/python3")
	const script = `import os
def t(f):
  try: f(); return "done"
  except OSError as e: return e.strerror
os.umask(0); open("f","w").close(); os.mkdir("d")
print([t(f) for f in (lambda: os.chmod("f",0o4755), lambda: os.chmod("f",0o2755), lambda: os.fchmod(os.open("f",os.O_RDONLY),0o6755), lambda: os.open("g",os.O_CREAT|os.O_WRONLY,0o4755),
  lambda: os.mkdir("e",0o2755), lambda: os.mknod("h",0o104755), lambda: os.chmod("f",0o755), lambda: os.open("i",os.O_CREAT|os.O_WRONLY,0o755), lambda: os.open("f",os.O_RDONLY,0o4755))])`
	for _, m := range boxesHere(t) {
		b := newBench(t)
		cmd, err := openBox(t, b.profile(schemas.Box{Method: string(m)})).Command(t.Context(), python, "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		const no = "'Operation not permitted'"
		if want := "[" + strings.Repeat(no+", ", 6) + "'done', 'done', 'done']"; err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: got %v, %s, want %s", m, err, out, want)
		}
		for _, name := range []string{"f", "g", "e", "h"} {
			if st, err := os.Lstat(filepath.Join(b.out, name)); err == nil && st.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
				t.Errorf("%s: %s was left with mode %s", m, name, st.Mode())
			}
		}
	}
}

// running counts the processes of the machine whose arguments hold a word.
func running(t *testing.T, word string) int {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range list {
		if body, err := os.ReadFile(path); err == nil && strings.Contains(string(body), word) {
			n++
		}
	}
	return n
}

func TestNothingOfTheBoxOutlivesIt(t *testing.T) {
	needs(t, Bubblewrap)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const word = "86399.125" // a time that nobody else sleeps
	cmd, err := openBox(t, newBench(t).profile(schemas.Box{Method: "bubblewrap"})).Command(ctx, "/bin/sh", "-c", "setsid sleep "+word+" & sleep "+word+" & echo started; wait")
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	for range 200 { // until both sleep
		if running(t, word) >= 3 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if running(t, word) < 2 {
		t.Fatal("the control: no process of the box is seen")
	}
	cancel()
	if err := cmd.Wait(); err == nil {
		t.Error("it ended well")
	}
	for range 500 {
		if running(t, word) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d processes are left", running(t, word))
}
