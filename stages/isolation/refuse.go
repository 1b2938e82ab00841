package isolation

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// credentialNames are files and folders by whose name a mount is refused: what
// they hold opens other doors.
var credentialNames = []string{".ssh", ".aws", ".azure", ".gnupg", ".kube", ".netrc", ".git-credentials", ".pypirc", ".huggingface", ".docker", "gcloud", "keyrings"}

// topFolders are too much of a machine to be let in whole.
var topFolders = []string{"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp",
	"/usr", "/var", "/var/lib", "/var/run", "/var/tmp", "/Users", "/Library", "/System", "/private", "/private/tmp", "/private/var", "/Volumes"}

// refuse turns down mounts that would uncover what a box is there to hide.
func (b *Box) refuse() error {
	homes := homeFolders()
	project := projectOf(b.profile.Dir)
	for _, m := range b.mounts {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("box: mount %s (%s) is refused: %s", m.Name, m.Host, fmt.Sprintf(format, args...))
		}
		for _, path := range []string{m.Host, m.real} {
			if slices.Contains(topFolders, path) {
				return fail("that is too much of the machine; name the folder that the tool needs")
			}
			for _, area := range []string{"/proc", "/sys", "/dev", "/etc", "/run", "/boot"} {
				if _, ok := within(path, area); ok {
					return fail("nothing below %s is let in by path", area)
				}
			}
			for _, part := range strings.Split(path, string(filepath.Separator)) {
				if slices.Contains(credentialNames, part) {
					return fail("%s holds credentials", part)
				}
			}
			for _, home := range homes {
				if _, ok := within(home, path); ok {
					return fail("it is or holds the home folder %s", home)
				}
			}
		}
		if err := refuseProject(m.real, project); err != nil {
			return fail("%v", err)
		}
		for _, other := range b.mounts {
			if _, ok := within(m.real, other.real); ok && m.real != other.real && (m.Write || other.Write) {
				return fail("it lies in mount %s, and one of them is writable", other.Name)
			}
			if m.real == other.real && m.Write != other.Write {
				return fail("mount %s is the same, once writable and once not", other.Name)
			}
		}
		for _, s := range b.system {
			if _, ok := within(m.real, s); ok && m.Write {
				return fail("it lies in %s, which stays read-only", s)
			}
		}
	}
	return nil
}

// refuseProject keeps the folders of a project that only the project itself may touch out of a box.
func refuseProject(path, project string) error {
	if project != "" {
		if _, ok := within(project, path); ok {
			return fmt.Errorf("it is or holds the project's folder")
		}
	}
	for at := path; ; at = filepath.Dir(at) {
		if isProject(at) {
			rest, _ := within(path, at)
			if rest == "" {
				return fmt.Errorf("it is a project's folder")
			}
			first, _, _ := strings.Cut(rest, string(filepath.Separator))
			if slices.Contains([]string{"keys", "evidence", "checkpoints"}, first) || strings.HasPrefix(first, "ledger.db") {
				return fmt.Errorf("it lies in the project's %s", first)
			}
		}
		if filepath.Dir(at) == at {
			return nil
		}
	}
}

// projectOf finds the project that a folder lies in; empty when it lies in none.
func projectOf(dir string) string {
	for at := filepath.Clean(dir); filepath.IsAbs(at); at = filepath.Dir(at) {
		if isProject(at) {
			return at
		}
		if filepath.Dir(at) == at {
			break
		}
	}
	return ""
}

func isProject(dir string) bool {
	for _, name := range []string{"pipeline.yaml", "ledger.db"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// homeFolders are the homes of the machine's users, as far as they are there.
func homeFolders() []string {
	list := []string{}
	add := func(path string) {
		if st, err := os.Stat(path); err == nil && st.IsDir() && filepath.IsAbs(path) && !slices.Contains(list, filepath.Clean(path)) {
			list = append(list, filepath.Clean(path))
		}
	}
	if h, err := os.UserHomeDir(); err == nil {
		add(h)
	}
	add("/root")
	for _, pattern := range []string{"/home/*", "/Users/*"} {
		found, _ := filepath.Glob(pattern) // only a malformed pattern fails
		for _, f := range found {
			add(f)
		}
	}
	return list
}
