package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// credentialFolders hold what opens other doors: no mount lies in one.
var credentialFolders = []string{".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".huggingface", ".config/gcloud", ".local/share/keyrings"}

// credentialEntries are what no mount may have in it, however deep. Sources bring
// folders named .docker or .azure that hold none, so that these are the files themselves.
var credentialEntries = []string{".ssh", ".gnupg", ".netrc", ".git-credentials", ".pypirc", ".aws/credentials", ".azure/msal_token_cache.json", ".azure/accessTokens.json", ".docker/config.json",
	".kube/config", "huggingface/token", ".huggingface/token", ".config/gcloud/credentials.db", ".config/gcloud/application_default_credentials.json", ".local/share/keyrings"}

// has tells which of the names is a part of a slash-separated path; empty when none is.
func has(path string, names []string) string {
	path = "/" + filepath.ToSlash(path) + "/"
	for _, n := range names {
		if strings.Contains(path, "/"+n+"/") {
			return n
		}
	}
	return ""
}

// topFolders are too much of a machine to be let in whole.
var topFolders = []string{"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp",
	"/usr", "/var", "/var/lib", "/var/run", "/var/tmp", "/Users", "/Library", "/System", "/private", "/private/tmp", "/private/var", "/Volumes"}

// refuse turns down mounts that would uncover what a box is there to hide.
func (b *Box) refuse() error {
	homes := homeFolders()
	project := projectOf(b.profile.Dir)
	for _, check := range []func(placed) error{
		func(m placed) error { return refusePath(m.Host, homes) },
		func(m placed) error { return refusePath(m.real, homes) },
		func(m placed) error { return refuseProject(m.real, project) },
		b.refuseOverlap,
		refusePlace,
		refuseContent,
	} {
		for _, m := range b.mounts {
			if err := check(m); err != nil {
				return fmt.Errorf("box: mount %s (%s) is refused: %w", m.Name, m.Host, err)
			}
		}
	}
	return nil
}

// refusePath turns down what is too much of the machine, or a place of credentials by its name.
func refusePath(path string, homes []string) error {
	if slices.Contains(topFolders, path) {
		return errors.New("that is too much of the machine; name the folder that the tool needs")
	}
	for _, area := range []string{"/proc", "/sys", "/dev", "/etc", "/run", "/boot"} {
		if _, ok := within(path, area); ok {
			return fmt.Errorf("nothing below %s is let in by path", area)
		}
	}
	if name := has(path, slices.Concat(credentialFolders, credentialEntries)); name != "" {
		return fmt.Errorf("%s holds credentials", name)
	}
	for _, home := range homes {
		if _, ok := within(home, path); ok {
			return fmt.Errorf("it is or holds the home folder %s", home)
		}
	}
	return nil
}

// refuseOverlap turns down a mount that lies in another, where one could be changed through the other.
func (b *Box) refuseOverlap(m placed) error {
	for _, other := range b.mounts {
		if _, ok := within(m.real, other.real); ok && m.real != other.real && (m.Write || other.Write) {
			return fmt.Errorf("it lies in mount %s, and one of them is writable", other.Name)
		}
		if m.real == other.real && m.Write != other.Write {
			return fmt.Errorf("mount %s is the same, once writable and once not", other.Name)
		}
		if b.method != Bubblewrap {
			continue // nothing is renamed
		}
		if _, ok := within(m.Inside, other.Inside); ok && (m.Inside != other.Inside || m.real != other.real) {
			return fmt.Errorf("its place %s lies in the place of mount %s", m.Inside, other.Name)
		}
	}
	for _, s := range b.system {
		if _, ok := within(m.real, s); ok && m.Write {
			return fmt.Errorf("it lies in %s, which stays read-only", s)
		}
	}
	return nil
}

// boxOwn are the places in a box that no mount may take or cover.
var boxOwn = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/proc", "/dev", "/sys", guardPath, insideHome}

func refusePlace(m placed) error {
	for _, own := range boxOwn {
		_, under := within(m.Inside, own)
		_, over := within(own, m.Inside)
		if m.Inside != m.Host && under || over {
			return fmt.Errorf("its place %s is the box's own", m.Inside)
		}
	}
	return nil
}

// refuseContent turns down folders that hold sockets or credentials: a socket
// in a mount leads out of any namespace.
func refuseContent(m placed) error {
	if !m.dir {
		return nil
	}
	seen := 0
	return filepath.WalkDir(m.real, func(path string, d fs.DirEntry, err error) error {
		if seen++; seen > maxSearched {
			return fmt.Errorf("it holds more than %d files, too many to look through; name a smaller folder", maxSearched)
		}
		rest, _ := within(path, m.real)
		switch {
		case rest == "" || d == nil:
		case has(rest, credentialEntries) != "":
			return fmt.Errorf("its %s holds credentials", rest)
		case d.Type().IsRegular() && strings.HasPrefix(d.Name(), "ledger.db"):
			return fmt.Errorf("its %s is a project's ledger, beside which its keys lie", rest)
		case d.Type()&fs.ModeSocket != 0:
			return fmt.Errorf("its %s is a socket", rest)
		}
		if err != nil && d != nil && d.IsDir() {
			return filepath.SkipDir // what cannot be read here cannot be read in the box
		}
		return nil
	})
}

// maxSearched bounds the entries of a mount that are looked through.
const maxSearched = 1_000_000

// refuseProject keeps the folders of a project that only the project itself may touch out of a box.
func refuseProject(path, project string) error {
	if project != "" {
		if _, ok := within(project, path); ok {
			return errors.New("it is or holds the project's folder")
		}
	}
	for at := path; ; at = filepath.Dir(at) {
		if isProject(at) {
			rest, _ := within(path, at)
			if rest == "" {
				return errors.New("it is a project's folder")
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
