package derive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

const templateKey = "tokenizer.chat_template"

// compareMetadata compares every key of the product with what the source gives.
func compareMetadata(ctx context.Context, src, dst *side) ([]kernels.Finding, error) {
	retyped := false
	for _, t := range dst.tensors {
		s := src.byName[t.name]
		retyped = retyped || s != nil && s.typ != t.typ
	}
	found := compareKVs(src, dst.kvs, dst.model, retyped)
	if dst.tokenErr == nil {
		return found, nil
	}
	// What could not be derived of the target's vocabulary is not missing there.
	found = slices.DeleteFunc(found, func(f kernels.Finding) bool {
		return f.Check == checkTokenizer || f.Check == "metadata" && strings.HasPrefix(f.Where, "key tokenizer.") && f.Where != "key "+templateKey
	})
	if src.folder != nil {
		same, err := sameTokenizers(ctx, src.folder, dst.folder)
		if same || err != nil {
			return found, err
		}
	}
	return append(found, underived(dst.tokenErr)), nil
}

// underived is the finding about a vocabulary that could not be derived.
func underived(err error) kernels.Finding {
	return kernels.Finding{Check: checkTokenizer, Where: "keys tokenizer.*", Got: err.Error(), Want: "a vocabulary that can be derived", Hint: "types, scores, merges and pre-tokenizer of the product are not derived"}
}

// sameTokenizers tells that two folders have the same files, byte for byte, of those that a vocabulary is read from.
func sameTokenizers(ctx context.Context, a, b fs.FS) (bool, error) {
	for _, name := range []string{"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt"} {
		f, err := a.Open(name)
		g, other := b.Open(name)
		if errors.Is(err, fs.ErrNotExist) && errors.Is(other, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			defer f.Close()
		}
		if other == nil {
			defer g.Close()
		}
		if err != nil || other != nil {
			return false, nil // on one side only: what was read of it is compared key by key
		}
		if at, err := folder.FirstDifference(ctx, f, g); at >= 0 || err != nil {
			return false, err
		}
	}
	return true, nil
}

// compareKVs is compareMetadata over the product's keys alone; model is the
// product's where that is a snapshot, retyped tells that tensors have other types. A snapshot does not give general.… keys.
func compareKVs(src *side, product []gguf.KV, model *convert.Model, retyped bool) []kernels.Finding {
	snapshot := src.snapshot() || model != nil
	findings := []kernels.Finding{}
	find := func(key, got, want, hint string) {
		findings = append(findings, kernels.Finding{Check: "metadata", Where: "key " + key, Got: got, Want: want, Hint: hint})
	}
	got := map[string]gguf.Value{}
	for _, kv := range product {
		got[kv.Key] = kv.Value
	}
	defaults := map[string]gguf.Value{}
	for _, m := range []*convert.Model{src.model, model} {
		if m != nil {
			defaults = m.Config.Defaults()
		}
	}
	expected := map[string]bool{}
	for _, want := range src.kvs {
		if claims(want.Key, snapshot, retyped) {
			continue
		}
		expected[want.Key] = true
		value, has := got[want.Key]
		implied, hasDefault := defaults[want.Key]
		switch {
		case !has && hasDefault && implied.Equal(want.Value):
		case !has:
			find(want.Key, "no such key", short(want.Value), "")
		case !value.Equal(want.Value):
			g, w := valueDifference(value, want.Value)
			find(want.Key, g, w, "")
		}
	}
	if src.tokenErr != nil {
		findings = append(findings, underived(src.tokenErr))
	}
	for _, kv := range product {
		if expected[kv.Key] || claims(kv.Key, snapshot, retyped) || src.tokenErr != nil && strings.HasPrefix(kv.Key, "tokenizer.") {
			continue
		}
		if implied, has := defaults[kv.Key]; has && implied.Equal(kv.Value) {
			continue
		}
		find(kv.Key, short(kv.Value), "no such key", "the source does not give it")
	}
	return append(findings, compareTokens(src, product)...)
}

