package recipe

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// Override is one --tensor-type: tensors whose name holds a match of the pattern get the type.
type Override struct {
	Pattern *regexp.Regexp
	Type    gguf.Type
}

// Options are the command-line options that change types.
type Options struct {
	Pure           bool       // --pure: every tensor gets the default
	Matrix         bool       // --imatrix: an importance matrix is given
	Output         *gguf.Type // --output-tensor-type
	TokenEmbedding *gguf.Type // --token-embedding-type
	Overrides      []Override // --tensor-type, the first that fits counts
	LeaveOutput    bool       // --leave-output-tensor
}

// String gives the options as they are typed, "" for none.
func (o Options) String() string {
	var s []string
	if o.Pure {
		s = append(s, "--pure")
	}
	if o.LeaveOutput {
		s = append(s, "--leave-output-tensor")
	}
	if o.Output != nil {
		s = append(s, "--output-tensor-type "+o.Output.String())
	}
	if o.TokenEmbedding != nil {
		s = append(s, "--token-embedding-type "+o.TokenEmbedding.String())
	}
	for _, v := range o.Overrides {
		s = append(s, fmt.Sprintf("--tensor-type %s=%s", v.Pattern, v.Type))
	}
	if o.Matrix {
		s = append(s, "--imatrix …")
	}
	return strings.Join(s, " ")
}

// ParseOverride reads PATTERN=TYPE as --tensor-type takes it: the pattern counts in small
// letters. Patterns are regular expressions; the tool's own dialect (ECMAScript)
// has lookaheads and back references, which are refused here.
func ParseOverride(s string) (Override, error) {
	name, typ, ok := strings.Cut(s, "=")
	t, known := gguf.ParseType(strings.ToUpper(typ))
	if !ok || name == "" || !known {
		return Override{}, fmt.Errorf("tensor type override: got %q, want PATTERN=TYPE, as in attn_v=Q6_K", s)
	}
	p, err := regexp.Compile(strings.ToLower(name))
	if err != nil {
		return Override{}, fmt.Errorf("tensor type override %q: %w", s, err)
	}
	return Override{p, t}, nil
}

// prepared is a model with what its names say, which all recipes share.
type prepared struct {
	m       *Model
	parts   []category
	allowed []bool
	tied    bool // no output of its own
	values  int  // tensors of attention values
}

func prepare(m *Model) *prepared {
	p := &prepared{m: m, parts: make([]category, len(m.Tensors)), allowed: make([]bool, len(m.Tensors)), tied: true}
	for i, t := range m.Tensors {
		p.parts[i] = categoryOf(t.Name)
		p.allowed[i] = Allows(m.Architecture, t.Name, t.Dims)
		switch p.parts[i] {
		case attentionV:
			p.values++
		case output:
			p.tied = false
		}
	}
	return p
}

// state counts tensors of a part on the way through a model.
type state struct {
	*prepared
	r    Recipe
	o    Options
	seen [feedDown + 1]int
}

// Types gives the type of every tensor of the model under the recipe. Tensors are
// counted in the model's order, which is llama-quantize's. The error names a
// tensor that llama-quantize cannot quantize so.
func (r Recipe) Types(m Model, o Options) (map[string]gguf.Type, error) {
	list, err := r.list(prepare(&m), o)
	if err != nil {
		return nil, err
	}
	types := make(map[string]gguf.Type, len(list))
	for i, t := range m.Tensors {
		types[t.Name] = list[i]
	}
	return types, nil
}

// list gives the types in the model's order.
func (r Recipe) list(p *prepared, o Options) ([]gguf.Type, error) {
	s := &state{prepared: p, r: r, o: o}
	types := make([]gguf.Type, len(p.m.Tensors))
	for i, t := range p.m.Tensors {
		to, err := s.typeOf(t, p.parts[i], p.allowed[i])
		if err != nil {
			return nil, err
		}
		types[i] = to
	}
	return types, nil
}

// typeOf follows the tool: options that name the tensor, then overrides and rules, then what fits the shape.
func (s *state) typeOf(t Tensor, part category, allowed bool) (gguf.Type, error) {
	if s.r.family == copied || !allowed || part == output && s.o.LeaveOutput {
		return t.Type, nil
	}
	override, overridden := s.override(t.Name)
	switch {
	case part == tokenEmbedding && s.o.TokenEmbedding != nil && !(overridden && t.Name == "per_layer_token_embd.weight"):
		return fits(t, *s.o.TokenEmbedding)
	case part == output && s.o.Output != nil:
		return fits(t, *s.o.Output)
	case !s.r.Default.Quantized():
		return s.r.Default, nil
	case overridden:
		return fallback(t, override)
	case s.o.Pure:
		return fallback(t, s.r.Default)
	}
	to, err := s.choose(t, part)
	if err != nil {
		return 0, err
	}
	return fallback(t, to)
}

func (s *state) override(name string) (gguf.Type, bool) {
	for _, o := range s.o.Overrides {
		if o.Pattern.MatchString(name) {
			return o.Type, true
		}
	}
	return 0, false
}

