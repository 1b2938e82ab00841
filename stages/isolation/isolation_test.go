package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weighmaster/weighmaster/fixtures/shared"
)

// TestMain is also the child: it enters the box and reports what it was refused.
func TestMain(m *testing.M) {
	if Inside() {
		if err := Enter(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		json.NewEncoder(os.Stdout).Encode(childReport{Attempts: Probe(context.Background(), os.Args[1:]...), Env: os.Environ(), UID: os.Getuid()})
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type childReport struct {
	Attempts []Attempt
	Env      []string
	UID      int
}

func beacon(t *testing.T) *Beacon {
	t.Helper()
	b, err := NewBeacon()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func runChild(t *testing.T, cmd *exec.Cmd) childReport {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	var r childReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("child said %q: %v", out, err)
	}
	return r
}

func TestEveryMethodThatWorksHereDeniesTheNetwork(t *testing.T) {
	methods := Methods()
	if len(methods) == 0 {
		shared.Missing(t, "no way to deny the network works on this system")
	}
	for _, m := range methods {
		t.Run(string(m), func(t *testing.T) {
			b := beacon(t)
			outside := Probe(t.Context(), b.Address())
			cmd, used, err := CommandBy(t.Context(), m, b.Address(), Outside)
			if err != nil || used != m {
				t.Fatalf("got %s, %v", used, err)
			}
			inside := runChild(t, cmd).Attempts
			v := Judge(m, outside, inside)
			t.Logf("uid %d: %s", os.Getuid(), v.Statement)
			if !v.Denied {
				t.Errorf("not denied: %s (%v)", v.Statement, inside)
			}
		})
	}
}

func TestWithoutABoxTheProbeSaysSo(t *testing.T) {
	b := beacon(t)
	outside := Probe(t.Context(), b.Address())
	cmd, m, err := CommandBy(t.Context(), None, b.Address(), Outside)
	if err != nil {
		t.Fatal(err)
	}
	inside := runChild(t, cmd).Attempts
	if inside[0].Result != "connected" {
		t.Fatalf("got %v, want a connection to the beacon: nothing is denied", inside)
	}
	if v := Judge(m, outside, inside); v.Denied {
		t.Errorf("denied: %s", v.Statement)
	}
	// Even a method that claims to deny is not believed when the child got through.
	if v := Judge(Namespace, outside, inside); v.Denied || !strings.Contains(v.Statement, "gave connected") {
		t.Errorf("got %+v", v)
	}
}

func TestATimeoutAndARefusalByAPeerProveNothing(t *testing.T) {
	out := []Attempt{{"b", "connected"}}
	for name, c := range map[string]struct {
		outside, inside []Attempt
		want            string
	}{
		"a time-out":               {out, []Attempt{{"b", "EPERM"}, {Outside, "timeout"}}, "gave timeout"},
		"a peer that refused":      {out, []Attempt{{"b", "ECONNREFUSED"}, {Outside, "EPERM"}}, "gave ECONNREFUSED"},
		"the control failed":       {[]Attempt{{"b", "EPERM"}}, []Attempt{{"b", "EPERM"}, {Outside, "EPERM"}}, "control failed"},
		"no control":               {nil, []Attempt{{"b", "EPERM"}, {Outside, "EPERM"}}, "0 attempts outside"},
		"nothing tried inside":     {out, nil, "0 inside"},
		"the beacon was not tried": {out, []Attempt{{"c", "EPERM"}, {Outside, "EPERM"}}, "not tried inside"},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(Seccomp, c.outside, c.inside)
			if v.Denied || !strings.Contains(v.Statement, c.want) {
				t.Errorf("got %+v, want not denied because %q", v, c.want)
			}
		})
	}
	refused := []Attempt{{"b", "ECONNREFUSED"}, {Outside, "ENETUNREACH"}}
	if v := Judge(Bubblewrap, out, refused); v.Denied {
		t.Errorf("reached outside before alone: got %+v", v)
	}
	if v := Judge(Bubblewrap, append(out, out...), refused); !v.Denied {
		t.Errorf("reached outside before and after: got %+v", v)
	}
	if v := Judge(Seccomp, append(out, out...), refused); v.Denied {
		t.Errorf("a filter has no loopback of its own: got %+v", v)
	}
	if v := Judge(Seccomp, out, []Attempt{{"b", "EPERM"}, {Outside, "ENETUNREACH"}}); !v.Denied {
		t.Errorf("two refusals by errno: got %+v", v)
	}
}

func TestNoCredentialReachesTheChild(t *testing.T) {
	t.Setenv("HF_TOKEN", "hf_secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	cmd, _, err := Command(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range runChild(t, cmd).Env {
		if strings.Contains(v, "secret") {
			t.Errorf("the child got %s", v)
		}
	}
}

func TestAMethodOfAnotherSystemIsRefused(t *testing.T) {
	other := Sandbox
	if _, err := os.Stat("/usr/bin/sandbox-exec"); err == nil {
		other = Seccomp
	}
	if _, _, err := CommandBy(t.Context(), other); !errors.Is(err, errNotHere) {
		t.Errorf("got %v, want %v", err, errNotHere)
	}
}

// TestAsAnotherUser repeats the tests of the methods without root's powers.
func TestAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this is already another user than root")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		shared.Missing(t, "setpriv is not installed")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "isolation") // below a folder that others may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "isolation.test")
	if err := os.WriteFile(copied, body, 0o755); err != nil {
		t.Fatal(err)
	}
	const tests = "TestEveryMethod|TestWithoutABox|TestEveryBox"
	for name, args := range map[string][]string{
		"nobody":                    {"--reuid=65534", "--regid=65534", "--clear-groups", copied, "-test.run=" + tests + "|TestEachHole"},
		"nobody, no new privileges": {"--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", "--bounding-set=-all", copied, "-test.run=" + tests},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), setpriv, append(args, "-test.v")...)
			cmd.Dir = "/"
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil || !strings.Contains(string(out), "uid 65534") {
				t.Errorf("as nobody: %v", err)
			}
		})
	}
}

func TestErrnosHaveNames(t *testing.T) {
	if got := errnoName(syscall.EPERM); got != "EPERM" {
		t.Errorf("got %q", got)
	}
}
