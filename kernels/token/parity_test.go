package token_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/token"
)

func mustPass(t *testing.T, report kernels.Report) {
	t.Helper()
	for _, f := range report.Findings {
		t.Error(f)
	}
	for _, r := range report.Controls.Results {
		if !r.Red {
			t.Errorf("missed control %s: %s", r.Fault, r.Detail)
		}
	}
	if report.Verdict != kernels.Passed {
		t.Errorf("got the verdict %s, want passed", report.Verdict)
	}
}

func TestSelfCheckPassesAndPlantsEveryFault(t *testing.T) {
	report, err := token.Kernel().SelfCheck(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mustPass(t, report)
	if err := token.Kernel().CheckFaults(report.Controls); err != nil {
		t.Error(err)
	}
	if _, err := kernels.NewRegistry(token.Kernel()); err != nil {
		t.Error(err)
	}
}

func TestCorpusIsLargeAndStable(t *testing.T) {
	tk := exampleTokenizer(t)
	corpus := token.Corpus(tk, 0)
	if len(corpus) < token.MinCorpus {
		t.Errorf("got %d texts, want at least %d", len(corpus), token.MinCorpus)
	}
	if strings.Join(corpus, "\x00") != strings.Join(token.Corpus(tk, 0), "\x00") {
		t.Error("the corpus differs from one call to the next")
	}
}

// TestExampleFormsAgree compares tokenizer.json with the vocabulary of the GGUF made beside it.
func TestExampleFormsAgree(t *testing.T) {
	tk := exampleTokenizer(t)
	report, err := token.Parity(t.Context(), token.Local(tk), token.Local(exampleSPM(t)), token.Corpus(tk, 0))
	if err != nil {
		t.Fatal(err)
	}
	mustPass(t, report)
	if len(report.Inputs) != 3 {
		t.Errorf("got the inputs %v, want both tokenizers and the corpus", report.Inputs)
	}
}

func TestParityFindsEachChange(t *testing.T) {
	tk := exampleTokenizer(t)
	original := string(readFile(t, modelDir, "snapshot", "tokenizer.json"))
	for _, x := range []struct {
		name, old, new string
		check, want    string
	}{
		{"two ids swapped", "", "", "ids", "position"},
		{"a space put before", `"prepend_scheme": "never"`, `"prepend_scheme": "always"`, "ids", `("▁`},
		{"BOS doubled", `"ids": [
          1
        ]`, `"ids": [
          1,
          1
        ]`, "ids", "special tokens added: true, position 1"},
		{"spaces not written back", `"content": " "`, `"content": "▁"`, "text", "special tokens skipped"},
		{"fallback to bytes off", `"byte_fallback": true`, `"byte_fallback": false`, "ids", `("<unk>")`},
	} {
		changed := strings.Replace(original, x.old, x.new, 1)
		if x.old == "" {
			changed = strings.NewReplacer(`"a": `, `"b": `, `"b": `, `"a": `).Replace(original)
		}
		if changed == original {
			t.Errorf("%s: the change did not take", x.name)
			continue
		}
		other, err := token.Load([]byte(changed))
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		report, err := token.Parity(t.Context(), token.Local(tk), token.Local(other), token.Corpus(tk, 0))
		if err != nil {
			t.Fatal(err)
		}
		if report.Verdict != kernels.Failed {
			t.Errorf("%s: got the verdict %s, want failed", x.name, report.Verdict)
			continue
		}
		if f := report.Findings[0]; f.Check != x.check || !strings.Contains(f.String(), x.want) {
			t.Errorf("%s: got %s, want a finding of %s with %q", x.name, f, x.check, x.want)
		}
	}
}

func TestParityIsUndecidedWithTooFewTexts(t *testing.T) {
	tk := exampleTokenizer(t)
	corpus := append([]string{" the red", "ab"}, token.Corpus(tk, 0)[:token.MinCorpus-3]...)
	report, err := token.Parity(t.Context(), token.Local(tk), token.Local(tk), corpus)
	if err != nil {
		t.Fatal(err)
	}
	if report.Verdict != kernels.Undecided || report.Controls.Missed != 0 {
		t.Errorf("%d texts: got the verdict %s with %d missed, want undecided with none", len(corpus), report.Verdict, report.Controls.Missed)
	}
	report, err = token.Parity(t.Context(), token.Local(tk), token.Local(tk), []string{"a"})
	if err != nil || report.Verdict != kernels.Undecided || report.Controls.Missed == 0 {
		t.Errorf("one text: got the verdict %s with %d missed, %v, want undecided: no space to drop", report.Verdict, report.Controls.Missed, err)
	}
}

func TestParityEnds(t *testing.T) {
	tk := exampleTokenizer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := token.Parity(ctx, token.Local(tk), token.Local(tk), token.Corpus(tk, 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	if _, err := token.Parity(t.Context(), token.Local(tk), token.Local(nil), nil); err == nil {
		t.Error("one tokenizer: got no error")
	}
}
