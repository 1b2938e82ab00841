package main

import (
	"os"
	"path/filepath"
	"runtime"
)

// machineRootVariable names the machine's folder where --machine-root does not.
const machineRootVariable = "WEIGHMASTER_MACHINE_ROOT"

// machineFolder is where all of the user's projects on this machine meet: the
// folder of the lock that lets one heavy stage run at a time. Users who share a
// machine name one folder that all of them may write to.
func (a *app) machineFolder() (string, error) {
	root := a.machineRoot
	if root == "" {
		state, err := stateFolder()
		if err != nil {
			return "", usage("no folder for the machine's lock: %v; name one with --machine-root or %s", err, machineRootVariable)
		}
		root = filepath.Join(state, "weighmaster")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	return root, os.MkdirAll(root, 0o700)
}

// stateFolder is the user's folder for what programs keep between runs: by the
// XDG Base Directory Specification, or as the system has it.
func stateFolder() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	switch runtime.GOOS {
	case "windows", "darwin", "ios", "plan9":
		return os.UserConfigDir()
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state"), nil
}
