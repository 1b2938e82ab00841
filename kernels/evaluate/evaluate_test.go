package evaluate

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/llama"
)

var ctx = context.Background()

func fixturesFile(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("../../fixtures/model/eval/fixtures.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func sample(expect Expect) Fixtures {
	return Fixtures{FixturesSchema, []Fixture{{
		ID: "x", Kind: "arithmetic", Language: "en", Prompt: "2+2", PromptIDs: []uint32{50, 43, 50}, PromptTokens: 3, MaxNewTokens: 8, Expect: expect,
	}}}
}

func run(t *testing.T, m Model, f Fixtures) (Result, kernels.Report) {
	t.Helper()
	result, report, err := Run(ctx, m, bytesTokenizer{}, f, func(uint32) (Model, error) { return book{"2+2": "5"}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return result, report
}

func value(t *testing.T, r kernels.Report, name string) float64 {
	t.Helper()
	for _, m := range r.Metrics {
		if m.Name == name {
			return m.Value
		}
	}
	t.Fatalf("the report has no metric %s", name)
	return 0
}

// broken answers as told.
type broken struct {
	book
	g   llama.Generation
	err error
}

func (b broken) Generate(context.Context, []uint32, int, func(uint32) bool) (llama.Generation, error) {
	return b.g, b.err
}

func TestJudgement(t *testing.T) {
	four := Expect{"exact", "4"}
	for name, c := range map[string]struct {
		m      Model
		expect Expect
		check  string // of the only finding; empty when it passes
		got    string
	}{
		"right":                         {book{"2+2": "4"}, four, "", ""},
		"wrong":                         {book{"2+2": "5"}, four, checkAnswer, `"5"`},
		"right with a space":            {book{"2+2": "4 "}, four, checkAnswer, `"4 "`},
		"right, cut at the limit":       {broken{g: llama.Generation{IDs: []uint32{'4'}, Margins: []float64{1}}}, four, checkEnd, "limit"},
		"right, then not finite":        {broken{g: llama.Generation{IDs: []uint32{'4'}, Margins: []float64{1}}, err: llama.ErrNotFinite}, four, checkResponse, "finite"},
		"an id that is not in the list": {broken{g: llama.Generation{IDs: []uint32{999, 0}, Margins: []float64{1, 1}, Stopped: true}}, four, checkResponse, "no such byte"},
		"said in a sentence":            {book{"2+2": "it is 4"}, Expect{"contains", "4"}, "", ""},
		"not said":                      {book{"2+2": "it is 5"}, Expect{"contains", "4"}, checkAnswer, "5"},
	} {
		f := sample(c.expect)
		f.Fixtures[0].MaxNewTokens = 32
		result, r := run(t, c.m, f)
		if value(t, r, "fixtures_total") != 1 {
			t.Errorf("%s: got a total of %v", name, value(t, r, "fixtures_total"))
		}
		if c.check == "" {
			if r.Verdict != kernels.Passed || value(t, r, "fixtures_passed") != 1 || result.Passed() != 1 {
				t.Errorf("%s: got %s, %v %+v", name, r.Verdict, r.Findings, r.Controls)
			}
			continue
		}
		if r.Verdict != kernels.Failed || value(t, r, "fixtures_passed") != 0 || result.Passed() != 0 ||
			len(r.Findings) != 1 || r.Findings[0].Check != c.check || !strings.Contains(r.Findings[0].Got, c.got) {
			t.Errorf("%s: got %s, findings %v, want one of the check %s about %q", name, r.Verdict, r.Findings, c.check, c.got)
		}
	}
}

// The tokenizer must give the fixture's ids: one BOS too many is found even when the answer is right.
func TestPromptParity(t *testing.T) {
	f := sample(Expect{"exact", "4"})
	f.Fixtures[0].PromptIDs = []uint32{1, 50, 43, 50}
	f.Fixtures[0].PromptTokens = 4
	_, r := run(t, book{"2+2": "4"}, f)
	if r.Verdict != kernels.Failed || len(r.Findings) != 1 || r.Findings[0].Check != checkPrompt || !strings.Contains(r.Findings[0].String(), "id 0 = 50, 3 in all") {
		t.Errorf("got %s, %v, want a prompt finding", r.Verdict, r.Findings)
	}
}

// A run that would give the same answer with a faulty model has not shown anything.
func TestMissedControlIsUndecided(t *testing.T) {
	f := sample(Expect{"exact", "4"})
	_, r, err := Run(ctx, book{"2+2": "4"}, bytesTokenizer{}, f, func(uint32) (Model, error) { return book{"2+2": "4"}, nil })
	if err != nil || r.Verdict != kernels.Undecided || r.Controls.Missed != 1 {
		t.Errorf("a model that no fault changes: got %s, %d missed, %v", r.Verdict, r.Controls.Missed, err)
	}
	_, r, err = Run(ctx, book{"2+2": "4"}, bytesTokenizer{}, f, nil)
	if err != nil || r.Verdict != kernels.Undecided || r.Controls.Missed != 1 {
		t.Errorf("no faulty model: got %s, %d missed, %v", r.Verdict, r.Controls.Missed, err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := Run(cancelled, book{"2+2": "4"}, bytesTokenizer{}, f, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestSelfCheck(t *testing.T) {
	k := Kernel()
	r, err := k.SelfCheck(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.CheckFaults(r.Controls); err != nil {
		t.Error(err)
	}
	if r.Verdict != kernels.Passed || r.Controls.Missed > 0 {
		t.Errorf("got %s, findings %v, controls %+v", r.Verdict, r.Findings, r.Controls)
	}
	for _, m := range r.Metrics {
		if m.Name == "fixtures_passed" && m.Identity["kind"] == "retrieval" && m.Identity["tokens"] != "4" {
			t.Errorf("retrieval: got identity %v, want the 4 tokens that were run", m.Identity)
		}
	}
	if _, err := kernels.NewRegistry(k); err != nil {
		t.Error(err)
	}
}

func TestParseFixtures(t *testing.T) {
	data := fixturesFile(t)
	f, err := ParseFixtures(data)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, x := range f.Fixtures {
		kinds[x.Kind] = true
	}
	for _, k := range []string{"arithmetic", "reading", "code-reasoning", "python-function", "tool-call", "thinking", "retrieval"} {
		if !kinds[k] {
			t.Errorf("no fixture of kind %s", k)
		}
	}
	good := string(data)
	for name, c := range map[string]struct{ from, to, want string }{
		"another schema": {"fixtures/v1", "fixtures/v2", "schema"},
		"unknown field":  {`"kind"`, `"sort"`, "unknown field"},
		"token count":    {`"prompt_tokens": `, `"prompt_tokens": 1`, "prompt_tokens"},
		"no limit":       {`"max_new_tokens": `, `"max_new_tokens": -`, "max_new_tokens"},
		"match":          {`"exact"`, `"similar"`, "expect.match"},
		"empty answer":   {`"text": "`, `"text": "", "unused": "`, "unknown field"},
		"twice":          {`"arithmetic-en-2"`, `"arithmetic-en-1"`, "second time"},
	} {
		if !strings.Contains(good, c.from) {
			t.Fatalf("%s: the file does not hold %s", name, c.from)
		}
		if _, err := ParseFixtures([]byte(strings.Replace(good, c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error about %q", name, err, c.want)
		}
	}
	for _, bad := range []string{`{"schema":"` + FixturesSchema + `","fixtures":[]}`, good + "{}", "", "null"} {
		if _, err := ParseFixtures([]byte(bad)); err == nil {
			t.Errorf("%.60q was accepted", bad)
		}
	}
}

func FuzzParseFixtures(f *testing.F) {
	f.Add(fixturesFile(f))
	f.Add([]byte(`{"schema":"` + FixturesSchema + `","fixtures":[{"id":"a","max_new_tokens":1e9}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := ParseFixtures(data)
		if err != nil {
			return
		}
		for _, one := range x.Fixtures {
			if err := one.check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
