package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

// answer prints a result: as JSON when asked, else as text by the given function.
func (a *app) answer(v any, text func()) error {
	switch {
	case a.quiet:
		return nil
	case a.json:
		enc := json.NewEncoder(a.out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	}
	text()
	return nil
}

// printf prints text on standard output, unless --quiet asks for none.
func (a *app) printf(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.out, format, args...)
	}
}

// mark is a verdict as a column.
func mark(v schemas.Verdict) string {
	switch v {
	case schemas.Passed:
		return "ok  "
	case schemas.Failed:
		return "FAIL"
	}
	return "??? "
}

// observer prints a line a stage on standard error, on a terminal with a bar
// while it runs, or events as JSON Lines.
func (a *app) observer() func(stages.Event) {
	screen, seen := terminal(a.err)
	switch {
	case a.progress == "off" || (a.quiet && a.progress != "json"):
		return nil
	case a.progress == "json":
		enc := json.NewEncoder(a.err)
		return func(e stages.Event) {
			line := map[string]any{"stage": e.Stage, "uses": e.Uses, "kind": e.Kind, "message": e.Message, "done": e.Done, "total": e.Total,
				"seconds": e.Elapsed.Seconds(), "verdict": e.Verdict, "failure": e.Failure, "planted": e.Controls.Planted, "red": e.Controls.Red}
			if e.Sample != nil {
				line["sample"] = e.Sample
			}
			_ = enc.Encode(line)
		}
	case a.progress == "" && seen:
		return newBars(screen).observe
	}
	return func(e stages.Event) {
		if line := stageLine(e); line != "" {
			fmt.Fprintln(a.err, line)
		}
	}
}

// stageLine is one stage's line: name, time, verdict, controls; or what else is
// to be said of it. Empty for events that tell nothing that lasts.
func stageLine(e stages.Event) string {
	controls := "no controls"
	if e.Controls.Planted > 0 {
		controls = fmt.Sprintf("controls %d/%d red", e.Controls.Red, e.Controls.Planted)
	}
	switch e.Kind {
	case "skipped", "waiting", "interrupted":
		return fmt.Sprintf("---  %-18s %-9s %s: %s", e.Stage, e.Uses, e.Kind, e.Message)
	case "notice":
		return strings.TrimSpace("note " + e.Stage + " " + e.Message)
	case "resumed":
		return fmt.Sprintf("%s %-18s %-9s complete already, by the ledger", mark(schemas.Passed), e.Stage, e.Uses)
	case "finished":
		line := fmt.Sprintf("%s %-18s %-9s %7.2fs  %-9s %s", mark(e.Verdict), e.Stage, e.Uses, e.Elapsed.Seconds(), e.Verdict, controls)
		if e.Failure != "" {
			line += "\n       " + strings.ReplaceAll(e.Failure, "\n", "\n       ")
		}
		return line
	}
	return ""
}
