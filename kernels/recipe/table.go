package recipe

import (
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// Recipe is one of the mixtures that llama-quantize offers.
type Recipe struct {
	Name     string
	FileType uint32    // what general.file_type says
	Default  gguf.Type // what a tensor gets where no rule says otherwise

	family family
	rules  rules
}

// family is how a recipe's rules are read.
type family int

const (
	usual  family = iota
	lowest        // below three bits: rules of their own for each part
	moe           // MXFP4_MOE: by the shape alone
	copied        // COPY: nothing changes
)

var recipes = []Recipe{
	{Name: "F32", FileType: 0, Default: gguf.F32},
	{Name: "F16", FileType: 1, Default: gguf.F16},
	{Name: "BF16", FileType: 32, Default: gguf.BF16},
	{Name: "Q8_0", FileType: 7, Default: gguf.Q8_0},
	{Name: "Q4_0", FileType: 2, Default: gguf.Q4_0, rules: rules{feedDown: {{all(matrix, firstOf(8)), gguf.Q4_1}}}},
	{Name: "Q4_1", FileType: 3, Default: gguf.Q4_1},
	{Name: "Q5_0", FileType: 8, Default: gguf.Q5_0, rules: rules{feedDown: {{all(matrix, firstOf(8)), gguf.Q5_1}}}},
	{Name: "Q5_1", FileType: 9, Default: gguf.Q5_1},
	{Name: "Q1_0", FileType: 40, Default: gguf.Q1_0},
	{Name: "Q2_0", FileType: 41, Default: gguf.Q2_0, rules: rules{tokenEmbedding: {{nil, gguf.Q4_K}}}},
	{Name: "TQ1_0", FileType: 36, Default: gguf.TQ1_0, rules: rules{tokenEmbedding: {{nil, gguf.Q4_K}}}},
	{Name: "TQ2_0", FileType: 37, Default: gguf.TQ2_0, rules: rules{tokenEmbedding: {{nil, gguf.Q4_K}}}},
	{Name: "MXFP4_MOE", FileType: 38, Default: gguf.MXFP4, family: moe},

	{Name: "Q2_K", FileType: 10, Default: gguf.Q2_K, rules: rules{
		attentionV:      {{grouped, gguf.Q4_K}, {nil, gguf.Q3_K}},
		attentionOutput: {{eight, gguf.Q5_K}, {plain, gguf.Q3_K}},
		feedDown:        {{nil, gguf.Q3_K}},
	}},
	{Name: "Q2_K_S", FileType: 21, Default: gguf.Q2_K, rules: rules{
		attentionV: {{grouped, gguf.Q4_K}},
		feedDown:   {{firstOf(8), gguf.Q4_K}},
	}},
	{Name: "Q3_K_S", FileType: 11, Default: gguf.Q3_K, rules: rules{
		attentionOutput: {{eight, gguf.Q5_K}},
	}},
	{Name: "Q3_K_M", FileType: 12, Default: gguf.Q3_K, rules: rules{
		attentionV:      {{first(2), gguf.Q5_K}, {nil, gguf.Q4_K}},
		attentionOutput: {{eight, gguf.Q5_K}, {plain, gguf.Q4_K}},
		feedDown:        {{firstOf(16), gguf.Q5_K}, {all(falcon, not(boosted)), gguf.Q3_K}, {nil, gguf.Q4_K}},
	}},
	{Name: "Q3_K_L", FileType: 13, Default: gguf.Q3_K, rules: rules{
		attentionV:      {{nil, gguf.Q5_K}},
		attentionOutput: {{falcon, gguf.Q4_K}, {plain, gguf.Q5_K}},
		feedDown:        {{falcon, gguf.Q4_K}, {nil, gguf.Q5_K}},
	}},
	{Name: "Q4_K_S", FileType: 14, Default: gguf.Q4_K, rules: rules{
		attentionV:      {{first(4), gguf.Q5_K}},
		attentionOutput: {{eight, gguf.Q5_K}},
		feedDown:        {{all(not(falcon), firstOf(8)), gguf.Q5_K}},
	}},
	{Name: "Q4_K_M", FileType: 15, Default: gguf.Q4_K, rules: rules{
		attentionV:      {{boosted, gguf.Q6_K}},
		attentionOutput: {{eight, gguf.Q5_K}},
		feedDown: {
			{all(falcon, firstOf(16)), gguf.Q6_K}, {all(falcon, boosted), gguf.Q5_K},
			{all(not(falcon), boosted), gguf.Q6_K},
		},
	}},
	{Name: "Q5_K_S", FileType: 16, Default: gguf.Q5_K},
	{Name: "Q5_K_M", FileType: 17, Default: gguf.Q5_K, rules: rules{
		attentionV: {{boosted, gguf.Q6_K}},
		feedDown:   {{boosted, gguf.Q6_K}},
	}},
	{Name: "Q6_K", FileType: 18, Default: gguf.Q6_K},

	{Name: "IQ1_S", FileType: 24, Default: gguf.IQ1_S, family: lowest, rules: lowestRules(gguf.Q2_K, gguf.Q2_K, gguf.IQ2_XXS)},
	{Name: "IQ1_M", FileType: 31, Default: gguf.IQ1_M, family: lowest, rules: lowestRules(gguf.Q2_K, gguf.Q2_K, gguf.IQ2_XXS)},
	{Name: "IQ2_XXS", FileType: 19, Default: gguf.IQ2_XXS, family: lowest, rules: lowestRules(gguf.Q2_K, gguf.Q2_K, gguf.IQ2_XXS)},
	{Name: "IQ2_XS", FileType: 20, Default: gguf.IQ2_XS, family: lowest, rules: lowestRules(gguf.Q2_K, gguf.Q2_K, gguf.IQ2_XS)},
	{Name: "IQ2_S", FileType: 28, Default: gguf.IQ2_XS, family: lowest, rules: lowestRules(gguf.IQ3_S, gguf.IQ3_S, gguf.IQ3_S)},
	{Name: "IQ2_M", FileType: 29, Default: gguf.IQ2_S, family: lowest, rules: lowestRules(gguf.IQ3_S, gguf.IQ3_S, gguf.IQ3_S)},

	{Name: "IQ3_XXS", FileType: 23, Default: gguf.IQ3_XXS, rules: rules{
		output:          {{nil, gguf.Q5_K}},
		tokenEmbedding:  {{nil, gguf.IQ3_S}},
		attentionV:      {{grouped, gguf.Q4_K}, {not(matrix), gguf.IQ3_S}, {nil, gguf.IQ3_XXS}},
		attentionK:      {{nil, gguf.IQ2_S}},
		attentionQ:      {{nil, gguf.IQ2_S}},
		attentionOutput: {{eight, gguf.Q5_K}, {plain, gguf.IQ3_S}},
		feedDown:        {{all(not(matrix), firstOf(8)), gguf.Q4_K}, {not(matrix), gguf.Q3_K}},
	}},
	{Name: "IQ3_XS", FileType: 22, Default: gguf.IQ3_S, rules: rules{
		attentionV:      {{grouped, gguf.Q4_K}},
		attentionK:      {{nil, gguf.IQ3_XXS}},
		attentionQ:      {{nil, gguf.IQ3_XXS}},
		attentionOutput: {{eight, gguf.Q5_K}},
		feedGate:        {{middle, gguf.IQ3_XXS}},
		feedUp:          {{middle, gguf.IQ3_XXS}},
	}},
	{Name: "IQ3_S", FileType: 26, Default: gguf.IQ3_S, rules: rules{
		attentionV:      {{grouped, gguf.Q4_K}},
		attentionOutput: {{eight, gguf.Q5_K}},
	}},
	{Name: "IQ3_M", FileType: 27, Default: gguf.IQ3_S, rules: rules{
		attentionV:      {{nil, gguf.Q4_K}},
		attentionOutput: {{eight, gguf.Q5_K}, {plain, gguf.Q4_K}},
		feedDown:        {{firstOf(8), gguf.Q4_K}, {all(experts, boosted), gguf.Q4_K}},
	}},
	{Name: "IQ4_NL", FileType: 25, Default: gguf.IQ4_NL, rules: fourBits},
	{Name: "IQ4_XS", FileType: 30, Default: gguf.IQ4_XS, rules: fourBits},

	{Name: "COPY", family: copied},
}

var fourBits = rules{
	attentionV:      {{grouped, gguf.Q5_K}},
	attentionOutput: {{eight, gguf.Q5_K}},
	feedDown:        {{all(not(matrix), firstOf(8)), gguf.Q5_K}},
}

// lowestRules are those below three bits: the type of the embedding and the
// better one, of attention values and the first eighth of ffn_down, and that of
// the attention's output.
func lowestRules(embedding, better, attention gguf.Type) rules {
	manyExperts := func(p place) bool { return p.model.Experts >= 4 }
	return rules{
		output:          {{nil, gguf.Q5_K}},
		tokenEmbedding:  {{nil, embedding}},
		attentionV:      {{grouped, gguf.Q4_K}, {manyExperts, gguf.Q4_K}, {nil, better}},
		attentionK:      {{experts, gguf.Q4_K}},
		attentionOutput: {{experts, gguf.Q5_K}, {nil, attention}},
		feedDown:        {{firstOf(8), better}},
	}
}

// aliases of llama-quantize's command line.
var aliases = map[string]string{"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}

// Recipes lists every recipe that llama-quantize offers, each once.
func Recipes() []Recipe { return append([]Recipe(nil), recipes...) }

// Find finds a recipe by its name or an alias, in any case of letters.
func Find(name string) (Recipe, bool) {
	name = strings.ToUpper(name)
	if full, ok := aliases[name]; ok {
		name = full
	}
	for _, r := range recipes {
		if r.Name == name {
			return r, true
		}
	}
	return Recipe{}, false
}

// otherFileTypes are values of general.file_type that no recipe of the tool has now.
var otherFileTypes = map[uint32]string{4: "Q4_1_SOME_F16", 5: "Q4_2", 6: "Q4_3", 33: "Q4_0_4_4", 34: "Q4_0_4_8", 35: "Q4_0_8_8", 39: "NVFP4"}

// FileTypeName names a value of general.file_type as llama.cpp does, without
// its prefix; unknown ones are given as false.
func FileTypeName(fileType uint32) (string, bool) {
	for _, r := range recipes {
		if r.FileType == fileType && r.family != copied {
			return r.Name, true
		}
	}
	name, ok := otherFileTypes[fileType]
	return name, ok
}

// Copies tells whether the recipe changes no type: COPY.
func (r Recipe) Copies() bool { return r.family == copied }
