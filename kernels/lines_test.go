package kernels

import (
	"strings"
	"testing"
)

func TestLinesAreBounded(t *testing.T) {
	many := make([]Finding, MaxFindings+5)
	for i := range many {
		many[i] = Finding{Check: "a", Where: "b", Got: "c", Want: "d"}
	}
	lines := strings.Split(Lines(many), "\n")
	if len(lines) != MaxFindings+1 || lines[0] != "a: b: got c, want d" || lines[MaxFindings] != "and 5 more" {
		t.Errorf("got %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	if s := Lines(many[:2]); s != lines[0]+"\n"+lines[0] || Lines(nil) != "" {
		t.Errorf("got %q", s)
	}
}
