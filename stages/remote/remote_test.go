package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/fixtures/shared"
	"github.com/weighmaster/weighmaster/stages/remote/sshtest"
)

// body is a file that is no whole number of windows.
var body = func() []byte {
	b := make([]byte, 5*window/2+77)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}()

func serve(t *testing.T, opt sshtest.Options) *sshtest.Server {
	t.Helper()
	s, err := sshtest.Start(t, opt)
	if errors.Is(err, sshtest.ErrMissing) {
		shared.Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func dial(t *testing.T, s *sshtest.Server) *Conn {
	t.Helper()
	c, err := try(t, s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func try(t *testing.T, s *sshtest.Server) (*Conn, error) {
	t.Helper()
	at, err := Parse(s.Address())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), at, Options{Config: s.Config})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func local(t *testing.T, b []byte) File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b, 0o444); err != nil {
		t.Fatal(err)
	}
	return File{path, int64(len(b)), godigest.FromBytes(b)}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644)); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, path string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, %v; want %d", path, len(got), err, len(want))
	}
}

func ways(t *testing.T, do func(t *testing.T, via string, only bool)) {
	for _, w := range []struct {
		name, via string
		only      bool
	}{{"sftp", SFTP, false}, {"sftp on an account without commands", SFTP, true}, {"rsync", Rsync, false}} {
		t.Run(w.name, func(t *testing.T) {
			if _, err := exec.LookPath("rsync"); err != nil && w.via == Rsync {
				shared.Missing(t, "no rsync here (apt-get install rsync)")
			}
			do(t, w.via, w.only)
		})
	}
}

func TestAFileIsPutReadOnlyAndHashedAtTheOtherEnd(t *testing.T) {
	ways(t, func(t *testing.T, via string, only bool) {
		s := serve(t, sshtest.Options{OnlySFTP: only})
		c, file, dest := dial(t, s), local(t, body), filepath.Join(s.Dir, "it's a folder", "model $(x).gguf")
		var told int64
		for round, resumed := range []int64{0, file.Size} {
			got, err := c.Put(t.Context(), file, dest, via, func(done, total int64) { told = done })
			if err != nil {
				t.Fatal(err)
			}
			by := "sha256sum" + byShell
			if only {
				by = ReadBack
			}
			if got.Resumed != resumed || got.Local != file.Digest || got.Remote != file.Digest || got.RemoteBy != by || got.Kept != "" {
				t.Errorf("round %d: %+v", round, got)
			}
			holds(t, dest, body)
		}
		if st, err := os.Stat(dest); err != nil || st.Mode().Perm() != 0o444 {
			t.Errorf("mode %v, %v", st.Mode(), err)
		}
		if via == SFTP && told != file.Size {
			t.Errorf("told of %d bytes", told)
		}
		if _, err := os.Lstat(dest + partialSuffix); err == nil {
			t.Error("a partial file is left")
		}
	})
}