// claims tells the keys that are not derived from this source. Between two files
// of the same types every key is compared; else not what a quantizer notes and what
// depends on the types (see label), and beside a snapshot no general.… key but the architecture.
func claims(key string, snapshot, retyped bool) bool {
	if !snapshot && !retyped {
		return false
	}
	switch {
	case key == "general.file_type", key == "general.quantization_version", key == "general.alignment":
		return true
	case strings.HasPrefix(key, "quantize."):
		return true
	}
	return snapshot && strings.HasPrefix(key, "general.") && key != "general.architecture"
}

// oneType are the file types whose tensors all have one type, norms and vectors apart.
var oneType = map[uint64]gguf.Type{
	convert.FileF32: gguf.F32, convert.FileF16: gguf.F16, convert.FileBF16: gguf.BF16, convert.FileQ8_0: gguf.Q8_0,
}

// label holds the declared general.file_type against the types of the tensors,
// where the file type stands for one type.
func label(dst *side) []kernels.Finding {
	if dst.snapshot() {
		return nil
	}
	value, _ := kv(dst.kvs, "general.file_type")
	declared, ok := value.Uint()
	want, single := oneType[declared]
	if !ok || !single {
		return nil
	}
	for _, t := range dst.tensors {
		if convert.Quantizes(t.name, t.dims) && t.typ != want {
			return []kernels.Finding{{
				Check: "recipe", Where: "tensor " + t.name, Got: t.typ.String(),
				Want: fmt.Sprintf("%s, by general.file_type %d", want, declared), Hint: "the label does not fit the tensors",
			}}
		}
	}
	return nil
}

// valueDifference shows two unlike values: of arrays the first unlike element, of texts the first unlike line.
func valueDifference(got, want gguf.Value) (g, w string) {
	if got.Type != want.Type || got.Elem != want.Elem {
		return typed(got), typed(want)
	}
	if a, ok := got.Text(); ok {
		b, _ := want.Text()
		return textDifference(a, b)
	}
	if got.Type != gguf.TypeArray {
		return short(got), short(want)
	}
	if a, b := got.Strings(), want.Strings(); a != nil || b != nil {
		return elementDifference(a, b, func(s string) string { return fmt.Sprintf("%.80q", s) })
	}
	if a, b := got.Ints(), want.Ints(); a != nil || b != nil {
		return elementDifference(a, b, func(n int64) string { return fmt.Sprint(n) })
	}
	if a, b := got.Floats(), want.Floats(); a != nil || b != nil {
		return elementDifference(a, b, func(f float64) string { return fmt.Sprint(f) })
	}
	return short(got), short(want)
}

func elementDifference[T comparable](got, want []T, show func(T) string) (g, w string) {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("element %d: %s", i, show(got[i])), fmt.Sprintf("element %d: %s", i, show(want[i]))
		}
	}
	return fmt.Sprintf("%d elements", len(got)), fmt.Sprintf("%d elements", len(want))
}

// textDifference shows the first line in which two texts differ, quoted, with its number from 1.
func textDifference(got, want string) (g, w string) {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			if len(a) == 1 && len(b) == 1 {
				return quoteAround(a[i], b[i]), quoteAround(b[i], a[i])
			}
			return fmt.Sprintf("line %d: %s", i+1, quoteAround(a[i], b[i])), fmt.Sprintf("line %d: %s", i+1, quoteAround(b[i], a[i]))
		}
	}
	return fmt.Sprintf("%d lines", len(a)), fmt.Sprintf("%d lines", len(b))
}

// quoteAround quotes the part of a line around its first difference from another.
func quoteAround(line, other string) string {
	at := 0
	for at < len(line) && at < len(other) && line[at] == other[at] {
		at++
	}
	from := max(at-30, 0)
	dots := ""
	if from > 0 {
		dots = "…"
	}
	return dots + fmt.Sprintf("%.80q", line[from:])
}

func short(v gguf.Value) string {
	s := v.String()
	if r := []rune(s); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return s
}

func typed(v gguf.Value) string {
	if v.Type == gguf.TypeArray {
		return fmt.Sprintf("array of %d %s", v.Len, v.Elem)
	}
	return fmt.Sprintf("%s %s", v.Type, short(v))
}
