package main

import (
	"fmt"
	"os"

	"golang.org/x/term"
)

// passwordVariables are read in this order; the second is what cosign's users have set already.
var passwordVariables = []string{"WEIGHMASTER_PASSWORD", "COSIGN_PASSWORD"}

// password asks for a key's password: the environment first, then the terminal.
func (a *app) password(what string) func() ([]byte, error) {
	return func() ([]byte, error) {
		for _, name := range passwordVariables {
			if v, ok := os.LookupEnv(name); ok {
				return []byte(v), nil
			}
		}
		fd := int(os.Stdin.Fd())
		if !term.IsTerminal(fd) {
			return nil, fmt.Errorf("%s: a password is needed: set %s, or run on a terminal to be asked", what, passwordVariables[0])
		}
		fmt.Fprintf(a.err, "Password for %s: ", what)
		pw, err := term.ReadPassword(fd)
		fmt.Fprintln(a.err)
		return pw, err
	}
}

// newPassword asks for a new key's password, twice on a terminal.
func (a *app) newPassword(what string) ([]byte, error) {
	first, err := a.password(what)()
	if err != nil {
		return nil, err
	}
	if len(first) == 0 {
		return nil, usage("an empty password protects nothing; give one, or say --no-password if the key may lie unencrypted")
	}
	for _, name := range passwordVariables {
		if _, ok := os.LookupEnv(name); ok {
			return first, nil
		}
	}
	again, err := a.password("the same key, once more")()
	if err != nil {
		return nil, err
	}
	if string(first) != string(again) {
		return nil, usage("the two passwords differ")
	}
	return first, nil
}