func TestPuttingGoesOnOnlyFromAPrefixAndNeverOverAnotherFile(t *testing.T) {
	s := serve(t, sshtest.Options{})
	file := local(t, body)
	hole := bytes.Clone(body[:window+window/2])
	clear(hole[window : window+1000])
	cases := map[string]struct {
		there, partial []byte
		resumed        int64
		kept           bool
		want           string
	}{
		"onto a prefix":                  {partial: body[:1000], resumed: 1000},
		"onto all of it":                 {partial: body, resumed: file.Size},
		"behind the holes of a cut":      {partial: hole, resumed: window / 2},
		"not onto other bytes":           {partial: bytes.Repeat([]byte{7}, 1000), kept: true},
		"not onto a longer file":         {partial: append(bytes.Clone(body), 1), resumed: file.Size + 1 - window},
		"not onto a longer, other file":  {partial: bytes.Repeat([]byte{7}, len(body)+1), kept: true},
		"not onto a file changed before": {partial: append([]byte{body[0] ^ 1}, body[1:2*window]...), kept: true},
		"the same file is there":         {there: body, resumed: file.Size},
		"another file is there":          {there: []byte("other"), want: "a different file is already delivered under this name; it is never written over"},
	}
	ways(t, func(t *testing.T, via string, only bool) {
		if only {
			return // it differs in how it hashes alone
		}
		c := dial(t, s)
		for name, k := range cases {
			if via == Rsync && !strings.HasPrefix(name, "onto a") && !k.kept {
				continue // nothing of it is rsync's
			}
			t.Run(name, func(t *testing.T) {
				dest := filepath.Join(s.Dir, t.Name(), "model.gguf")
				for path, b := range map[string][]byte{dest: k.there, dest + partialSuffix: k.partial} {
					if b != nil {
						write(t, path, b)
					}
				}
				got, err := c.Put(t.Context(), file, dest, via, nil)
				if k.want != "" {
					if err == nil || !strings.Contains(err.Error(), k.want) {
						t.Errorf("got %v, want %q", err, k.want)
					}
					holds(t, dest, k.there)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				holds(t, dest, body)
				if got.Resumed != k.resumed || (got.Kept != "") != k.kept {
					t.Errorf("%+v, want %d resumed", got, k.resumed)
				}
				if k.kept {
					holds(t, got.Kept, k.partial)
				}
			})
		}
	})
}

func TestAFileIsFetched(t *testing.T) {
	ways(t, func(t *testing.T, via string, only bool) {
		s := serve(t, sshtest.Options{OnlySFTP: only})
		source, want := filepath.Join(s.Dir, "model.gguf"), godigest.FromBytes(body)
		write(t, source, body)
		c := dial(t, s)
		for name, k := range map[string]struct {
			partial []byte
			resumed int64
			kept    bool
		}{
			"nothing here":       {},
			"a prefix":           {partial: body[:window+3], resumed: window + 3},
			"all of it":          {partial: body, resumed: int64(len(body))},
			"other bytes":        {partial: bytes.Repeat([]byte{7}, 1000), kept: true},
			"one byte is other":  {partial: append([]byte{body[0] ^ 1}, body[1:window]...), kept: true},
			"more than all":      {partial: append(bytes.Clone(body), 1), kept: true},
			"an empty leftover.": {partial: []byte{}},
		} {
			t.Run(name, func(t *testing.T) {
				dest := filepath.Join(t.TempDir(), "model.gguf")
				if k.partial != nil {
					write(t, dest+partialSuffix, k.partial)
				}
				got, size, err := c.Get(t.Context(), source, want, dest+partialSuffix, dest, via, nil)
				if err != nil {
					t.Fatal(err)
				}
				holds(t, dest+partialSuffix, body)
				if size != int64(len(body)) || got.Resumed != k.resumed || got.Local != want || got.Remote != want || (got.Kept != "") != k.kept {
					t.Errorf("%+v, %d", got, size)
				}
				if k.kept {
					holds(t, got.Kept, k.partial)
				}
			})
		}
		_, _, err := c.Get(t.Context(), source, godigest.FromString("accepted"), filepath.Join(t.TempDir(), "p"), "", via, nil)
		var other *OtherBytesError
		if !errors.As(err, &other) || other.Got != want || !strings.Contains(err.Error(), "nothing was fetched") {
			t.Errorf("other bytes there: %v", err)
		}
	})
}

func TestATransferCutAtSixtyPercentGoesOn(t *testing.T) {
	cuts := 0
	ways(t, func(t *testing.T, via string, only bool) {
		s := serve(t, sshtest.Options{OnlySFTP: only})
		file := local(t, body)
		dest := filepath.Join(s.Dir, "model.gguf")
		s.CutAfter(file.Size * 6 / 10)
		_, err := dial(t, s).Put(t.Context(), file, dest, via, nil)
		var cut *CutError
		if !errors.As(err, &cut) || !strings.Contains(err.Error(), "what arrived is kept; run again to go on") {
			t.Fatalf("a cut: %v", err)
		}
		if _, err := os.Lstat(dest); err == nil {
			t.Fatal("the cut file has its name")
		}
		got, err := dial(t, s).Put(t.Context(), file, dest, via, nil)
		if err != nil || got.Resumed == 0 || got.Resumed > file.Size*6/10 || got.Kept != "" {
			t.Errorf("%+v, %v; want to go on", got, err)
		}
		holds(t, dest, body)

		here := filepath.Join(t.TempDir(), "model.gguf")
		s.CutAfter(file.Size * 6 / 10)
		at := int64(0)
		if only { // reading back for the digest carries all bytes once before
			s.CutAfter(file.Size * 16 / 10)
		}
		_, _, err = dial(t, s).Get(t.Context(), dest, file.Digest, here+partialSuffix, here, via, nil)
		if !errors.As(err, &cut) {
			t.Fatalf("a cut: %v", err)
		}
		if st, err := os.Stat(here + partialSuffix); err == nil {
			at = st.Size()
		}
		got, _, err = dial(t, s).Get(t.Context(), dest, file.Digest, here+partialSuffix, here, via, nil)
		if err != nil || got.Resumed != at || at == 0 || at >= file.Size {
			t.Errorf("%+v, %v; want to go on from %d", got, err, at)
		}
		holds(t, here+partialSuffix, body)
		cuts += s.Cuts()
	})
	fmt.Printf("ssh deliveries: %d connections cut, each gone on with from a verified prefix\n", cuts)
	if !t.Failed() && cuts < 6 && !t.Skipped() {
		t.Errorf("%d connections cut, want 6", cuts)
	}
}

func TestARemoteFileThatChangesIsRefusedAndKept(t *testing.T) {
	s := serve(t, sshtest.Options{})
	c, want := dial(t, s), godigest.FromBytes(body)
	other := bytes.Clone(body)
	other[len(other)-1] ^= 1
	for name, k := range map[string]struct {
		change func(t *testing.T, path string)
		why    string
	}{
		"a byte":            {func(t *testing.T, p string) { write(t, p, other) }, "it changed during the transfer"},
		"its length":        {func(t *testing.T, p string) { write(t, p, append(bytes.Clone(body), 0)) }, "its size was 10485837 and is 10485838"},
		"its time alone":    {func(t *testing.T, p string) { touch(t, p) }, "its time of change was"},
		"its name":          {func(t *testing.T, p string) { _ = os.Remove(p) }, "its name was there and is gone"},
		"a link in between": {func(t *testing.T, p string) { _ = os.Rename(p, p+"2"); _ = os.Symlink(p+"2", p) }, "something else than a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			source := filepath.Join(s.Dir, name, "model.gguf")
			write(t, source, body)
			dest := filepath.Join(t.TempDir(), "model.gguf")
			_, _, err := c.Get(t.Context(), source, want, dest+partialSuffix, dest, SFTP, func(done, total int64) {
				if done == total {
					k.change(t, source)
				}
			})
			if err == nil || !strings.Contains(err.Error(), k.why) {
				t.Fatalf("got %v, want %q", err, k.why)
			}
			if _, err := os.Lstat(dest); err == nil {
				t.Error("it has its name")
			}
			if strings.HasPrefix(k.why, "it") {
				if !strings.Contains(err.Error(), "what arrived is kept as "+dest+candidateSuffix+"1") {
					t.Errorf("not said where it is kept: %v", err)
				}
				holds(t, dest+candidateSuffix+"1", body)
			}
		})
	}
	t.Run("what was put", func(t *testing.T) {
		file, dest := local(t, body), filepath.Join(s.Dir, "put", "model.gguf")
		_, err := c.Put(t.Context(), file, dest, SFTP, func(done, total int64) {
			if done == total {
				f, err := os.OpenFile(dest+partialSuffix, os.O_WRONLY, 0)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = f.WriteAt([]byte{body[0] ^ 1}, 0)
				if err := errors.Join(err, f.Close()); err != nil {
					t.Error(err)
				}
			}
		})
		var changed *OtherBytesError
		if !errors.As(err, &changed) || !strings.Contains(err.Error(), "they are kept as "+dest+candidateSuffix+"1") {
			t.Errorf("got %v", err)
		}
		if _, err := os.Lstat(dest); err == nil {
			t.Error("it has its name")
		}
	})
}

