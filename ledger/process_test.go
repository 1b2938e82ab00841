package ledger_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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
	"github.com/weighmaster/weighmaster/ledger/sqlite"
	"github.com/weighmaster/weighmaster/ledger/storetest"
)

// childFolder tells the re-executed test binary which log to append to.
const (
	childFolder = "WEIGHMASTER_TEST_LEDGER"
	childName   = "WEIGHMASTER_TEST_NAME"
	childCount  = "WEIGHMASTER_TEST_COUNT"
)

// TestChildAppends is no test of its own: it is what the child processes of
// the tests below run. It prints each payload after its append returned.
func TestChildAppends(t *testing.T) {
	folder := os.Getenv(childFolder)
	if folder == "" {
		t.Skip("runs in a child process of other tests")
	}
	count, err := strconv.Atoi(os.Getenv(childCount))
	if err != nil {
		t.Fatal(err)
	}
	s := reopen(t, folder)
	log, err := ledger.Open(t.Context(), s.store, s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range count {
		payload := fmt.Sprintf("%s %d", os.Getenv(childName), i)
		if _, err := log.Append(t.Context(), storetest.Bundle(payload, []string{payload}, []string{"tool"})); err != nil {
			t.Fatalf("append %q: %v", payload, err)
		}
		fmt.Println("acknowledged", payload)
	}
}

// reopen opens the on-disk log in a folder.
func reopen(t testing.TB, folder string) *site {
	t.Helper()
	s := &site{db: filepath.Join(folder, "ledger.db"), dir: filepath.Join(folder, "checkpoints")}
	store, err := sqlite.Open(context.Background(), s.db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s.store = store
	if s.checkpoints, err = checkpoints.Open(s.dir); err != nil {
		t.Fatal(err)
	}
	return s
}

func child(t *testing.T, s *site, name string, count int) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildAppends$", "-test.count=1")
	cmd.Env = append(os.Environ(), childFolder+"="+filepath.Dir(s.db), childName+"="+name, childCount+"="+strconv.Itoa(count))
	return cmd
}

// acknowledged collects what a child says it appended.
func acknowledged(output string) []string {
	var list []string
	for line := range strings.Lines(output) {
		if payload, ok := strings.CutPrefix(line, "acknowledged "); ok && strings.HasSuffix(payload, "\n") {
			list = append(list, strings.TrimSuffix(payload, "\n"))
		}
	}
	return list
}

func wantPayloads(t *testing.T, log *ledger.Log, payloads []string) {
	t.Helper()
	for _, p := range payloads {
		found, err := log.Find(context.Background(), storetest.Digest(p))
		if err != nil || len(found) != 1 {
			t.Errorf("acknowledged append %q: found %d times, %v; want once", p, len(found), err)
		}
	}
}

func TestTwoProcessesAppend(t *testing.T) {
	const each = 50
	s := onDisk(t)
	log := s.create(t)
	var all []string
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, name := range []string{"left", "right"} {
		cmd := child(t, s, name, each)
		wg.Go(func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("process %s: %v\n%s", name, err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, acknowledged(string(out))...)
		})
	}
	wg.Wait()
	if len(all) != 2*each {
		t.Errorf("%d appends acknowledged, want %d", len(all), 2*each)
	}
	if v := mustVerify(t, log); v.Size != 2*each {
		t.Errorf("%d entries, want %d", v.Size, 2*each)
	}
	wantPayloads(t, log, all)
}

func TestGoroutinesAppend(t *testing.T) {
	for name, s := range map[string]*site{"memory": inMemory(), "disk": onDisk(t)} {
		t.Run(name, func(t *testing.T) {
			const writers, each = 4, 15
			log := s.create(t)
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := range each {
						// Every bundle comes from two writers.
						payload := fmt.Sprintf("%d %d", w/2, i)
						if _, err := log.Append(t.Context(), storetest.Bundle(payload, []string{payload}, nil)); err != nil {
							t.Errorf("append %q: %v", payload, err)
						}
					}
				})
			}
			wg.Wait()
			if v := mustVerify(t, log); v.Size != writers/2*each {
				t.Errorf("%d entries, want %d", v.Size, writers/2*each)
			}
		})
	}
}

// TestKilledProcess kills an appending process in the middle of its work, over
// and over, and looks whether everything that it acknowledged is in the log.
func TestKilledProcess(t *testing.T) {
	s := onDisk(t)
	s.create(t)
	var all []string
	const kills = 12
	for k := range kills {
		cmd := child(t, s, fmt.Sprintf("life %d", k), 1_000_000)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		var text strings.Builder
		// Kill at a different point of an append each time.
		for len(acknowledged(text.String())) < 3+k {
			line, err := lines.ReadString('\n')
			text.WriteString(line)
			if err != nil {
				t.Fatalf("life %d ended by itself: %v\n%s", k, err, text.String())
			}
		}
		time.Sleep(time.Duration(k) * 700 * time.Microsecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for {
			line, err := lines.ReadString('\n')
			text.WriteString(line)
			if err != nil {
				break
			}
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
			t.Fatalf("life %d: %v, want death by a signal", k, err)
		}
		all = append(all, acknowledged(text.String())...)
		log, err := ledger.Open(t.Context(), s.store, s.options(t))
		if err != nil {
			t.Fatalf("open after kill %d: %v", k, err)
		}
		mustVerify(t, log)
	}
	log, err := ledger.Open(t.Context(), s.store, s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	wantPayloads(t, log, all)
	t.Logf("%d kills, %d acknowledged appends, %d entries", kills, len(all), mustVerify(t, log).Size)
}
