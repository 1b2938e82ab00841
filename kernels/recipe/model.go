package recipe

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// Tensor is one tensor of a model.
type Tensor struct {
	Name string
	Dims []uint64  // ggml order, fastest first
	Type gguf.Type // as stored in this file; what a recipe leaves alone keeps it
}

// Model is what a recipe looks at.
type Model struct {
	Architecture string // general.architecture
	Layers       int    // block_count, extra prediction layers included
	Predicting   int    // nextn_predict_layers: those of them that predict further tokens
	Heads        int    // query heads of the first layer, 0 where not stated
	KVHeads      int    // key-value heads of the first layer
	Experts      int    // 0 for a dense model
	Tensors      []Tensor
}

// ModelOf reads a model off a GGUF's header. Its tensors come in the order of
// llama-quantize: see [Less].
func ModelOf(f *gguf.File) (Model, error) {
	arch, ok := f.KV("general.architecture")
	name, isText := arch.Text()
	if !ok || !isText || name == "" {
		return Model{}, fmt.Errorf("recipe: key general.architecture: got %s, want the name of an architecture: recipes depend on it", stated(arch, ok))
	}
	m := Model{Architecture: name}
	for _, k := range []struct {
		key string
		to  *int
	}{
		{"block_count", &m.Layers}, {"nextn_predict_layers", &m.Predicting}, {"expert_count", &m.Experts},
		{"attention.head_count", &m.Heads}, {"attention.head_count_kv", &m.KVHeads},
	} {
		n, found, err := number(f, name+"."+k.key)
		if err != nil {
			return Model{}, err
		}
		if !found && k.to == &m.KVHeads {
			n = m.Heads
		}
		*k.to = n
	}
	if m.Layers == 0 && name != "clip" { // which has no layers that llama-quantize knows
		return Model{}, fmt.Errorf("recipe: key %s.block_count: got none, want the number of layers: recipes depend on it", name)
	}
	for _, t := range f.Tensors {
		m.Tensors = append(m.Tensors, Tensor{Name: t.Name, Dims: t.Dims, Type: t.Type})
	}
	sort.SliceStable(m.Tensors, func(i, j int) bool { return Less(m.Tensors[i].Name, m.Tensors[j].Name) })
	return m, nil
}

// number is an integer key, or the first element of an array with one for each layer.
func number(f *gguf.File, key string) (n int, found bool, err error) {
	v, ok := f.KV(key)
	if !ok {
		return 0, false, nil
	}
	x, isInt := v.Int()
	if all := v.Ints(); len(all) > 0 {
		x, isInt = all[0], true
	}
	if !isInt || x < 0 || x > math.MaxInt32 {
		return 0, false, fmt.Errorf("recipe: key %s: got %s, want a number from 0 to 2^31-1", key, v)
	}
	return int(x), true, nil
}

func stated(v gguf.Value, ok bool) string {
	if !ok {
		return "none"
	}
	return v.String()
}

// grouping is how many query heads share a key-value head, rounded down.
func (m Model) grouping() int {
	if m.KVHeads == 0 {
		return 0
	}
	return m.Heads / m.KVHeads
}

// large tells whether llama.cpp sees a model of 70 billion weights, by layers
// and, for Llama, grouped heads.
func (m Model) large() bool {
	layers := m.Layers - m.Predicting
	switch m.Architecture {
	case "llama", "llama-embed":
		return layers == 80 && m.Heads != m.KVHeads && m.Experts != 8
	case "deci", "olmo", "qwen2":
		return layers == 80
	case "jais2":
		return layers == 68
	}
	return false
}

// Less is llama-quantize's order of tensors: those outside the layers first, then
// layer by layer, each in byte order of the names.
func Less(a, b string) bool {
	if la, lb := layer(a), layer(b); la != lb {
		return la < lb
	}
	return a < b
}

// layer is the number after blk., -1 for tensors outside the layers.
func layer(name string) int {
	rest, ok := strings.CutPrefix(name, "blk.")
	digits := rest
	if end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = rest[:end]
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil {
		return -1
	}
	return int(n)
}
