package stages

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// runtimeTool is a program of an input folder, such as the products of a build,
// by its path below that folder. Every library that it
// needs must be the system's or an input's.
func runtimeTool(run *Run, role, tool string) (toolCommand, error) {
	f, err := toolFile(run, role, tool)
	if err != nil {
		return toolCommand{}, fmt.Errorf("stage %s: %w", run.Stage, err)
	}
	if st, err := os.Stat(f.Path); err != nil {
		return toolCommand{}, fmt.Errorf("stage %s: tool: %w", run.Stage, err)
	} else if st.Mode()&0o111 == 0 && filepath.Ext(f.Path) != ".exe" {
		return toolCommand{}, fmt.Errorf("stage %s: tool: %s of input %s is no program: its mode is %s", run.Stage, tool, role, st.Mode())
	}
	return toolCommand{Program: f.Path, whole: true, own: true}, nil
}

// toolFile finds a file of an input folder by its name.
func toolFile(run *Run, role, name string) (File, error) {
	a, err := run.input(role)
	if err != nil {
		return File{}, err
	}
	if !a.Multi {
		return File{}, fmt.Errorf("input %s: got the file %s, want a folder", role, a.Name)
	}
	if !fs.ValidPath(name) {
		return File{}, fmt.Errorf("input %s: got the name %q, want one relative to the folder", role, name)
	}
	for _, f := range a.Files {
		if f.Name == name {
			return f, nil
		}
	}
	return File{}, fmt.Errorf("input %s: the folder %s has no %s", role, a.Name, name)
}
