package token_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/token"
)

// TestPlainEqualsTheLibrary: special tokens that stay text, by both forms of the example's vocabulary.
func TestPlainEqualsTheLibrary(t *testing.T) {
	var c libraryCases
	if err := json.Unmarshal(readFile(t, "../../fixtures/tokenizers/plain.json"), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Cases) < 100 {
		t.Fatalf("got %d cases, want at least 100", len(c.Cases))
	}
	differing := 0
	for _, e := range []token.Encoder{exampleTokenizer(t), exampleSPM(t)} {
		for _, x := range c.Cases {
			if got := e.Plain(x.Text, x.AddSpecial); !slices.Equal(got, x.IDs) {
				t.Errorf("%T: plain %q, special %v: got %v, want %v", e, x.Text, x.AddSpecial, got, x.IDs)
			}
			if !slices.Equal(e.Encode(x.Text, x.AddSpecial), x.IDs) {
				differing++
			}
		}
	}
	if differing < 50 {
		t.Errorf("only %d cases show whether special tokens are read", differing)
	}
}

// TestPiecesMakeTheText: what ids stand for alone is what they stand for together.
func TestPiecesMakeTheText(t *testing.T) {
	tk := exampleTokenizer(t)
	bpe, f := both(t, "llama3")
	byteLevel, err := token.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []token.Encoder{tk, exampleSPM(t), bpe, byteLevel} {
		for _, text := range token.Corpus(e, 7) {
			var joined []byte
			for _, id := range e.Encode(text, true) {
				piece, ok := e.Piece(id)
				if !ok {
					t.Fatalf("%T: id %d has no piece", e, id)
				}
				joined = append(joined, piece...)
			}
			if whole, err := e.Decode(e.Encode(text, true), false); err != nil || string(joined) != whole {
				t.Errorf("%T: %q: got the pieces %q, want %q %v", e, text, joined, whole, err)
			}
		}
		if _, ok := e.Piece(1 << 30); ok {
			t.Errorf("%T: an id beyond the vocabulary has a piece", e)
		}
	}
}

func TestTheSeedDrawsTheCorpus(t *testing.T) {
	tk := exampleTokenizer(t)
	a, b := token.Corpus(tk, 1), token.Corpus(tk, 2)
	if slices.Equal(a, b) || !slices.Equal(a, token.Corpus(tk, 1)) {
		t.Error("the seed does not decide the corpus")
	}
	for _, c := range [][]string{a, b} {
		for _, want := range []string{" ", "你好，世界！", "\x00", "a\r\nb\r\n", "\u00a0", "<|im_start|>user", "<s>user", "\u212b", strings.Repeat("=", 257)} {
			if !slices.ContainsFunc(c, func(s string) bool { return strings.Contains(s, want) }) {
				t.Errorf("no text has %q", want)
			}
		}
	}
}

// another asks one side and changes its answers.
type another struct {
	token.Side
	ids    func(text string, mode token.Mode, ids []uint32) ([]uint32, error)
	text   func(string) (string, error)
	pieces func([][]byte) ([][]byte, error)
	joined bool
}

func (s another) IDs(ctx context.Context, text string, mode token.Mode) ([]uint32, error) {
	ids, err := s.Side.IDs(ctx, text, mode)
	if err == nil && s.ids != nil {
		return s.ids(text, mode, ids)
	}
	return ids, err
}

func (s another) Text(ctx context.Context, ids []uint32) (string, error) {
	text, err := s.Side.Text(ctx, ids)
	if err == nil && s.text != nil {
		return s.text(text)
	}
	return text, err
}

func (s another) Pieces(ctx context.Context, ids []uint32) ([][]byte, error) {
	pieces, err := s.Side.Pieces(ctx, ids)
	if err == nil && s.pieces != nil {
		return s.pieces(pieces)
	}
	return pieces, err
}

func (s another) Joined() bool { return s.joined }

