package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/weighmaster/weighmaster/stages"
)

// isTerminal tells whether somebody looks at what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// bars shows the running stage's progress as one bar, and everything else as lines above it.
type bars struct {
	w     io.Writer
	pace  time.Duration // between two drawings
	bar   *progressbar.ProgressBar
	phase string
	last  stages.Event
	rss   int64 // bytes, of the last sample
}

func (b *bars) observe(e stages.Event) {
	switch e.Kind {
	case "progress":
		b.draw(e)
		return
	case "sample":
		b.rss = e.Sample.RSS
		if b.bar != nil {
			b.bar.Describe(b.describe(b.last))
		}
		return
	}
	b.clear()
	if line := stageLine(e); line != "" {
		fmt.Fprintln(b.w, line)
	}
}

func (b *bars) draw(e stages.Event) {
	b.last = e
	phase := e.Stage + "\x00" + e.Message
	total := e.Total
	if total <= 0 {
		total = -1 // a spinner
	}
	if b.bar == nil || b.phase != phase {
		b.clear()
		b.phase = phase
		b.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(b.w), progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true), progressbar.OptionSetPredictTime(true),
			progressbar.OptionSetWidth(24), progressbar.OptionThrottle(b.pace), progressbar.OptionClearOnFinish(), progressbar.OptionSpinnerType(14),
			progressbar.OptionSetDescription(b.describe(e)), progressbar.OptionSetRenderBlankState(true))
	}
	if total > 0 {
		if b.bar.GetMax64() != total {
			b.bar.ChangeMax64(total)
		}
		// The last byte is left open: a bar that was full could not go on, and the stage says itself when it ends.
		_ = b.bar.Set64(max(0, min(e.Done, total-1))) // the terminal may be gone
		return
	}
	_ = b.bar.Add(1)
}

func (b *bars) describe(e stages.Event) string {
	text := e.Stage
	if e.Message != "" {
		text += ": " + e.Message
	}
	if b.rss > 0 {
		text += ", " + bytesText(b.rss) + " resident"
	}
	const most = 70
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return text
}

func (b *bars) clear() {
	if b.bar != nil {
		_ = b.bar.Clear() // the terminal may be gone
		b.bar = nil
	}
}

// bytesText is a size as people read it.
func bytesText(n int64) string {
	const unit = 1 << 10
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for value >= unit && prefix < 4 {
		value, prefix = value/unit, prefix+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[prefix])
}
