package stages

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

// branches is a line with two products of one source and something that rests on each.
func branches(t *testing.T) *line {
	l := newLine(t)
	l.Pipeline.Stages = []schemas.StageDecl{
		l.Pipeline.Stages[0], l.Pipeline.Stages[1],
		{Name: "smaller", Uses: "quantize", Inputs: map[string]string{"model": "small"}, With: l.Pipeline.Stages[1].With},
		{Name: "other", Uses: "convert", Inputs: map[string]string{"snapshot": "source"}, With: []byte(`{"type":"BF16","file":"other.gguf"}`)},
		{Name: "derived", Uses: "derive", Inputs: map[string]string{"source": "source", "product": "other"}},
		{Name: "finished", Uses: "complete"},
	}
	l.Stages["convert"] = makes("convert", "other.gguf", "other bits")
	l.Stages["complete"] = examines("complete")
	return l
}

func TestAFailureStopsTheRunUnlessToldToKeepGoing(t *testing.T) {
	l := branches(t)
	l.product.do = func(context.Context, *Run) (*Outcome, error) { return nil, errors.New("the tool crashed") }
	got, _, err := l.again(t)
	if err == nil || got != "started source, finished source, started small, finished small" {
		t.Fatalf("got %q, %v; want that the run stops", got, err)
	}
	l.KeepGoing = true
	got, made, err := l.again(t)
	want := "resumed source, started small, finished small, skipped smaller, started other, finished other, started derived, finished derived, skipped finished"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var stage *StageError
	if !errors.As(err, &stage) || stage.Stage != "small" || len(made) != 2 {
		t.Errorf("got %v and %d artifacts", err, len(made))
	}
}

func TestAGateThatFailsStopsEverythingAfterIt(t *testing.T) {
	l := branches(t)
	l.KeepGoing = true
	l.Pipeline.Stages[1] = schemas.StageDecl{Name: "looked", Uses: "inspect", Inputs: map[string]string{"snapshot": "source"}}
	l.Pipeline.Stages[2].Inputs = map[string]string{"model": "source"}
	l.Stages["inspect"] = &toy{uses: "inspect", do: func(context.Context, *Run) (*Outcome, error) { return nil, errors.New("a stray shard") }}
	var said []string
	old := l.Observe
	l.Observe = func(e Event) {
		if e.Kind == "skipped" {
			said = append(said, e.Message)
		}
		old(e)
	}
	got, _, err := l.again(t)
	if want := "started source, finished source, started looked, finished looked, skipped smaller, skipped other, skipped derived, skipped finished"; got != want || err == nil {
		t.Errorf("got %q, %v", got, err)
	}
	if len(said) != 4 || said[0] != "it comes after stage looked, which failed and decides for all" {
		t.Errorf("said %q", said)
	}
}

func TestWhatConcernsTheWholeRunStopsItAllTheSame(t *testing.T) {
	l := branches(t)
	l.KeepGoing = true
	l.lost = 2
	if got, _, err := l.again(t); !errors.Is(err, errDisk) || strings.Contains(got, "other") {
		t.Errorf("got %q, %v; want that a ledger that does not append ends the run", got, err)
	}
}
