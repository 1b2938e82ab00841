package isolation

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// credentialName matches environment variables that carry or lead to credentials
// by a word of their name, or by how it ends: HF_TOKEN, not TOKENIZERS_PARALLELISM.
var credentialName = regexp.MustCompile(`(?i)(^|_)(TOKENS?|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|PWD|CREDENTIALS?|KEY|AUTH|PAT|PASS|PASSFILE|COOKIES?|BEARER|NETRC|AGENT_PID|AGENT_INFO)(_|$)|(TOKEN|SECRET|PASSWORD|PASSPHRASE|APIKEY|SSHPASS)$`)

// credentialValue matches values that are credentials whatever their name is: an
// address with a password, tokens of known forms, a private key.
var credentialValue = regexp.MustCompile(`://[^/?#\s:@]*:[^/?#\s@]+@|(^|[^A-Za-z0-9])(hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[A-Z0-9]{16}|xox[abpr]-[A-Za-z0-9-]{10,}|eyJ[A-Za-z0-9_-]{10,}\.eyJ)|PRIVATE KEY-----`)

// ownVariables are set by the box; what a profile says of them is left out.
var ownVariables = []string{"PATH", "HOME", "TMPDIR", "LANG", marker}

// environment makes the program's environment: the box's own variables and the profile's.
func (b *Box) environment() error {
	for _, e := range b.profile.Env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" || strings.ContainsRune(e, 0) {
			return fmt.Errorf("box: environment: got %q, want NAME=value", name)
		}
		if b.method != None && credentialName.MatchString(name) {
			return fmt.Errorf("box: environment: %s is the name of a credential; no credentials enter a box", name)
		}
		if b.method != None && credentialValue.MatchString(value) {
			return fmt.Errorf("box: environment: the value of %s is a credential; no credentials enter a box", name)
		}
		if !slices.Contains(ownVariables, name) {
			b.env = append(b.env, e)
		}
	}
	home, tmp := insideHome, "/tmp"
	if b.method != Bubblewrap {
		dir, err := os.MkdirTemp("", "weighmaster-box-")
		if err != nil {
			return fmt.Errorf("box: a folder of its own: %w", err)
		}
		b.cleanups = append(b.cleanups, func() error { return os.RemoveAll(dir) })
		b.private = dir
		home, tmp = filepath.Join(dir, "home"), filepath.Join(dir, "tmp")
		for _, d := range []string{home, tmp} {
			if err := os.Mkdir(d, 0o700); err != nil {
				return fmt.Errorf("box: a folder of its own: %w", err)
			}
		}
	}
	var path []string
	for _, m := range b.mounts {
		if st, err := os.Stat(filepath.Join(m.real, "bin")); strings.HasPrefix(m.Name, "root/") && err == nil && st.IsDir() && !m.Write {
			path = append(path, filepath.Join(b.Inside(m.Host), "bin"))
		}
	}
	slices.Sort(path)
	path = append(path, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
	b.env = append(b.env, "PATH="+strings.Join(path, ":"), "HOME="+home, "TMPDIR="+tmp, "LANG=C.UTF-8")
	slices.Sort(b.env)
	return nil
}