// choose applies the recipe's rules.
func (s *state) choose(t Tensor, part category) (gguf.Type, error) {
	if s.m.Architecture == "glm5-next" && holdsAny(t.Name, []string{"attn_q_a", "attn_q_b", "nextn.eh_proj"}) {
		return gguf.Q8_0, nil // this architecture's latent queries suffer below eight bits
	}
	switch {
	case part == output || part == tokenEmbedding && s.tied:
		return s.chooseOutput(t), nil
	case s.r.family == moe:
		expert := s.m.Architecture != "bailingmoe3" || part == feedUp || part == feedGate || part == feedDown
		if len(t.Dims) > 2 && t.Dims[2] > 1 && expert {
			return gguf.MXFP4, nil
		}
		return gguf.Q8_0, nil
	}
	p, err := s.place(t.Name, part)
	if err != nil {
		return 0, err
	}
	to, chosen := s.r.choice(part, p)
	if !chosen {
		to = s.r.Default
	}
	if s.r.family == usual {
		to = s.adjust(part, to)
	}
	return to, nil
}

// chooseOutput is for the output matrix, or the embedding that serves as such.
func (s *state) chooseOutput(t Tensor) gguf.Type {
	block, _, _ := s.r.Default.Block()
	switch {
	case s.o.Output != nil:
		return *s.o.Output
	case s.r.family == moe, s.m.Architecture == "falcon", t.Dims[0]%block != 0, s.r.Default == gguf.Q8_0:
		return gguf.Q8_0
	}
	if to, ok := s.r.choice(output, place{model: s.m}); ok {
		return to
	}
	return gguf.Q6_K
}

// adjust is what all recipes from three bits up do to attention: one step up
// for values shared by the many heads of a 70B model, and eight bits where eight experts dwarf it.
func (s *state) adjust(part category, to gguf.Type) gguf.Type {
	switch {
	case (part == attentionV || part == attentionK) && s.m.Experts == 8:
		return gguf.Q8_0
	case part == attentionV && s.m.large() && (to == gguf.Q3_K || to == gguf.Q4_K):
		return gguf.Q5_K
	}
	return to
}

func (r Recipe) choice(part category, p place) (gguf.Type, bool) {
	for _, c := range r.rules[part] {
		if c.when == nil || c.when(p) {
			return c.to, true
		}
	}
	return 0, false
}

// place counts the tensor among its kind.
func (s *state) place(name string, part category) (place, error) {
	p := place{model: s.m, matrix: s.o.Matrix, index: s.seen[part], of: s.m.Layers}
	s.seen[part]++
	switch part {
	case attentionV:
		p.of = s.values
	case feedUp, feedGate, feedDown:
		if s.m.Experts <= 1 || s.r.family == lowest {
			break
		}
		// The experts' tensors are several to a layer in old files, so names count.
		if p.index = layer(name); p.index < 0 || p.index >= s.m.Layers {
			return p, fmt.Errorf("tensor %s: got layer %d, want one of 0 to %d: llama-quantize refuses such a name in a mixture of experts", name, p.index, s.m.Layers-1)
		}
	}
	return p, nil
}

// fallbacks are what a row that the block does not divide gets.
var fallbacks = map[gguf.Type]gguf.Type{
	gguf.IQ1_S: gguf.IQ4_NL, gguf.IQ1_M: gguf.IQ4_NL, gguf.IQ2_XXS: gguf.IQ4_NL, gguf.IQ2_XS: gguf.IQ4_NL,
	gguf.IQ2_S: gguf.IQ4_NL, gguf.IQ3_XXS: gguf.IQ4_NL, gguf.IQ3_S: gguf.IQ4_NL, gguf.IQ4_XS: gguf.IQ4_NL,
	gguf.Q2_0: gguf.Q4_0, gguf.Q2_K: gguf.Q4_0, gguf.Q3_K: gguf.Q4_0, gguf.TQ1_0: gguf.Q4_0, gguf.TQ2_0: gguf.Q4_0,
	gguf.Q4_K: gguf.Q5_0, gguf.Q5_K: gguf.Q5_1, gguf.Q6_K: gguf.Q8_0,
}

func fallback(t Tensor, to gguf.Type) (gguf.Type, error) {
	block, _, known := to.Block()
	switch {
	case !known:
		return 0, fmt.Errorf("tensor %s: got %s, want a type of the format", t.Name, to)
	case t.Dims[0]%block == 0:
		return to, nil
	}
	next, ok := fallbacks[to]
	if !ok && block > 32 {
		return 0, fmt.Errorf("tensor %s: got rows of %d weights, want a multiple of %d, the block of %s: llama-quantize knows no other type for it", t.Name, t.Dims[0], block, to)
	}
	if !ok {
		next = to
	}
	if block, _, _ = next.Block(); t.Dims[0]%block != 0 {
		return gguf.F16, nil
	}
	return next, nil
}

// fits refuses a type that is forced on rows that its block does not divide.
func fits(t Tensor, to gguf.Type) (gguf.Type, error) {
	if block, _, known := to.Block(); !known || t.Dims[0]%block != 0 {
		return 0, fmt.Errorf("tensor %s: got rows of %d weights, want a multiple of the block of %s: llama-quantize gives up here", t.Name, t.Dims[0], to)
	}
	return to, nil
}

// NeedsMatrix tells whether llama-quantize refuses to give a tensor this type
// without an importance matrix.
func (r Recipe) NeedsMatrix(name string, to gguf.Type) bool {
	if c := categoryOf(name); c == output || c == tokenEmbedding {
		return false
	}
	switch to {
	case gguf.IQ3_XXS, gguf.IQ2_XXS, gguf.IQ2_XS, gguf.IQ2_S, gguf.IQ1_M, gguf.IQ1_S:
		return true
	case gguf.Q2_K:
		return r.Name == "Q2_K_S"
	}
	return false
}
