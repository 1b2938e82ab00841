package isolation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Try is one thing that a process in a box is to attempt, and how it ended
// inside and, as its control, outside before and after.
type Try struct {
	Attribute string `json:"attribute"` // see schemas.BoxAttributes
	What      string `json:"what"`      // in words
	Kind      string `json:"kind"`      // see kinds
	Target    string `json:"-"`         // on the machine: a path, an address, a name
	// Control says that it has to succeed outside, or the refusal inside proves nothing.
	Control bool   `json:"control"`
	Want    string `json:"want,omitempty"` // of a state
	Before  string `json:"before"`
	Inside  string `json:"inside"`
	inside  string // the target in the box, where it is not that of Target
	After   string `json:"after"`
}

// kind is a way to try. Open is its result where nothing is denied; Refused are
// the results that deny. Neither is set for a state, which has to be Try.Want.
type kind struct {
	do      func(ctx context.Context, target string) (string, error)
	open    string
	refused []string
}

var (
	noFile    = []string{"ENOENT", "EACCES", "EPERM", "ENOTDIR"}
	noNetwork = append([]string{"EADDRNOTAVAIL", "EAFNOSUPPORT"}, refusals...)
	kinds     = map[string]kind{
		"tcp":      {dial("tcp"), "connected", noNetwork},
		"loopback": {dial("tcp"), "connected", append([]string{"ECONNREFUSED"}, noNetwork...)}, // another loopback, on which nobody listens
		"udp":      {datagram, "sent", noNetwork},
		"socket":   {dial("unix"), "connected", append([]string{"ECONNREFUSED"}, noFile...)},
		"vsock":    {vsock, "made", []string{"EPERM", "EACCES", "EAFNOSUPPORT"}},
		"stat":     {stat, "seen", noFile},
		"list":     {list, "listed", noFile},
		"read":     {read, "read", noFile},
		"write":    {write, "written", []string{"EROFS", "EACCES", "EPERM"}},
		"remove":   {remove, "removed", []string{"EROFS", "EACCES", "EPERM", "EBUSY"}},
		"execute":  {execute, "ran", noFile},
		"copy":     {executeCopy, "ran", append([]string{"EROFS"}, noFile...)},
		"variable": {variable, "present", []string{"absent"}},
		"process":  {process, "seen", []string{"ENOENT", "EACCES", "another process"}},
		"segment":  {segment, "found", []string{"ENOENT", "EPERM", "EACCES"}},

		"credential names": {do: credentialNamesHere},
		"user":             {do: user},
		"capabilities":     {do: capabilities},
		"privileges":       {do: privileges},
		"own file":         {do: ownFile},
		"computation":      {do: computation},
	}
)

// run tries it in this process. A time-out, and whatever has no errno, gets words that are neither open nor refused.
func (t Try) run(ctx context.Context, target string) string {
	k, ok := kinds[t.Kind]
	if !ok {
		return "no such kind of try"
	}
	result, err := k.do(ctx, target)
	if err == nil {
		return result
	}
	var errno syscall.Errno
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &errno) && errno == syscall.ETIMEDOUT, errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &errno):
		return errnoName(errno)
	case errors.Is(err, fs.ErrNotExist):
		return "ENOENT"
	}
	return "no errno: " + err.Error()
}

func dial(network string) func(context.Context, string) (string, error) {
	return func(ctx context.Context, address string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return "", err
		}
		return "connected", conn.Close()
	}
}

func datagram(ctx context.Context, address string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", address)
	if err != nil {
		return "", err
	}
	_, err = conn.Write([]byte{0})
	return "sent", errors.Join(err, conn.Close())
}

func stat(_ context.Context, path string) (string, error) {
	_, err := os.Lstat(path)
	return "seen", err
}

func list(_ context.Context, path string) (string, error) {
	_, err := os.ReadDir(path)
	return "listed", err
}

func read(_ context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	_, err = f.Read(make([]byte, 1))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return "read", errors.Join(err, f.Close())
}

// write opens a file for writing and adds nothing to it, or makes a file in a folder and takes it away.
func write(_ context.Context, path string) (string, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		f, err := os.CreateTemp(path, "probe-")
		if err != nil {
			return "", err
		}
		return "written", errors.Join(f.Close(), os.Remove(f.Name()))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return "", err
	}
	return "written", f.Close()
}

// remove moves a file within its folder and back.
func remove(_ context.Context, path string) (string, error) {
	if err := os.Rename(path, path+".moved"); err != nil {
		return "", err
	}
	return "removed", os.Rename(path+".moved", path)
}

func execute(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for range 50 {
		// A process that is being started elsewhere can hold a new file open for writing for a moment.
		cmd := exec.CommandContext(ctx, path)
		cmd.Env = []string{}
		if err := cmd.Run(); !errors.Is(err, syscall.ETXTBSY) {
			return "ran", err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return "", syscall.ETXTBSY
}

// foreign is a small program that every system brings.
func foreign() ([]byte, error) {
	for _, path := range []string{"/usr/bin/true", "/bin/true"} {
		if body, err := os.ReadFile(path); err == nil {
			return body, nil
		}
	}
	return nil, errors.New("the system has no program named true to try with")
}

// executeCopy writes a program into a folder and runs it there.
func executeCopy(ctx context.Context, dir string) (string, error) {
	body, err := foreign()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("weighmaster-foreign-%d", os.Getpid()))
	if err := os.WriteFile(path, body, 0o755); err != nil {
		return "", err
	}
	defer os.Remove(path)
	return execute(ctx, path)
}

func variable(_ context.Context, name string) (string, error) {
	if _, ok := os.LookupEnv(name); ok {
		return "present", nil
	}
	return "absent", nil
}

// credentialNamesHere are the variables of this process that are named like credentials.
func credentialNamesHere(context.Context, string) (string, error) {
	var found []string
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); credentialName.MatchString(name) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return "none", nil
	}
	slices.Sort(found)
	return strings.Join(found, ","), nil
}

// ownFile writes, locks and reads a file of its own below a folder.
func ownFile(_ context.Context, dir string) (string, error) {
	if dir == "$TMPDIR" {
		dir = os.TempDir()
	}
	f, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	want := []byte("works")
	if _, err := f.Write(want); err != nil {
		return "", err
	}
	if err := lock(f); err != nil {
		return "", err
	}
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		return "other bytes", err
	}
	return "works", nil
}

// computation multiplies matrices of 96×96 float32 and hashes the product: the
// same bits everywhere, since every product is rounded before it is added.
func computation(context.Context, string) (string, error) {
	const n = 96
	var a, b, c [n][n]float32
	for i := range n {
		for j := range n {
			a[i][j], b[i][j] = float32(math.Sqrt(float64(i*n+j))), 1/float32(i+j+1)
		}
	}
	h := sha256.New()
	for i := range n {
		for j := range n {
			for k := range n {
				c[i][j] += float32(a[i][k] * b[k][j])
			}
		}
		if err := binary.Write(h, binary.LittleEndian, c[i][:]); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}
