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
	return reopenAt(t, filepath.Join(folder, "ledger.db"), filepath.Join(folder, "checkpoints"))
}

func reopenAt(t testing.TB, db, dir string) *site {
	t.Helper()
	s := &site{db: db, dir: dir}
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

func TestProcessesAppend(t *testing.T) {
	for _, c := range []struct{ processes, each int }{{2, 50}, {8, 8}} {
		t.Run(strconv.Itoa(c.processes), func(t *testing.T) {
			s := onDisk(t)
			log := s.create(t)
			var all []string
			var mu sync.Mutex
			var wg sync.WaitGroup
			for p := range c.processes {
				name := fmt.Sprintf("process %d", p)
				cmd := child(t, s, name, c.each)
				wg.Go(func() {
					out, err := cmd.CombinedOutput()
					if err != nil {
						t.Errorf("%s: %v\n%s", name, err, out)
					}
					mu.Lock()
					defer mu.Unlock()
					all = append(all, acknowledged(string(out))...)
				})
			}
			wg.Wait()
			want := c.processes * c.each
			if len(all) != want {
				t.Errorf("%d appends acknowledged, want %d", len(all), want)
			}
			if v := mustVerify(t, log); v.Size != int64(want) {
				t.Errorf("%d entries, want %d", v.Size, want)
			}
			wantPayloads(t, log, all)
		})
	}
}

// TestProcessesKilledWhileAppending lets two and eight processes append at
// once and kills one after the other, each followed by a new one. The others
// must go on, and nothing that any of them acknowledged may be missing.
func TestProcessesKilledWhileAppending(t *testing.T) {
	total := 0
	for _, c := range []struct{ processes, kills int }{{2, 8}, {8, 16}} {
		t.Run(strconv.Itoa(c.processes), func(t *testing.T) {
			s := onDisk(t)
			log := s.create(t)
			var lives []*life
			for k := range c.processes + c.kills {
				lives = append(lives, start(t, s, fmt.Sprintf("life %d", k)))
				if k < c.processes-1 {
					continue
				}
				victim := lives[k-c.processes+1]
				// Kill it at a different point of its work each time, but not
				// before it has done some.
				<-victim.works
				time.Sleep(time.Duration(k%7) * 5700 * time.Microsecond)
				victim.kill(t)
				total++
				if k%4 == 0 {
					mustVerify(t, log) // while the others write
				}
			}
			var all []string
			for i, l := range lives {
				if i > c.kills {
					l.kill(t)
					total++
				}
				all = append(all, acknowledged(l.text.String())...)
			}
			again, err := ledger.Open(t.Context(), s.store, s.options(t))
			if err != nil {
				t.Fatalf("open after the kills: %v", err)
			}
			v := mustVerify(t, again)
			if v.Size < int64(len(all)) {
				t.Errorf("%d entries, but %d were acknowledged", v.Size, len(all))
			}
			wantPayloads(t, again, all)
			t.Logf("%d processes: %d appends acknowledged, %d entries", c.processes, len(all), v.Size)
		})
	}
	fmt.Printf("ledger processes killed while others append: %d faults injected: %d survived\n", total, total)
}

// life is one appending process.
type life struct {
	cmd   *exec.Cmd
	works chan struct{} // closed when it has acknowledged something
	done  chan struct{} // closed when its output has ended
	text  strings.Builder
}

func start(t *testing.T, s *site, name string) *life {
	t.Helper()
	l := &life{cmd: child(t, s, name, 1_000_000), works: make(chan struct{}), done: make(chan struct{})}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(l.done)
		lines := bufio.NewReader(out)
		working := false
		for {
			line, err := lines.ReadString('\n')
			l.text.WriteString(line)
			if !working && (err != nil || strings.HasPrefix(line, "acknowledged ")) {
				working = true
				close(l.works)
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *life) kill(t *testing.T) {
	t.Helper()
	if err := l.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-l.done
	var exit *exec.ExitError
	if err := l.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("%v, want death by a signal\n%s", err, l.text.String())
	}
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
		l := start(t, s, fmt.Sprintf("life %d", k))
		<-l.works
		time.Sleep(time.Duration(k) * 4700 * time.Microsecond)
		l.kill(t)
		all = append(all, acknowledged(l.text.String())...)
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
