package machine

import (
	"os"
	"strings"
	"testing"
)

// A line as a kernel of the 6 series gives it; the name was chosen by an enemy.
const statLine = "4711 (a) S (b 1 2) T 42 4711 4711 0 -1 4194304 107 0 0 0 250 50 0 0 20 0 1 0 987654 5000000 300 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0\n"

func TestTheNameInAStatLineMayHoldAnything(t *testing.T) {
	s, err := parseStat([]byte(statLine))
	if err != nil {
		t.Fatal(err)
	}
	if s.pid != 4711 || s.parent != 42 || s.name != "a) S (b 1 2" || s.start != "987654" || s.cpu != 3 || s.rss != int64(300*os.Getpagesize()) || !s.stopped {
		t.Errorf("got %+v", s)
	}
}

func TestABrokenStatLineIsAnError(t *testing.T) {
	for name, line := range map[string]string{
		"empty": "", "no name": "4711 S 1", "turned parentheses": "1 )x( S", "cut": "4711 (x) S 1 2 3",
		"no pid": strings.Replace(statLine, "4711 (", "x (", 1), "no number": strings.Replace(statLine, " 987654 ", " -5 ", 1),
	} {
		if s, err := parseStat([]byte(line)); err == nil {
			t.Errorf("%s: got %+v", name, s)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add([]byte(statLine))
	f.Add([]byte("1 (x) Z 0"))
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := parseStat(line)
		if err == nil && (s.pid < 1 || s.rss < 0 || s.cpu < 0) {
			t.Errorf("%q gave %+v", line, s)
		}
		parseHighWater(string(line))
	})
}

func TestHighWaterIsReadInBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"Name:\tx\nVmHWM:\t    1024 kB\n": 1 << 20, "VmHWM: kB\n": 0, "VmHWM:\t-1 kB\n": 0, "": 0, "VmHWM:\t99999999999999999999 kB\n": 0,
	} {
		if got := parseHighWater(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	if got := highWater(os.Getpid()); got < 1<<20 {
		t.Errorf("this process' mark is %d bytes", got)
	}
}
