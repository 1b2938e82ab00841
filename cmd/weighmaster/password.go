package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// passwordVariables are read in this order; the second is what cosign's users have set already.
var passwordVariables = []string{"WEIGHMASTER_PASSWORD", "COSIGN_PASSWORD"}

// maxPassword bounds what is read from --password-fd, in bytes.
const maxPassword = 4 << 10

// password asks for a key's password: --password-fd first, then the
// environment, then the terminal, without an echo. It is never an argument.
// Whoever gets it may overwrite it.
func (a *app) password(what string) func() ([]byte, error) {
	return func() ([]byte, error) {
		if a.passwordFD != "" {
			return a.givenPassword()
		}
		for _, name := range passwordVariables {
			if v, ok := os.LookupEnv(name); ok {
				return []byte(v), nil
			}
		}
		fd := int(os.Stdin.Fd())
		if !term.IsTerminal(fd) {
			return nil, fmt.Errorf("%s: a password is needed: set %s, say --password-fd, or run on a terminal to be asked", what, passwordVariables[0])
		}
		fmt.Fprintf(a.err, "Password for %s: ", what)
		pw, err := term.ReadPassword(fd)
		fmt.Fprintln(a.err)
		return pw, err
	}
}

// givenPassword reads the open file --password-fd to its end, once: every key
// of a run has its password. One line end at the end does not belong to it.
func (a *app) givenPassword() ([]byte, error) {
	if a.fdPassword == nil {
		n, err := strconv.Atoi(a.passwordFD)
		if err != nil || n < 0 || n == 1 || n == 2 {
			return nil, usage("--password-fd: got %q, want the number of a file that is open to be read", a.passwordFD)
		}
		f := os.NewFile(uintptr(n), "--password-fd")
		if f == nil {
			return nil, usage("--password-fd: got %d, want an open file", n)
		}
		word, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
		_ = f.Close() // it was read, or it never was open
		if err != nil {
			return nil, usage("--password-fd %d: %v", n, err)
		}
		if len(word) > maxPassword {
			return nil, usage("--password-fd: got more than %d bytes, want a password", maxPassword)
		}
		word, _ = bytes.CutSuffix(word, []byte("\n"))
		a.fdPassword, _ = bytes.CutSuffix(word, []byte("\r"))
		if len(a.fdPassword) == 0 {
			return nil, usage("--password-fd: got an empty password")
		}
	}
	return bytes.Clone(a.fdPassword), nil
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
	if a.passwordFD != "" {
		return first, nil
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
	defer clear(again)
	if !bytes.Equal(first, again) {
		return nil, usage("the two passwords differ")
	}
	return first, nil
}
