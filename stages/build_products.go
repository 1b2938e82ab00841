package stages

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/stages/isolation"
)

const maxProducts = 10_000 // files of one build that are kept

// products lists the files below a build folder that match the patterns, sorted.
// A link counts when it leads to a regular file inside the folder.
func products(build string, patterns []string) ([]string, error) {
	root, err := os.OpenRoot(build)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var names []string
	for _, p := range patterns {
		if !fs.ValidPath(p) {
			return nil, fmt.Errorf("products: got %q, want a pattern of names below the build folder", p)
		}
		found, err := fs.Glob(root.FS(), p)
		if err != nil {
			return nil, fmt.Errorf("products: %q: %w", p, err)
		}
		if _, err := root.Lstat(filepath.FromSlash(p)); len(found) == 0 && err == nil {
			found = []string{p} // a link that leads nowhere, or out
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("products: the commands ended with 0 and made nothing that matches %q", p)
		}
		for _, name := range found {
			info, err := root.Stat(filepath.FromSlash(name)) // follows links, refuses those that leave
			if err != nil {
				return nil, fmt.Errorf("products: %s: %w; a link has to stay inside the build folder", name, err)
			}
			if !info.Mode().IsRegular() {
				return nil, fmt.Errorf("products: %s: got %s, want a regular file or a link to one", name, info.Mode().Type())
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) > maxProducts {
			return nil, fmt.Errorf("products: got more than %d files, want at most that many", maxProducts)
		}
	}
	slices.Sort(names)
	return names, nil
}

// keepProducts copies the products under their names, read-only, each durable. A
// link becomes the file that it leads to: a program finds its libraries by the
// names of links, and a folder's manifest binds files.
func keepProducts(build, dir string, names []string) error {
	from, err := os.OpenRoot(build)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	to, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, name := range names {
		if err := keepProduct(from, to, filepath.FromSlash(name)); err != nil {
			return fmt.Errorf("product %s: %w", name, err)
		}
	}
	return syncDir(dir)
}

func keepProduct(from, to *os.Root, name string) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := to.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	return errors.Join(err, f.Chmod(0o444|info.Mode().Perm()&0o111), f.Sync(), f.Close())
}

// checkLibraries looks at what the products are linked to (System V ABI, dynamic
// linking): a library of the build must be a product too, and is looked for
// beside the program alone. Else the tool would run other libraries than these.
func checkLibraries(build string, names []string) error {
	for _, name := range names {
		f, err := elf.Open(filepath.Join(build, filepath.FromSlash(name)))
		if err != nil {
			continue // not ELF: another system's program, or a file of data
		}
		err = checkNeeded(f, build, name, names)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("product %s: %w", name, err)
		}
	}
	return nil
}

func checkNeeded(f *elf.File, build, name string, names []string) error {
	var folders []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		values, _ := f.DynString(tag) // an error: it has no dynamic section
		for _, v := range values {
			folders = append(folders, strings.Split(v, ":")...)
		}
	}
	for i, folder := range folders {
		if strings.HasPrefix(folder, isolation.InsideRoots) {
			continue // let in by name: what is found there is hashed when the program runs
		}
		below, ok := strings.CutPrefix(strings.Replace(folder, "${ORIGIN}", "$ORIGIN", 1), "$ORIGIN")
		if !ok {
			return fmt.Errorf("it looks for its libraries in %q, want folders beside it ($ORIGIN) only; with CMake: -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH=$ORIGIN", folder)
		}
		folders[i] = path.Join(path.Dir(name), below)
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil // no dynamic section
	}
	for _, library := range needed {
		for _, folder := range folders {
			made := path.Join(folder, library)
			if !filepath.IsLocal(filepath.FromSlash(made)) {
				continue
			}
			if _, err := os.Stat(filepath.Join(build, filepath.FromSlash(made))); err == nil && !slices.Contains(names, made) {
				return fmt.Errorf("it needs %s, which the build made and which is no product; add %s to products", library, made)
			}
		}
	}
	return nil
}
