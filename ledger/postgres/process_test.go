package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/ledger"
	"github.com/weighmaster/weighmaster/ledger/checkpoints"
	"github.com/weighmaster/weighmaster/ledger/postgres"
	"github.com/weighmaster/weighmaster/ledger/postgres/postgrestest"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// What tells the re-executed test binary which log to append to.
const (
	childURL    = "WEIGHMASTER_TEST_URL"
	childFolder = "WEIGHMASTER_TEST_CHECKPOINTS"
	childName   = "WEIGHMASTER_TEST_NAME"
	childCount  = "WEIGHMASTER_TEST_COUNT"
)

// TestChildAppends is no test of its own: it is a machine that appends to the
// log of the tests below, with checkpoints of its own. It prints each payload
// after its append returned, and appends again what failed, until it is told to
// stop by the end of its input.
func TestChildAppends(t *testing.T) {
	url := os.Getenv(childURL)
	if url == "" {
		t.Skip("runs in a child process of other tests")
	}
	count, err := strconv.Atoi(os.Getenv(childCount))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	kept, err := checkpoints.Open(os.Getenv(childFolder))
	if err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log, err := ledger.Open(ctx, s, options(t, kept))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < count && ctx.Err() == nil; {
		payload := fmt.Sprintf("%s %d", os.Getenv(childName), i)
		if _, err := log.Append(ctx, storetest.Bundle(payload, []string{payload}, []string{"tool"})); err != nil {
			fmt.Printf("failed %s: %v\n", payload, err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		fmt.Println("acknowledged", payload)
		i++
	}
}

// machine is a process of its own that appends to a log.
type machine struct {
	cmd    *exec.Cmd
	folder string
	stdin  io.Closer

	mu           sync.Mutex
	acknowledged []string
	failed       []string
	other        []string // what it says when its test fails
	ended        chan struct{}
}

func startMachine(t *testing.T, url, folder, name string, count int) *machine {
	t.Helper()
	m := &machine{folder: folder, ended: make(chan struct{})}
	m.cmd = exec.Command(os.Args[0], "-test.run=^TestChildAppends$", "-test.count=1")
	m.cmd.Env = append(os.Environ(), childURL+"="+url, childFolder+"="+folder, childName+"="+name, childCount+"="+strconv.Itoa(count))
	m.cmd.Stderr = os.Stderr
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := m.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	m.stdin = in
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.cmd.Process.Kill() })
	go m.listen(out)
	return m
}

func (m *machine) listen(out io.Reader) {
	defer close(m.ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		m.mu.Lock()
		if payload, ok := strings.CutPrefix(lines.Text(), "acknowledged "); ok {
			m.acknowledged = append(m.acknowledged, payload)
		} else if strings.HasPrefix(lines.Text(), "failed ") {
			m.failed = append(m.failed, lines.Text())
		} else {
			m.other = append(m.other, lines.Text())
		}
		m.mu.Unlock()
	}
}

// heard returns what the machine has printed until now.
func (m *machine) heard() (acknowledged, failed []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.acknowledged[:len(m.acknowledged):len(m.acknowledged)], m.failed[:len(m.failed):len(m.failed)]
}

// wait waits until the machine ends, which must be well.
func (m *machine) wait(t *testing.T) {
	t.Helper()
	<-m.ended
	if err := m.cmd.Wait(); err != nil {
		t.Errorf("a machine ended with %v: %q", err, m.other)
	}
}

// machines prepares a log with one folder of checkpoints for each machine; the
// first checkpoint is carried to each as an operator would.
func machines(t *testing.T, url string, n int) []string {
	t.Helper()
	var folders []string
	var first []byte
	for i := range n {
		folder := filepath.Join(t.TempDir(), "checkpoints")
		kept, err := checkpoints.Create(folder)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			s := create(t, url)
			log, err := ledger.Create(t.Context(), s, options(t, kept))
			if err != nil {
				t.Fatal(err)
			}
			if first, err = log.Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
		} else if err := kept.Put(t.Context(), 0, first); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, folder)
	}
	return folders
}

// wantWhole verifies the log against the checkpoints of every machine, and that
// it holds each payload once. It returns the number of entries.
func wantWhole(t *testing.T, url string, folders []string, payloads []string) int64 {
	t.Helper()
	var s *postgres.Store
	waitFor(t, func() (opened bool) { // the server may still recover
		var err error
		if s, err = postgres.Open(t.Context(), url); err != nil && !strings.Contains(err.Error(), ": connect: ") {
			t.Fatal(err)
		}
		return err == nil
	})
	defer s.Close()
	var size int64
	for _, folder := range folders {
		kept, err := checkpoints.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		opt := options(t, kept)
		opt.Signer = nil
		log, err := ledger.Open(t.Context(), s, opt)
		if err != nil {
			t.Fatal(err)
		}
		size = verify(t, log).Size
		for _, p := range payloads {
			found, err := log.Find(t.Context(), storetest.Digest(p))
			if err != nil || len(found) != 1 {
				t.Errorf("acknowledged append %q: found %d times, %v; want once", p, len(found), err)
			}
		}
		payloads = nil // once is enough
	}
	return size
}