// TestEachComparisonFinds: one changed answer, named by its comparison, with both lists of ids.
func TestEachComparisonFinds(t *testing.T) {
	tk := exampleTokenizer(t)
	corpus := token.Corpus(tk, 3)
	const marked = "The quick brown fox jumps over the lazy dog."
	lose := func(when func(text string, m token.Mode) bool) func(string, token.Mode, []uint32) ([]uint32, error) {
		return func(text string, m token.Mode, ids []uint32) ([]uint32, error) {
			if when(text, m) {
				return slices.Delete(ids, 2, 3), nil
			}
			return ids, nil
		}
	}
	for _, x := range []struct {
		name       string
		b          another
		check      string
		where      string
		mismatches float64
	}{
		{"ids", another{ids: lose(func(s string, m token.Mode) bool { return s == marked && m == token.Mode{} })}, "ids", "special tokens added: false, position 2", 1},
		{"ids with BOS", another{ids: lose(func(s string, m token.Mode) bool { return s == marked && m.Special })}, "ids", "special tokens added: true, position 2", 1},
		{"plain ids", another{ids: lose(func(s string, m token.Mode) bool { return s == marked && m.Plain })}, "ids", "special tokens as text, position 2", 1},
		{"within a sentence", another{ids: lose(func(s string, m token.Mode) bool { return s == "As I said, "+marked+" and so on." })}, "ids", "within a sentence, position 2", 1},
		{"text", another{text: func(s string) (string, error) { return strings.Replace(s, "fox ", "fox", 1), nil }}, "text", `fox`, 0},
		{"pieces", another{pieces: func(p [][]byte) ([][]byte, error) { return p[:max(0, len(p)-1)], nil }}, "pieces", "piece", 0},
	} {
		x.b.Side = token.Local(tk)
		report, err := token.Parity(t.Context(), token.Local(tk), x.b, corpus)
		if err != nil {
			t.Fatal(err)
		}
		if report.Verdict != kernels.Failed || report.Findings[0].Check != x.check || !strings.Contains(report.Findings[0].Where, x.where) {
			t.Errorf("%s: got %s with %v, want a finding of %s at %q", x.name, report.Verdict, report.Findings[:min(1, len(report.Findings))], x.check, x.where)
			continue
		}
		if f := report.Findings[0]; x.check == "ids" && (!strings.Contains(f.Hint, "got [") || !strings.Contains(f.Hint, "want [") || !strings.Contains(f.Where, "quick")) {
			t.Errorf("%s: got %s, want the text and both lists of ids", x.name, f)
		}
		for _, m := range report.Metrics {
			if m.Name == "mismatches" && (m.Value == 0 || x.mismatches > 0 && m.Value != x.mismatches) {
				t.Errorf("%s: got %v mismatches, want %v", x.name, m.Value, x.mismatches)
			}
		}
	}
}

// TestASideThatCannotAnswerDecidesNothing: five of six comparisons are not parity.
func TestASideThatCannotAnswerDecidesNothing(t *testing.T) {
	tk := exampleTokenizer(t)
	corpus := token.Corpus(tk, 0)
	for name, b := range map[string]another{
		"plain ids": {ids: func(_ string, m token.Mode, ids []uint32) ([]uint32, error) {
			if m.Plain {
				return nil, token.ErrCannot
			}
			return ids, nil
		}},
		"text":   {text: func(string) (string, error) { return "", token.ErrCannot }},
		"pieces": {pieces: func([][]byte) ([][]byte, error) { return nil, fmt.Errorf("no: %w", token.ErrCannot) }},
	} {
		b.Side = token.Local(tk)
		report, err := token.Parity(t.Context(), token.Local(tk), b, corpus)
		if err != nil || report.Verdict != kernels.Undecided || len(report.Findings) > 0 {
			t.Errorf("%s: got %s %v %v, want undecided without a finding", name, report.Verdict, err, report.Findings)
		}
		for _, m := range report.Metrics {
			if m.Name == "comparisons_undecided" && m.Value != float64(len(corpus)) {
				t.Errorf("%s: got %v undecided comparisons, want %d", name, m.Value, len(corpus))
			}
			if m.Name == "comparisons" && m.Value != float64(6*len(corpus)) {
				t.Errorf("%s: got %v comparisons, want six a case", name, m.Value)
			}
		}
	}
	broken := another{Side: token.Local(tk), ids: func(string, token.Mode, []uint32) ([]uint32, error) { return nil, errors.New("connection reset") }}
	if _, err := token.Parity(t.Context(), token.Local(tk), broken, corpus); err == nil || !strings.Contains(err.Error(), "connection reset") {
		t.Errorf("a side that fails: got %v", err)
	}
	joined := another{Side: token.Local(tk), joined: true}
	report, err := token.Parity(t.Context(), token.Local(exampleSPM(t)), joined, corpus)
	if err != nil || report.Verdict != kernels.Passed {
		t.Errorf("a side whose texts are its pieces: got %s %v %v", report.Verdict, err, report.Findings)
	}
}
