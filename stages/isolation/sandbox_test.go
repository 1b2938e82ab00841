package isolation

import (
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

// sandboxed is a box as a Mac would make it: its text alone can be looked at here.
func sandboxed(box schemas.Box, mounts ...placed) *Box {
	return &Box{method: Sandbox, profile: Profile{Box: box}, mounts: mounts, private: "/private/var/folders/x/box"}
}

func TestTheProfileOfSandboxExecDeniesWhatItDoesNotName(t *testing.T) {
	in := placed{Mount: Mount{Name: "input/model"}, real: `/Users/a/models/"odd" name.gguf`}
	out := placed{Mount: Mount{Name: "out", Write: true}, real: "/Users/a/p/work/q"}
	text := sandboxed(schemas.Box{}, in, out).sandboxProfile()
	if !strings.HasPrefix(text, "(version 1)\n(deny default)\n") || !strings.HasSuffix(text, "(deny network*)\n") {
		t.Errorf("got %s", text)
	}
	rules := rulesOf(t, text)
	for action, want := range map[string][2]string{ // what is in it, and what is not
		"allow file-write*":         {`(subpath "/Users/a/p/work/q")`, "models"},
		"allow file-read*":          {`(subpath "/Users/a/models/\"odd\" name.gguf")`, `(subpath "/Users")`},
		"allow process-exec":        {`(subpath "/usr/bin")`, "/Users/a/p/work/q"},
		"allow file-map-executable": {`(subpath "/usr/lib")`, "/Users/a/p/work/q"},
		"allow mach-lookup":         {"com.apple.system.logger", "securit"},
	} {
		if got := rules[action]; !strings.Contains(got, want[0]) || strings.Contains(got, want[1]) {
			t.Errorf("%s: got %s, want it with %s and without %s", action, got, want[0], want[1])
		}
	}
	if strings.Contains(text, "iokit") || strings.Contains(text, "allow network") {
		t.Errorf("graphics or the network are let in unasked: %s", text)
	}
}

func TestTheProfileOfSandboxExecAdmitsByName(t *testing.T) {
	out := placed{Mount: Mount{Name: "out", Write: true}, real: "/Users/a/p/work/q"}
	b := sandboxed(schemas.Box{Admit: []string{"gpu", "network"}}, out)
	b.profile.RunsProducts = true
	rules := rulesOf(t, b.sandboxProfile())
	if _, ok := rules["allow network*"]; !ok || !strings.Contains(rules["allow iokit-open"], "AGXDeviceUserClient") || !strings.Contains(rules["allow process-exec"], "/Users/a/p/work/q") {
		t.Errorf("got %v", rules)
	}
}

// FuzzPathsInTheProfile: whatever a path is called, it is one string of the
// profile, and changes nothing but the rules that name it.
func FuzzPathsInTheProfile(f *testing.F) {
	for _, path := range []string{"/Users/a/p", `/a "b"`, `/a\`, `/a\\"`, `")) (allow network*) (allow file-read* (subpath "/`, "/a\nb", "/a;b", "/zero\u200bwidth", "/\xff\xfe", "/模型/é"} {
		f.Add(path)
	}
	plain := rulesOf(f, sandboxed(schemas.Box{}, placed{Mount: Mount{Name: "out", Write: true}, real: "/p"}).sandboxProfile())
	f.Fuzz(func(t *testing.T, path string) {
		text := sandboxed(schemas.Box{}, placed{Mount: Mount{Name: "out", Write: true}, real: path}).sandboxProfile()
		rules := rulesOf(t, text)
		for action := range rules {
			if _, known := plain[action]; !known {
				t.Fatalf("%q adds the rule %q: %s", path, action, text)
			}
		}
		if len(rules) != len(plain) {
			t.Fatalf("%q takes rules away: %s", path, text)
		}
		written, ok := strings.CutPrefix(strings.TrimSpace(rules["allow file-write*"]), `(subpath "`)
		if !ok {
			t.Fatalf("%q is no first string: %s", path, rules["allow file-write*"])
		}
		var got []byte
		for i := 0; i < len(written) && written[i] != '"'; i++ {
			if written[i] == '\\' {
				i++
			}
			got = append(got, written[i])
		}
		if string(got) != path {
			t.Fatalf("got %q, want %q", got, path)
		}
	})
}

// rulesOf reads a profile's rules by their action, and holds its brackets to be balanced outside strings.
func rulesOf(t testing.TB, text string) map[string]string {
	t.Helper()
	rules := map[string]string{}
	depth, start, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			if depth++; depth == 1 {
				start = i + 1
			}
		case c == ')':
			if depth--; depth == 0 {
				action, rest, _ := strings.Cut(text[start:i], "\n")
				rules[action] += rest
			}
		}
	}
	if depth != 0 || quoted {
		t.Fatalf("the profile is not balanced: %s", text)
	}
	return rules
}
