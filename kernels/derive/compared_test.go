package derive

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// setKeys writes keys over those that are there, and drops those without a value.
func setKeys(kvs []gguf.KV, over map[string]*gguf.Value) []gguf.KV {
	kvs = slices.Clone(kvs)
	for key, v := range over {
		kvs = slices.DeleteFunc(kvs, func(e gguf.KV) bool { return e.Key == key })
		if v != nil {
			kvs = append(kvs, gguf.KV{Key: key, Value: *v})
		}
	}
	return kvs
}

// patchedProduct is what a patched converter makes of a snapshot whose tokenizer.model
// is not there: the vocabulary that the known converter makes only with that file.
func patchedProduct(t *testing.T, change func([]gguf.KV) []gguf.KV) (fstest.MapFS, File) {
	t.Helper()
	snapshot := exampleSnapshot(t)
	product := convertWith(t, snapshot, change)
	delete(snapshot, "tokenizer.model")
	return snapshot, product
}

func compared(t *testing.T, snapshot fstest.MapFS, product File) kernels.Report {
	t.Helper()
	report, err := Check(t.Context(), Input{Snapshot: snapshot}, product, Options{TokenizerCompared: true})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func leftOf(t *testing.T, r kernels.Report) kernels.Metric {
	t.Helper()
	i := slices.IndexFunc(r.Metrics, func(m kernels.Metric) bool { return m.Name == "tokenizer_keys_left" })
	if i < 0 {
		t.Fatal("the report has no metric tokenizer_keys_left")
	}
	return r.Metrics[i]
}

// TestAVocabularyOfAPatchedConverter: refused as ever; with the vocabulary compared its keys are named, and nothing else is left.
func TestAVocabularyOfAPatchedConverter(t *testing.T) {
	snapshot, product := patchedProduct(t, same)
	report, err := Check(t.Context(), Input{Snapshot: snapshot}, product, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Verdict != kernels.Failed || !strings.Contains(kernels.Lines(report.Findings), "key tokenizer.ggml.scores") {
		t.Fatalf("every key compared: got %s with %v, want failed for the vocabulary", report.Verdict, report.Findings)
	}
	if slices.ContainsFunc(report.Metrics, func(m kernels.Metric) bool { return m.Name == "tokenizer_keys_left" }) {
		t.Error("every key compared: the report has a metric tokenizer_keys_left")
	}
	report = compared(t, snapshot, product)
	mustPass(t, report)
	left := leftOf(t, report)
	file, err := gguf.Open(product.R, product.Size)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := gguf.TokenizerDigest(file.KVs)
	if err != nil {
		t.Fatal(err)
	}
	if left.Value < 1 || int(left.Value) != len(left.Identity)-1 || left.Identity["tokenizer"] != sum.String() || !strings.Contains(left.Identity["tokenizer.ggml.scores"], "the known converter writes") {
		t.Errorf("got %+v, want the keys by name and tokenizer %s", left, sum)
	}
	if report.Controls.Missed != 0 || metric(report, "metadata_differing") != 0 {
		t.Errorf("got %+v, want no control missed and no key differing", report.Controls)
	}
}

// TestAVocabularyThatTheKnownConverterWrites has nothing to leave, and says so.
func TestAVocabularyThatTheKnownConverterWrites(t *testing.T) {
	snapshot := exampleSnapshot(t)
	report := compared(t, snapshot, convertWith(t, snapshot, same))
	mustPass(t, report)
	if left := leftOf(t, report); left.Value != 0 || len(left.Identity) != 1 {
		t.Errorf("got %+v, want no key left", left)
	}
}

func TestWhatIsNotLeftToAComparison(t *testing.T) {
	value := func(v gguf.Value) *gguf.Value { return &v }
	for _, c := range []struct {
		name string
		over map[string]*gguf.Value
		want string
	}{
		{"another bos", map[string]*gguf.Value{"tokenizer.ggml.bos_token_id": value(gguf.Uint32(7))}, "metadata: key tokenizer.ggml.bos_token_id: got 7"},
		{"no eos", map[string]*gguf.Value{"tokenizer.ggml.eos_token_id": nil}, "metadata: key tokenizer.ggml.eos_token_id: got no such key"},
		{"an eot that the publisher does not state", map[string]*gguf.Value{"tokenizer.ggml.eot_token_id": value(gguf.Uint32(3))}, "metadata: key tokenizer.ggml.eot_token_id: got 3, want no such key"},
		{"another template", map[string]*gguf.Value{templateKey: value(gguf.String("{{ 'obey' }}"))}, "metadata: key tokenizer.chat_template: "},
		{"a template more", map[string]*gguf.Value{templateKey + ".tools": value(gguf.String("{{ 'obey' }}"))}, "metadata: key tokenizer.chat_template.tools: "},
		{"a tokenizer of another form", map[string]*gguf.Value{"tokenizer.huggingface.json": value(gguf.String("{}"))}, "metadata: key tokenizer.huggingface.json: "},
		{"tokens that are never given", map[string]*gguf.Value{"tokenizer.ggml.suppress_tokens": value(gguf.Int32s([]int32{5}))}, "metadata: key tokenizer.ggml.suppress_tokens: "},
		{"a hyper-parameter", map[string]*gguf.Value{"llama.rope.freq_base": value(gguf.Float32(12345))}, "metadata: key llama.rope.freq_base: got 12345"},
	} {
		t.Run(c.name, func(t *testing.T) {
			snapshot, product := patchedProduct(t, func(kvs []gguf.KV) []gguf.KV { return setKeys(kvs, c.over) })
			if report := compared(t, snapshot, product); report.Verdict != kernels.Failed || len(report.Findings) != 1 || !strings.HasPrefix(report.Findings[0].String(), c.want) {
				t.Errorf("got %s with %v, want failed for: %s", report.Verdict, report.Findings, c.want)
			}
		})
	}
}

// TestTokensOfAPatchedConverter: texts are those of tokenizer.json, as many as the embedding has rows.
func TestTokensOfAPatchedConverter(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(tokens []string) []string
		want   string
	}{
		{"another text", func(tokens []string) []string { tokens[300] = "planted"; return tokens }, `tokens: key tokenizer.ggml.tokens element 300: got "planted"`},
		{"one token less", func(tokens []string) []string { return tokens[:len(tokens)-1] }, "one for each row of token_embd.weight"},
		{"one token more", func(tokens []string) []string { return append(tokens, "more") }, "one for each row of token_embd.weight"},
	} {
		snapshot, product := patchedProduct(t, func(kvs []gguf.KV) []gguf.KV {
			v, _ := kv(kvs, tokensKey)
			changed := gguf.Strings(c.change(slices.Clone(v.Strings())))
			return setKeys(kvs, map[string]*gguf.Value{tokensKey: &changed})
		})
		if report := compared(t, snapshot, product); report.Verdict != kernels.Failed || len(report.Findings) != 1 || !strings.Contains(report.Findings[0].String(), c.want) {
			t.Errorf("%s: got %s with %v, want failed for: %s", c.name, report.Verdict, report.Findings, c.want)
		}
	}
}

// TestATokenizerThatIsNotDerivedIsLeft: what the publisher states is held all the same.
func TestATokenizerThatIsNotDerivedIsLeft(t *testing.T) {
	bos := gguf.Uint32(7)
	for _, c := range []struct {
		over map[string]*gguf.Value
		want string
	}{{nil, ""}, {map[string]*gguf.Value{"tokenizer.ggml.bos_token_id": &bos}, "key tokenizer.ggml.bos_token_id: got 7"}} {
		snapshot, product := patchedProduct(t, func(kvs []gguf.KV) []gguf.KV { return setKeys(kvs, c.over) })
		body := bytes.Replace(snapshot["tokenizer.json"].Data, []byte(`"type": "BPE"`), []byte(`"type": "WordLevel"`), 1)
		snapshot["tokenizer.json"] = &fstest.MapFile{Data: body}
		report := compared(t, snapshot, product)
		if c.want == "" {
			mustPass(t, report)
			if left := leftOf(t, report); left.Value < 4 {
				t.Errorf("got %+v, want the whole vocabulary left", left)
			}
		} else if report.Verdict != kernels.Failed || !strings.Contains(kernels.Lines(report.Findings), c.want) {
			t.Errorf("got %s with %v, want failed for %s", report.Verdict, report.Findings, c.want)
		}
	}
}

func TestNoKeyIsLeftBesideAGGUF(t *testing.T) {
	product := convertWith(t, exampleSnapshot(t), same)
	_, err := Check(t.Context(), Input{GGUF: &product}, product, Options{TokenizerCompared: true})
	if err == nil || !strings.Contains(err.Error(), "want a publisher's snapshot") {
		t.Errorf("got %v, want a GGUF source refused", err)
	}
}
