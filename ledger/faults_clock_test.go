package ledger_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/ledger"
)

// TestClockGoesBackwards appends with a clock that jumps. The order of the log
// is that of its entries; the time in a leaf is what the clock said.
func TestClockGoesBackwards(t *testing.T) {
	for name, s := range map[string]*site{"memory": inMemory(), "disk": onDisk(t)} {
		t.Run(name, func(t *testing.T) {
			s.create(t)
			day := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			clock := []time.Time{
				day, day.Add(time.Second), day.Add(-time.Second), day.AddDate(-20, 0, 0), time.Unix(0, 0), time.Unix(-1, 0),
				day, day.AddDate(500, 0, 0), day.Add(-999 * time.Millisecond), day.In(time.FixedZone("east", 9*3600)),
			}
			for i, now := range clock {
				opt := s.options(t)
				opt.Now = func() time.Time { return now }
				log, err := ledger.Open(t.Context(), s.store, opt)
				if err != nil {
					t.Fatal(err)
				}
				e := appendOne(t, log, i)
				if want := now.UTC().Format("2006-01-02T15:04:05Z"); int(e.Index) != i || e.Leaf.Appended != want {
					t.Errorf("entry %d at %s, want %d at %s", e.Index, e.Leaf.Appended, i, want)
				}
				if v := mustVerify(t, log); v.Size != int64(i+1) {
					t.Errorf("%d entries, want %d", v.Size, i+1)
				}
			}
			// The same bundle on a later day is the entry that is there.
			log, err := ledger.Open(t.Context(), s.store, s.options(t))
			if err != nil {
				t.Fatal(err)
			}
			e, err := log.Append(t.Context(), step(3))
			if err != nil || !e.Existed || e.Index != 3 || !bytes.Equal(e.Bundle, step(3)) {
				t.Errorf("%+v, %v; want entry 3", e, err)
			}
		})
	}
}

// TestClockBeyondDates refuses what RFC 3339 cannot say, before it writes.
func TestClockBeyondDates(t *testing.T) {
	s := onDisk(t)
	s.create(t)
	for _, year := range []int{-1, 10000, 1 << 30} {
		opt := s.options(t)
		opt.Now = func() time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
		log, err := ledger.Open(t.Context(), s.store, opt)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), step(0)); err == nil || !strings.Contains(err.Error(), "appended: got") {
			t.Errorf("append in the year %d: %v, want the time refused", year, err)
		}
		if v := mustVerify(t, log); v.Size != 0 {
			t.Errorf("%d entries, want none", v.Size)
		}
	}
}
