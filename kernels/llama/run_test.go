package llama

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

type fixture struct {
	ID     string   `json:"id"`
	Prompt []uint32 `json:"prompt_ids"`
	Max    int      `json:"max_new_tokens"`
	Expect []uint32 `json:"expect_ids"`
	Margin float64  `json:"min_margin_bf16"` // logits; not above zero where transformers' bf16 answers otherwise
}

func fixtures(t testing.TB) []fixture {
	t.Helper()
	var f struct {
		Fixtures []fixture `json:"fixtures"`
	}
	data, err := os.ReadFile(filepath.Join(modelDir, "eval", "fixtures.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &f); err != nil || len(f.Fixtures) == 0 {
		t.Fatal("fixtures.json holds no fixtures", err)
	}
	return f.Fixtures
}

// transformers' own greedy answers, id by id.
func TestGeneratesWhatTransformersGenerated(t *testing.T) {
	m := load(t, example(t))
	same := 0
	for _, f := range fixtures(t) {
		if f.Margin <= 0 {
			continue
		}
		same++
		g, err := m.Generate(background, f.Prompt, f.Max, m.Stop)
		if err != nil {
			t.Fatal(f.ID, err)
		}
		if !slices.Equal(g.IDs, f.Expect) || !g.Stopped {
			t.Errorf("%s: got %v, stopped %v, want %v", f.ID, g.IDs, g.Stopped, f.Expect)
		}
	}
	if same < 10 {
		t.Errorf("got %d fixtures with a margin, want at least 10", same)
	}
}

// An answer that is built up from the cache has the bits of one pass over the
// whole text, held in memory or streamed, on one processor or several.
func TestCacheStreamAndProcessorsDoNotChangeABit(t *testing.T) {
	f := fixtures(t)[0]
	src := example(t)
	m := load(t, src)
	g, err := m.Generate(background, f.Prompt, f.Max, m.Stop)
	if err != nil {
		t.Fatal(err)
	}
	all := append(slices.Clone(f.Prompt), g.IDs...)
	want := logits(t, m, all)
	for i, margin := range g.Margins {
		v := m.Config().Vocab
		id, whole, err := best(want[(len(f.Prompt)-1+i)*v:][:v])
		if err != nil || id != g.IDs[i] || whole != margin {
			t.Errorf("answer id %d: got id %d with margin %v from the cache, id %d with margin %v from one pass", i, g.IDs[i], margin, id, whole)
		}
	}
	streamed, err := Stream(src)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 3, 8} {
		runtime.GOMAXPROCS(procs)
		if !slices.Equal(logits(t, streamed, all), want) {
			t.Errorf("%d processors, streamed: other logits", procs)
		}
	}
}

func TestLimitCutsAndIsSeen(t *testing.T) {
	m := load(t, example(t))
	f := fixtures(t)[0]
	g, err := m.Generate(background, f.Prompt, 2, m.Stop)
	if err != nil || len(g.IDs) != 2 || g.Stopped {
		t.Errorf("got %d ids, stopped %v, %v, want 2 ids and no stop", len(g.IDs), g.Stopped, err)
	}
}

func TestAgainstChangesTheCopyOnly(t *testing.T) {
	m := load(t, example(t))
	f := fixtures(t)[0]
	faulty, err := m.Against(f.Expect[0])
	if err != nil {
		t.Fatal(err)
	}
	g, err := faulty.Generate(background, f.Prompt, f.Max, m.Stop)
	if err != nil || g.IDs[0] == f.Expect[0] {
		t.Errorf("got %v, %v, want another first id than %d", g.IDs, err, f.Expect[0])
	}
	if g, err := m.Generate(background, f.Prompt, f.Max, m.Stop); err != nil || !slices.Equal(g.IDs, f.Expect) {
		t.Errorf("the model itself now answers %v, %v", g.IDs, err)
	}
}

// CASES F: a NaN away from the winner stops the choice.
func TestNotFiniteIsRefusedBeforeChoosing(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, _, err := best([]float64{5, 1, bad}); !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), "id 2") {
			t.Errorf("%v: got %v, want the row refused at id 2", bad, err)
		}
	}
	id, margin, err := best([]float64{1, 3, 3, 2})
	if id != 1 || margin != 0 || err != nil {
		t.Errorf("a tie: got id %d, margin %v, %v, want the smaller id 1 and 0", id, margin, err)
	}
	src := altered{Source: example(t), rows: func(name string, _ int, dst []float64) {
		if name == headName {
			dst[7] = math.NaN()
		}
	}}
	m := load(t, src)
	if _, err := m.Generate(background, []uint32{1, 2}, 1, m.Stop); !errors.Is(err, ErrNotFinite) {
		t.Errorf("a NaN in the head: got %v, want it refused", err)
	}
}

func TestInputIsRefused(t *testing.T) {
	m := load(t, example(t))
	never := func(uint32) bool { return false }
	for name, c := range map[string]struct {
		prompt []uint32
		limit  int
		want   string
	}{
		"no tokens":             {nil, 1, "no token ids"},
		"an id beyond the rows": {[]uint32{1, 640}, 1, "id 640"},
		"longer than context":   {make([]uint32, 1025), 1, "context"},
		"answer beyond context": {make([]uint32, 1000), 25, "context"},
		"no answer asked":       {[]uint32{1}, 0, "limit"},
	} {
		if _, err := m.Generate(background, c.prompt, c.limit, never); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error about %q", name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	if _, err := m.Generate(ctx, []uint32{1}, 1, never); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	streamed, err := Stream(example(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := streamed.Against(1); err == nil {
		t.Error("a fault was planted in a model that is not held")
	}
}

func BenchmarkPrompt512(b *testing.B) {
	m := load(b, example(b))
	ids := make([]uint32, 512)
	for i := range ids {
		ids[i] = uint32(i*37%600 + 1)
	}
	for b.Loop() {
		if _, err := m.Generate(background, ids, 1, m.Stop); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(512*b.N)/b.Elapsed().Seconds(), "tokens/s")
}

func BenchmarkGenerate(b *testing.B) {
	m := load(b, example(b))
	for b.Loop() {
		if _, err := m.Generate(background, []uint32{1}, 64, func(uint32) bool { return false }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(64*b.N)/b.Elapsed().Seconds(), "tokens/s")
}
