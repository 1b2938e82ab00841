package recipe

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

func shapeNamed(t testing.TB, name string) Model {
	t.Helper()
	for _, s := range shapes {
		if s.name == name {
			return s.model(t)
		}
	}
	t.Fatalf("no shape %s", name)
	return Model{}
}

func recipeNamed(t testing.TB, name string) Recipe {
	t.Helper()
	r, ok := Find(name)
	if !ok {
		t.Fatalf("no recipe %s", name)
	}
	return r
}

func typesOf(t testing.TB, r Recipe, m Model, o Options) map[string]gguf.Type {
	t.Helper()
	types, err := r.Types(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return types
}

// TestA52LayerLlama counts the types of the best known example.
func TestA52LayerLlama(t *testing.T) {
	m := shapeNamed(t, "llama-52-untied")
	count := map[gguf.Type]int{}
	for _, typ := range typesOf(t, recipeNamed(t, "q4_k"), m, Options{}) {
		count[typ]++
	}
	if len(count) != 3 || count[gguf.Q4_K] != 313 || count[gguf.Q6_K] != 53 || count[gguf.F32] != 105 {
		t.Errorf("got %v, want 313 Q4_K, 53 Q6_K and 105 F32", count)
	}
}

// TestALabelIsNotARecipe: what general.file_type says counts only where the types bear it out.
func TestALabelIsNotARecipe(t *testing.T) {
	m := shapeNamed(t, "llama-52-untied")
	claim := recipeNamed(t, "Q4_K_M").FileType
	for _, c := range []struct {
		name  string
		types map[string]gguf.Type
		want  string // recipe
		claim string
	}{
		{"what it says", typesOf(t, recipeNamed(t, "Q4_K_M"), m, Options{}), "Q4_K_M", ""},
		{"another recipe", typesOf(t, recipeNamed(t, "Q4_K_S"), m, Options{}), "Q4_K_S", "claims 15 (Q4_K_M), the types are those of Q4_K_S"},
		{"the claimed recipe made pure", typesOf(t, recipeNamed(t, "Q4_K_M"), m, Options{Pure: true}), "Q4_K_M --pure", ""},
		{"with another embedding", typesOf(t, recipeNamed(t, "Q4_K_M"), m, Options{TokenEmbedding: typeOf(gguf.Q8_0)}), "Q4_K_M --token-embedding-type Q8_0", ""},
		{"three types more", mixed3(t, m), "Q4_K_M, with 3 other types", "claims 15 (Q4_K_M), but 3 tensors have other types"},
	} {
		t.Run(c.name, func(t *testing.T) {
			best, _ := Recognize(m, c.types, &claim, false)
			if best.String() != c.want || !strings.Contains(best.Claim(&claim), c.claim) || c.claim == "" != (best.Claim(&claim) == "") {
				t.Errorf("got %q and claim %q, want %q and %q", best, best.Claim(&claim), c.want, c.claim)
			}
		})
	}
	unknown := uint32(777)
	best, _ := Recognize(m, typesOf(t, recipeNamed(t, "IQ4_XS"), m, Options{}), &unknown, false)
	if want := "claims 777 (unknown), the types are those of IQ4_XS"; !strings.Contains(best.Claim(&unknown), want) {
		t.Errorf("got %q, want %q", best.Claim(&unknown), want)
	}
}

func typeOf(t gguf.Type) *gguf.Type { return &t }

func mixed3(t testing.TB, m Model) map[string]gguf.Type {
	t.Helper()
	o := Options{Overrides: []Override{{regexp.MustCompile(`blk\.(20|30|40)\.attn_q\.`), gguf.Q8_0}}}
	return typesOf(t, recipeNamed(t, "Q4_K_M"), m, o)
}

// TestOthersThatFit: where two recipes choose the same, the file's claim decides and the other is named too.
func TestOthersThatFit(t *testing.T) {
	m := shapeNamed(t, "llama-52-untied")
	types := typesOf(t, recipeNamed(t, "Q4_K_S"), m, Options{Pure: true})
	for _, name := range []string{"Q4_K_S", "Q4_K_M"} {
		claim := recipeNamed(t, name).FileType
		best, others := Recognize(m, types, &claim, false)
		if best.Recipe != name || !best.Options.Pure || len(others) == 0 {
			t.Errorf("got %s beside %v, want %s --pure beside the other", best, others, name)
		}
		for _, o := range others {
			if !o.Exact {
				t.Errorf("got %s beside an exact match", o)
			}
		}
	}
}

func TestModelOfRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		kvs  []gguf.KV
		want string
	}{
		{"no architecture", nil, "general.architecture: got none"},
		{"an architecture that is a number", []gguf.KV{{Key: "general.architecture", Value: gguf.Uint32(1)}}, "want the name"},
		{"no layers", []gguf.KV{{Key: "general.architecture", Value: gguf.String("llama")}}, "llama.block_count: got none"},
		{"layers that are a text", []gguf.KV{{Key: "general.architecture", Value: gguf.String("llama")}, {Key: "llama.block_count", Value: gguf.String("4")}}, "block_count: got \"4\""},
		{"negative heads", []gguf.KV{{Key: "general.architecture", Value: gguf.String("llama")}, {Key: "llama.block_count", Value: gguf.Uint32(4)}, {Key: "llama.attention.head_count", Value: gguf.Int32(-1)}}, "head_count: got -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ModelOf(header(t, c.kvs))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says: %s", err, c.want)
			}
		})
	}
}

