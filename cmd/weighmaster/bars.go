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

// terminal is what is written to, if somebody looks at it.
func terminal(w io.Writer) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

const (
	barWidth = 16
	figures  = 52 // columns of percent, sizes, rate and times beside the bar
)

// bars shows the running stage's progress as one bar, and everything else as lines above it.
type bars struct {
	w       io.Writer
	pace    time.Duration // between two drawings
	columns int           // of the terminal
	bar     *progressbar.ProgressBar
	phase   string
	last    stages.Event
	rss     int64 // bytes, of the last sample
}

// newBars draws on a terminal as wide as it is now.
func newBars(f *os.File) *bars {
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		columns = 80
	}
	return &bars{w: f, pace: 100 * time.Millisecond, columns: columns}
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
			progressbar.OptionSetWriter(b.w), progressbar.OptionShowBytes(total > 0), progressbar.OptionUseIECUnits(true), progressbar.OptionSetPredictTime(total > 0),
			progressbar.OptionSetWidth(barWidth), progressbar.OptionThrottle(b.pace), progressbar.OptionClearOnFinish(), progressbar.OptionSpinnerType(14),
			progressbar.OptionSetSpinnerChangeInterval(0), // or the spinner would turn on its own, beside what is written here
			progressbar.OptionSetDescription(b.describe(e)), progressbar.OptionSetRenderBlankState(true), counted(total > 0))
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
	most := max(20, b.columns-barWidth-figures)
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return text
}

// counted shows the bytes themselves beside their share, where there is a share.
func counted(yes bool) progressbar.Option {
	if yes {
		return progressbar.OptionShowCount()
	}
	return progressbar.OptionSetWidth(barWidth)
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
