package isolation

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

func TestMountsThatUncoverTheMachineAreRefused(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(dir, "projects", "p")
	work := filepath.Join(project, "work", "q8")
	home := filepath.Join(dir, "users", "a")
	for _, d := range []string{work, filepath.Join(project, "keys"), filepath.Join(project, "evidence"), filepath.Join(home, ".ssh"), filepath.Join(home, "tools"), filepath.Join(dir, "tools", "bin"), filepath.Join(dir, "cache")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, f := range []string{"pipeline.yaml", "ledger.db", "keys/producer.key"} {
		write(filepath.Join(project, f))
	}
	others := filepath.Join(dir, "others")
	if err := os.MkdirAll(filepath.Join(others, "b", "keys"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(others, "b", "ledger.db"))
	write(filepath.Join(others, "b", "keys", "producer.pem"))
	deep := filepath.Join(dir, "deep")
	if err := os.MkdirAll(filepath.Join(deep, "a", ".aws"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(deep, "a", ".aws", "credentials"))
	served := filepath.Join(dir, "served")
	if err := os.Mkdir(served, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(served, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(home, ".ssh"), link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	root := func(path string) Profile {
		return Profile{Box: schemas.Box{Roots: []schemas.BoxRoot{{Name: "r", Path: path}}}}
	}
	writable := func(path string) Profile {
		return Profile{Box: schemas.Box{Roots: []schemas.BoxRoot{{Name: "r", Path: path, Write: true}}}}
	}
	mounted := func(m ...Mount) Profile { return Profile{Mounts: m} }
	for name, c := range map[string]struct {
		profile Profile
		says    string
	}{
		"everything":                   {root("/"), "too much of the machine"},
		"everything, by dots":          {root("/usr/.."), "too much of the machine"},
		"all that is temporary":        {root("/tmp"), "too much of the machine"},
		"a folder of /etc":             {root("/etc/ssl"), "nothing below /etc"},
		"processes":                    {root("/proc/self"), "nothing below /proc"},
		"devices":                      {mounted(Mount{Name: "input/x", Host: "/dev/null"}), "want a folder or a regular file"},
		"a home":                       {root(home), "home folder"},
		"what holds a home":            {root(filepath.Join(dir, "users")), "home folder"},
		"what holds a home, by dots":   {root(filepath.Join(home, "tools", "..", "..")), "home folder"},
		"keys of ssh":                  {root(filepath.Join(home, ".ssh")), ".ssh holds credentials"},
		"keys of ssh, by a link":       {root(link), ".ssh holds credentials"},
		"credentials deep inside":      {root(deep), "a/.aws/credentials holds credentials"},
		"a socket inside":              {root(served), "agent is a socket"},
		"the project":                  {root(project), "project"},
		"what holds the project":       {root(filepath.Join(dir, "projects")), "the project's folder"},
		"what holds another project":   {root(others), "its b/ledger.db is a project's ledger"},
		"the project's keys":           {root(filepath.Join(project, "keys")), "the project's keys"},
		"one key":                      {mounted(Mount{Name: "input/x", Host: filepath.Join(project, "keys", "producer.key")}), "the project's keys"},
		"the project's evidence":       {root(filepath.Join(project, "evidence")), "the project's evidence"},
		"the ledger":                   {mounted(Mount{Name: "input/x", Host: filepath.Join(project, "ledger.db")}), "the project's ledger.db"},
		"a relative path":              {root("tools"), "want an absolute one"},
		"what is not there":            {root(filepath.Join(dir, "absent")), "no such file"},
		"a name that climbs":           {mounted(Mount{Name: "../x", Host: filepath.Join(dir, "tools")}), "no name of the form"},
		"a place that climbs":          {mounted(Mount{Name: "x", Host: filepath.Join(dir, "tools"), Inside: "/work/../etc"}), "absolute and clean"},
		"a place of the system":        {mounted(Mount{Name: "x", Host: filepath.Join(dir, "tools"), Inside: "/etc"}), "the box's own"},
		"a place over the guard":       {mounted(Mount{Name: "x", Host: filepath.Join(dir, "tools"), Inside: "/work/guard"}), "the box's own"},
		"two at one place":             {mounted(Mount{Name: "x", Host: filepath.Join(dir, "tools"), Inside: "/work/in/a"}, Mount{Name: "y", Host: filepath.Join(dir, "cache"), Inside: "/work/in/a/b"}), "lies in the place of"},
		"a part of it to write":        {writable(filepath.Join(dir, "tools", "bin")), "one of them is writable"},
		"the system to write":          {writable("/usr/local/lib"), "stays read-only"},
		"read-only and to write":       {writable(filepath.Join(dir, "tools")), "once writable and once not"},
		"nothing to admit":             {Profile{Box: schemas.Box{Admit: []string{"everything"}}}, `got "everything"`},
		"a method that nobody knows":   {Profile{Box: schemas.Box{Method: "chroot"}}, `got "chroot"`},
		"a variable with a credential": {Profile{Env: []string{"HF_TOKEN=x"}}, "HF_TOKEN is the name of a credential"},
		"a personal access token":      {Profile{Env: []string{"GITHUB_PAT=x"}}, "GITHUB_PAT is the name of a credential"},
		"a password in an address":     {Profile{Env: []string{"DATABASE_URL=postgres://a:secret@host/db"}}, "the value of DATABASE_URL is a credential"},
		"a token by another name":      {Profile{Env: []string{"SETTINGS=--hub hf_abcdefghijklmnopqrstuvwxyz"}}, "the value of SETTINGS is a credential"},
		"a private key":                {Profile{Env: []string{"BLOB=-----BEGIN OPENSSH PRIVATE KEY-----"}}, "the value of BLOB is a credential"},
		"no variable":                  {Profile{Env: []string{"HF_HOME"}}, "want NAME=value"},
		"a working folder elsewhere":   {Profile{Dir: dir}, "below no writable mount"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, m := range boxesHere(t) {
				if m != Bubblewrap && strings.HasPrefix(c.says, "lies in the place") {
					continue // it renames nothing
				}
				p := c.profile
				if p.Box.Method == "" {
					p.Box.Method = string(m)
				}
				if p.Dir == "" {
					p.Dir = work
				}
				p.Mounts = append([]Mount{{Name: "out", Host: work, Write: true}, {Name: "root/tools", Host: filepath.Join(dir, "tools")}}, p.Mounts...)
				box, err := Open(t.Context(), p)
				if err == nil {
					box.Close()
				}
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: got %v, want it to say %q", m, err, c.says)
				}
			}
		})
	}
}

func TestAProgramOutsideTheBoxIsRefused(t *testing.T) {
	for _, m := range boxesHere(t) {
		b := newBench(t)
		box := openBox(t, b.profile(schemas.Box{Method: string(m)}))
		for program, says := range map[string]string{
			filepath.Join(b.dir, "canary"):    "is not in the box",
			filepath.Join(b.dir, "absent"):    "no such file",
			"true":                            "want an absolute path",
			"/usr/../" + b.dir + "/canary":    "is not in the box",
			filepath.Join(b.out, "something"): "no such file",
		} {
			if _, err := box.Command(t.Context(), program); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s, %s: got %v, want it to say %q", m, program, err, says)
			}
		}
		made := filepath.Join(b.out, "made")
		if err := os.WriteFile(made, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := box.Command(t.Context(), made); err == nil || !strings.Contains(err.Error(), "where nothing may be run") {
			t.Errorf("%s: got %v", m, err)
		}
	}
}

func TestNamesOfCredentials(t *testing.T) {
	for name, want := range map[string]bool{
		"HF_TOKEN": true, "GITHUB_TOKEN": true, "token": true, "AWS_SECRET_ACCESS_KEY": true, "AWS_ACCESS_KEY_ID": true, "OPENAI_API_KEY": true, "PGPASSWORD": true, "SSHPASS": true, "MYSQL_PWD": true,
		"SSH_AUTH_SOCK": true, "GOOGLE_APPLICATION_CREDENTIALS": true, "WANDB_APIKEY": true, "GPG_AGENT_INFO": true,
		"TOKENIZERS_PARALLELISM": false, "OMP_NUM_THREADS": false, "CUDA_VISIBLE_DEVICES": false, "MAX_TOKENS_PER": true, "KEYMAP": false, "PWDX": false, "CCACHE_DIR": false, "CC": false, "HF_HUB_OFFLINE": false,
	} {
		if got := credentialName.MatchString(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// Sources that only look like a home are let in.
func TestAnHonestSourceIsLetIn(t *testing.T) {
	for _, m := range boxesHere(t) {
		b := newBench(t)
		for _, d := range []string{".docker", ".azure", ".aws", "gcloud", "keyrings", "node_modules"} {
			if err := os.MkdirAll(filepath.Join(b.dir, "source", d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		p := b.profile(schemas.Box{Method: string(m), Roots: []schemas.BoxRoot{{Name: "source", Path: filepath.Join(b.dir, "source")}}})
		p.Env = []string{"TOKENIZERS_PARALLELISM=false"}
		if got := says(t, openBox(t, p), "echo $TOKENIZERS_PARALLELISM"); got != "false" {
			t.Errorf("%s: got %q", m, got)
		}
	}
}