func touch(t *testing.T, path string) {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Error(err)
		return
	}
	at := st.ModTime().Add(10e9)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Error(err)
	}
}

func TestAStrangeMachineIsNotTalkedTo(t *testing.T) {
	for name, k := range map[string]struct {
		do  func(*sshtest.Server) error
		why string
	}{
		"another host key":         {(*sshtest.Server).Strange, "Host key verification failed"},
		"an unknown host key":      {(*sshtest.Server).Unknown, "Host key verification failed"},
		"a key it does not accept": {(*sshtest.Server).Stranger, "Permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, sshtest.Options{})
			if err := k.do(s); err != nil {
				t.Fatal(err)
			}
			if _, err := try(t, s); err == nil || !strings.Contains(err.Error(), k.why) {
				t.Errorf("got %v, want %q", err, k.why)
			}
		})
	}
}

func TestNothingIsForwardedAndNothingIsLeftRunning(t *testing.T) {
	s := serve(t, sshtest.Options{})
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(t.TempDir(), "agent"))
	c := dial(t, s)
	out, err := c.run(t.Context(), `printf '%s|%s' "$SSH_AUTH_SOCK" "$DISPLAY"`)
	if err != nil || string(out) != "|" {
		t.Errorf("the other end sees %q, %v", out, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	file := local(t, body)
	_, err = c.Put(ctx, file, filepath.Join(s.Dir, "m"), SFTP, func(int64, int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := c.Close(); err != nil || c.cmd.ProcessState == nil {
		t.Errorf("ssh still runs: %v", err)
	}
}

func TestAnAddressIsNoOptionAndNoCommand(t *testing.T) {
	for address, why := range map[string]string{
		"ssh://-oProxyCommand=x/y":       "no plain host name",
		"ssh://host/a\nb":                "control characters",
		"ssh://host/a%0Ab":               "control characters",
		"ssh://host/a%00b":               "control characters",
		"ssh://ho%20st/a":                "cannot be read|no plain host name",
		"ssh://host;reboot/a":            "no plain host name|cannot be read",
		"ssh://-l@host/a":                "its user is no plain name",
		"ssh://@host/a":                  "its user is empty",
		"ssh://u:p@host/a":               "it holds a password",
		"ssh://host:0/a":                 "its port is no number",
		"ssh://host:65536/a":             "its port is no number",
		"ssh://host:-1/a":                "its port|cannot be read",
		"ssh://host":                     "its path is not absolute",
		"ssh://host/a/../b":              "its path is not clean",
		"ssh://host//a":                  "its path is not clean",
		"ssh://host/a/":                  "its path is not clean",
		"ssh://host/%2e%2e/b":            "its path is not clean",
		"ssh://host/a?x":                 "a query or a fragment",
		"ssh://host/a#x":                 "a query or a fragment",
		"ssh:///a":                       "no plain host name",
		"sftp://host/a":                  "does not begin with ssh://",
		"ssh://[fe80::1%25eth0]/a":       "no plain host name",
		"ssh://host/\xff":                "not UTF-8",
		"ssh://host/%ff":                 "not UTF-8",
		"ssh://host/" + long(5000):       "too long",
		"ssh://" + long(300) + "/a":      "no plain host name",
		"ssh://" + "u" + long(70) + "@h": "no plain name",
	} {
		_, err := Parse(address)
		fits := false
		for _, w := range strings.Split(why, "|") {
			fits = fits || (err != nil && strings.Contains(err.Error(), w))
		}
		if !fits {
			t.Errorf("%q: got %v, want %q", address, err, why)
		}
	}
	for _, address := range []string{"ssh://box/srv/models", "ssh://me@box.example.com:2222/a%20b/it's", "ssh://[2001:db8::1]:22/x", "ssh://10.0.0.1/-rf"} {
		l, err := Parse(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if again, err := Parse(l.String()); err != nil || again != l {
			t.Errorf("%s: %s, %+v, %v", address, l, again, err)
		}
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func FuzzParse(f *testing.F) {
	for _, s := range []string{"ssh://box/srv", "ssh://-x/y", "ssh://u@[::1]:22/a%0a", "ssh://h/a'b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Parse(s)
		if err != nil {
			return
		}
		if strings.HasPrefix(l.Host, "-") || strings.HasPrefix(l.User, "-") || !strings.HasPrefix(l.Path, "/") || strings.ContainsAny(l.Path, "\x00\n\r") {
			t.Errorf("%q: %+v", s, l)
		}
		if again, err := Parse(l.String()); err != nil || again != l {
			t.Errorf("%q: %s: %+v, %v", s, l, again, err)
		}
	})
}

// FuzzDigestLine: an answer is one whole digest of standard input, or none.
func FuzzDigestLine(f *testing.F) {
	good := godigest.FromString("").Encoded()
	for _, s := range []string{good + "  -\n", good + " *-\n", good + "  name\n", good, good[1:] + "  -", strings.ToUpper(good) + "  -", good + "  -\n" + good + "  -\n", "\\" + good + "  -", "bash: sha256sum: command not found"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		d, ok := digestLine(out)
		if ok && (d.Validate() != nil || strings.Join(strings.Fields(string(out)), " ") != d.Encoded()+" -") {
			t.Errorf("%q: taken as %s", out, d)
		}
	})
}
