package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

// course is what a run tells of one stage.
var course = []stages.Event{
	{Stage: "q8", Uses: "quantize", Kind: "waiting", Message: "one heavy job at a time on this machine: waiting for process 7"},
	{Stage: "q8", Uses: "quantize", Kind: "started"},
	{Stage: "q8", Uses: "quantize", Kind: "progress", Message: "writing q8.gguf", Done: 1 << 30, Total: 4 << 30},
	{Stage: "q8", Uses: "quantize", Kind: "sample", Sample: &schemas.Sample{RSS: 3 << 30}},
	{Stage: "q8", Uses: "quantize", Kind: "progress", Message: "writing q8.gguf", Done: 4 << 30, Total: 4 << 30},
	{Stage: "q8", Uses: "quantize", Kind: "progress", Message: "writing q8.gguf", Done: 5 << 30, Total: 5 << 30},
	{Stage: "q8", Uses: "quantize", Kind: "progress", Message: "hashing"},
	{Stage: "q8", Uses: "quantize", Kind: "finished", Verdict: schemas.Failed, Failure: "the tool crashed"},
	{Stage: "next", Uses: "derive", Kind: "skipped", Message: "its input product comes from stage q8, which did not pass"},
}

func TestABarShowsBytesAndMemoryAndLeavesOnlyLines(t *testing.T) {
	var out bytes.Buffer
	b := &bars{w: &out, pace: time.Nanosecond, columns: 120}
	for _, e := range course {
		b.observe(e)
	}
	for _, want := range []string{"q8: writing q8.gguf", "(1.0/4.0 GiB", "25%", "3.0 GiB resident", "(5.0/5.0 GiB", "q8: hashing", "FAIL q8", "the tool crashed", "---  next               derive    skipped: its input product"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not shown:\n%q", want, out.String())
		}
	}
	if b.bar != nil {
		t.Error("a bar stays after the end")
	}
	// What stays on the screen: each bar was overwritten, by a line or by nothing.
	var screen []string
	for line := range strings.SplitSeq(out.String(), "\n") {
		if i := strings.LastIndexByte(line, '\r'); i >= 0 {
			line = line[i+1:]
		}
		if strings.TrimSpace(line) != "" {
			screen = append(screen, line)
		}
	}
	if len(screen) != 4 || !strings.HasPrefix(screen[0], "---  q8") || !strings.HasPrefix(screen[1], "FAIL") {
		t.Errorf("%d lines stay:\n%s", len(screen), strings.Join(screen, "\n"))
	}
}

func TestProgressIsOneLineAStageOrJSON(t *testing.T) {
	var out bytes.Buffer
	plain := (&app{err: &out}).observer() // no terminal
	for _, e := range course {
		plain(e)
	}
	want := "---  q8                 quantize  waiting: one heavy job at a time on this machine: waiting for process 7\n" +
		"FAIL q8                 quantize     0.00s  failed    no controls\n       the tool crashed\n" +
		"---  next               derive    skipped: its input product comes from stage q8, which did not pass\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	lines := (&app{err: &out, progress: "json"}).observer()
	for _, e := range course {
		lines(e)
	}
	n := 0
	for line := range strings.Lines(out.String()) {
		var e struct {
			Kind   string
			Sample *schemas.Sample
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Kind != course[n].Kind || (e.Sample != nil) != (e.Kind == "sample") {
			t.Errorf("line %d: %v: %s", n, err, line)
		}
		n++
	}
	if n != len(course) {
		t.Errorf("%d lines of %d events", n, len(course))
	}
	if (&app{err: &out, progress: "off"}).observer() != nil {
		t.Error("off is not off")
	}
}

func TestALineOfAStageTellsOnlyWhatIsKnown(t *testing.T) {
	used := int64(70 << 30)
	running := runningStage{Stage: "q8", Uses: "quantize", Standing: stages.Running, Message: "writing", Done: 1 << 30, Total: 4 << 30, Rate: 100 << 20, RemainingSeconds: 31,
		Sample: &schemas.Sample{RSS: 3 << 30, Processes: 2, Available: 9 << 30, Load1: 7.25, GPUs: []schemas.GPUSample{{Index: 0, Used: &used}, {Index: 1}}}}
	want := "---  q8                 quantize  running, writing, 1.0 GiB of 4.0 GiB (25%), 100.0 MiB/s, about 31s left, sampled: 3.0 GiB resident in 2 processes, 9.0 GiB available, load 7.2, GPU 0 70.0 GiB"
	if got := running.line(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	stale := running
	stale.Standing, stale.Why, stale.Sample = stages.Stale, "process 7 is there and has not written for 1m0s", nil
	if got := stale.line(); got != "---  q8                 quantize  stale: process 7 is there and has not written for 1m0s, writing, 1.0 GiB of 4.0 GiB (25%)" {
		t.Errorf("got %s; what is stale has no rate and no time left", got)
	}
}

func TestSizesAreReadable(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1 << 10: "1.0 KiB", 1536: "1.5 KiB", 70 << 30: "70.0 GiB", 1 << 60: "1024.0 PiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