func TestALayerBeyondTheModelIsRefusedInAMixtureOfExperts(t *testing.T) {
	m := shapeNamed(t, "llama-32-8experts")
	m.Layers = 8
	if _, err := recipeNamed(t, "Q4_K_M").Types(m, Options{}); err == nil || !strings.Contains(err.Error(), "got layer 8, want one of 0 to 7") {
		t.Errorf("got %v, want the layer named", err)
	}
}

func TestOverridesAreRead(t *testing.T) {
	if o, err := ParseOverride("ATTN_V=q6_k"); err != nil || o.Type != gguf.Q6_K || !o.Pattern.MatchString("blk.0.attn_v.weight") {
		t.Errorf("got %v, %v", o, err)
	}
	for _, bad := range []string{"", "attn_v", "=Q6_K", "attn_v=", "attn_v=Q9", "attn_(=Q6_K", "(?=x)=Q6_K"} {
		if _, err := ParseOverride(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestGroupsOfHeadsMayDifferByLayer: the first layer's heads count.
func TestGroupsOfHeadsMayDifferByLayer(t *testing.T) {
	m, err := ModelOf(header(t, []gguf.KV{
		{Key: "general.architecture", Value: gguf.String("deci")}, {Key: "deci.block_count", Value: gguf.Uint32(2)},
		{Key: "deci.attention.head_count", Value: gguf.Int32s([]int32{32, 16})}, {Key: "deci.attention.head_count_kv", Value: gguf.Int32s([]int32{8, 0})},
	}))
	if err != nil || m.grouping() != 4 {
		t.Errorf("got %d heads a group, %v; want 4", m.grouping(), err)
	}
}

func BenchmarkRecognize(b *testing.B) {
	m := shapeNamed(b, "llama-80-grouped8")
	types := typesOf(b, recipeNamed(b, "Q4_K_M"), m, Options{})
	for b.Loop() {
		Recognize(m, types, nil, false)
	}
}

func TestATypeThatTheFormatDoesNotHaveIsRefused(t *testing.T) {
	m := shapeNamed(t, "llama-16-tied-grouped4")
	for _, o := range []Options{{Output: typeOf(99)}, {TokenEmbedding: typeOf(99)}, {Overrides: []Override{{regexp.MustCompile("attn_v"), 99}}}} {
		if _, err := recipeNamed(t, "Q4_K_M").Types(m, o); err == nil || !strings.Contains(err.Error(), "unknown tensor type 99") {
			t.Errorf("%s: got %v, want the type named", o, err)
		}
	}
}
