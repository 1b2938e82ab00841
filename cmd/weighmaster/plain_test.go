package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// plain is weighmaster without the race detector.
var plain struct {
	sync.Once
	dir string
	err error
}

// plainFolder holds a weighmaster without the race detector, which makes the
// arithmetic of an evaluation ten times as slow. The detector watches the demo,
// the tests that run weighmaster themselves, and every package's own tests.
func plainFolder() (string, error) {
	plain.Do(func() {
		self, err := exec.LookPath("weighmaster")
		if err != nil {
			plain.err = err
			return
		}
		if !underRace {
			plain.dir = filepath.Dir(self)
			return
		}
		// Beside the command that testscript made, whose folder it removes at the end.
		if plain.dir, plain.err = os.MkdirTemp(filepath.Dir(filepath.Dir(self)), "plain-"); plain.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-o", filepath.Join(plain.dir, filepath.Base(self)), ".").CombinedOutput(); err != nil {
			plain.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	return plain.dir, plain.err
}

// usePlain lets a script run weighmaster without the race detector, on a machine of its own.
func usePlain(env *testscript.Env) error {
	dir, err := plainFolder()
	if err != nil {
		return err
	}
	env.Setenv(machineRootVariable, filepath.Join(env.WorkDir, ".machine"))
	env.Setenv("PATH", dir+string(os.PathListSeparator)+env.Getenv("PATH"))
	return nil
}
