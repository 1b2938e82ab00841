package isolation

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// plants are what a probe puts outside a box, so that a refusal inside is one
// of something that is there. All of it is new, worthless, and taken away again.
type plants struct {
	dir      string // holds the files below; every user can go in
	canary   string
	foreign  string // a program
	model    string // a model of somebody else's
	secret   string // a file of credentials
	source   string // a folder with one file, which the box holds read-only
	scratch  string // an empty folder
	tmp      string // a file in /tmp itself
	shm      string // a file in /dev/shm; empty where there is none
	segment  string // the key of shared memory; empty where there is none
	variable string // an environment variable of this process
	process  string // this process: number and start time; empty where it cannot be told
	agent    string // path of a socket that listens
	abstract string // name of a socket without a file; empty where there are none
	beacon   *Beacon
	undo     []func() error
}

func plant() (p *plants, err error) {
	p = &plants{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("plant what the isolation probe looks for: %w", err), p.remove())
		}
	}()
	var raw [8]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return p, err
	}
	nonce := hex.EncodeToString(raw[:])
	if p.dir, err = os.MkdirTemp("", "weighmaster-probe-"); err != nil {
		return p, err
	}
	p.undo = append(p.undo, func() error { return os.RemoveAll(p.dir) })
	if err := os.Chmod(p.dir, 0o755); err != nil {
		return p, err
	}
	if err := p.files(nonce); err != nil {
		return p, err
	}
	if err := p.sockets(nonce); err != nil {
		return p, err
	}
	p.variable = "WEIGHMASTER_PROBE_" + nonce + "_TOKEN"
	if err := os.Setenv(p.variable, nonce); err != nil {
		return p, err
	}
	p.undo = append(p.undo, func() error { return os.Unsetenv(p.variable) })
	pid := strconv.Itoa(os.Getpid())
	if start, err := startTime(pid); err == nil {
		p.process = pid + " " + start
	}
	key, err := rand.Int(rand.Reader, big.NewInt(1<<30))
	if err != nil {
		return p, err
	}
	if remove, err := plantSegment(int(key.Int64()) + 1); err == nil { // some systems have none
		p.segment = strconv.FormatInt(key.Int64()+1, 10)
		p.undo = append(p.undo, remove)
	}
	return p, nil
}

func (p *plants) files(nonce string) error {
	program, err := foreign()
	if err != nil {
		return err
	}
	p.canary, p.foreign, p.secret = filepath.Join(p.dir, "canary"), filepath.Join(p.dir, "foreign"), filepath.Join(p.dir, "credentials")
	p.source, p.scratch = filepath.Join(p.dir, "source"), filepath.Join(p.dir, "scratch")
	p.model = filepath.Join(p.dir, "models", "other.gguf")
	for _, d := range []string{p.source, p.scratch, filepath.Dir(p.model)} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	for path, body := range map[string][]byte{p.canary: []byte(nonce), p.foreign: program, p.secret: []byte("token " + nonce), p.model: []byte("GGUF"), filepath.Join(p.source, "weights"): []byte("weights")} {
		if err := os.WriteFile(path, body, 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(p.foreign, 0o755); err != nil {
		return err
	}
	for _, place := range []struct {
		dir string
		to  *string
	}{{"/tmp", &p.tmp}, {"/dev/shm", &p.shm}} {
		f, err := os.CreateTemp(place.dir, "weighmaster-probe-")
		if err != nil {
			continue // this system has no such folder
		}
		*place.to = f.Name()
		p.undo = append(p.undo, func() error { return os.Remove(f.Name()) })
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (p *plants) sockets(nonce string) (err error) {
	if p.beacon, err = NewBeacon(); err != nil {
		return err
	}
	p.undo = append(p.undo, p.beacon.Close)
	p.agent = filepath.Join(p.dir, "agent")
	addresses := []string{p.agent}
	if runtime.GOOS == "linux" {
		p.abstract = "@weighmaster-probe-" + nonce
		addresses = append(addresses, p.abstract)
	}
	for _, a := range addresses {
		l, err := net.Listen("unix", a)
		if err != nil {
			return err
		}
		p.undo = append(p.undo, l.Close)
		go answer(l)
	}
	return os.Chmod(p.agent, 0o777) // connecting needs the right to write
}

func (p *plants) remove() error {
	var errs []error
	for i := len(p.undo) - 1; i >= 0; i-- {
		errs = append(errs, p.undo[i]())
	}
	return errors.Join(errs...)
}