// TestMachinesAppend lets several processes with checkpoints of their own append
// to one log at once.
func TestMachinesAppend(t *testing.T) {
	const n, each = 4, 25
	server := postgrestest.Shared(t)
	url := server.URL(server.Database(t))
	folders := machines(t, url, n)
	var list []*machine
	for i, folder := range folders {
		list = append(list, startMachine(t, url, folder, fmt.Sprint("machine ", i), each))
	}
	var all []string
	for _, m := range list {
		m.wait(t)
		acknowledged, failed := m.heard()
		if len(acknowledged) != each || len(failed) != 0 {
			t.Errorf("%d acknowledged, want %d; failed: %v", len(acknowledged), each, failed)
		}
		all = append(all, acknowledged...)
	}
	if size := wantWhole(t, url, folders, all); size != n*each {
		t.Errorf("%d entries, want %d", size, n*each)
	}
}

// TestServerKilled kills the server while two machines append: all of it with
// SIGKILL, as pg_ctl stop -m immediate does, and the one process of it that
// serves a machine, upon which it ends all others and recovers. Each time the
// tree verifies against every machine's checkpoints and nothing that was
// acknowledged is missing; the machines go on by themselves.
func TestServerKilled(t *testing.T) {
	const kills = 6
	server := postgrestest.Start(t)
	url := server.URL(server.Database(t))
	folders := machines(t, url, 2)
	var list []*machine
	for i, folder := range folders {
		list = append(list, startMachine(t, url, folder, fmt.Sprint("machine ", i), 1_000_000))
	}
	heard := func() (acknowledged, failed []string) {
		for _, m := range list {
			a, f := m.heard()
			acknowledged, failed = append(acknowledged, a...), append(failed, f...)
		}
		return acknowledged, failed
	}
	for _, m := range list { // a machine that is still about to open the log would end
		waitFor(t, func() bool { now, _ := m.heard(); return len(now) > 0 })
	}
	for k := range kills {
		before, _ := heard()
		waitFor(t, func() bool { now, _ := heard(); return len(now) >= len(before)+5+k })
		time.Sleep(time.Duration(k) * 1300 * time.Microsecond)
		var acknowledged []string
		switch k % 3 {
		case 0:
			server.Kill(t)
			acknowledged, _ = heard()
			server.Restart(t)
		case 1:
			server.StopAtOnce(t)
			acknowledged, _ = heard()
			server.Restart(t)
		case 2:
			server.KillSession(t, "weighmaster")
			acknowledged, _ = heard()
		}
		wantWhole(t, url, folders, acknowledged)
	}
	before, _ := heard()
	waitFor(t, func() bool { now, _ := heard(); return len(now) >= len(before)+5 })
	for _, m := range list {
		m.stdin.Close()
		m.wait(t)
	}
	acknowledged, failed := heard()
	if len(failed) == 0 {
		t.Error("no append was interrupted: the kills hit nothing")
	}
	size := wantWhole(t, url, folders, acknowledged)
	t.Logf("%d kills of the server, %d appends failed, %d acknowledged, %d entries", kills, len(failed), len(acknowledged), size)
}

// TestMachineKilled kills one machine after the other in the middle of its work,
// while another appends on: the head is let go, and nothing is left half done.
func TestMachineKilled(t *testing.T) {
	const kills = 6
	server := postgrestest.Shared(t)
	url := server.URL(server.Database(t))
	folders := machines(t, url, 2)
	steady := startMachine(t, url, folders[0], "steady", 1_000_000)
	var all []string
	for k := range kills {
		m := startMachine(t, url, folders[1], fmt.Sprint("life ", k), 1_000_000)
		waitFor(t, func() bool { now, _ := m.heard(); return len(now) >= 3+k })
		time.Sleep(time.Duration(k) * 900 * time.Microsecond)
		if err := m.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-m.ended
		if err := m.cmd.Wait(); err == nil {
			t.Errorf("life %d ended well, want death by a signal", k)
		}
		acknowledged, failed := m.heard()
		if len(failed) != 0 {
			t.Errorf("life %d: %v", k, failed)
		}
		all = append(all, acknowledged...)
		before, _ := steady.heard()
		waitFor(t, func() bool { now, _ := steady.heard(); return len(now) > len(before)+1 })
		wantWhole(t, url, folders, all)
	}
	steady.stdin.Close()
	steady.wait(t)
	acknowledged, _ := steady.heard()
	size := wantWhole(t, url, folders, append(all, acknowledged...))
	t.Logf("%d kills of a machine, %d acknowledged, %d entries", kills, len(all)+len(acknowledged), size)
}

// TestStoreOutlivesTheServer uses one store before and after a restart.
func TestStoreOutlivesTheServer(t *testing.T) {
	server := postgrestest.Start(t)
	s := create(t, server.URL(server.Database(t)))
	entries, nodes := storetest.Batch(t, s, 0, 2, "before")
	if err := s.Append(t.Context(), 0, entries, nodes); err != nil {
		t.Fatal(err)
	}
	server.StopAtOnce(t)
	if _, err := s.Size(t.Context()); err == nil {
		t.Error("a size without a server")
	}
	more, moreNodes := []ledger.NewEntry{entries[0]}, nodes[:1]
	if err := s.Append(t.Context(), 2, more, moreNodes); err == nil {
		t.Error("an append without a server")
	}
	server.Restart(t)
	waitFor(t, func() bool { _, err := s.Size(t.Context()); return err == nil })
	more, moreNodes = storetest.Batch(t, s, 2, 2, "after")
	if err := s.Append(t.Context(), 2, more, moreNodes); err != nil {
		t.Errorf("append after the restart: %v", err)
	}
	if findings, err := s.Check(t.Context()); err != nil || len(findings) != 0 {
		t.Errorf("check: %v, %v", findings, err)
	}
}
