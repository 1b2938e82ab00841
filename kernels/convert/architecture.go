package convert

import (
	"fmt"
	"strings"
)

// Architecture is all that the conversion knows of one kind of checkpoint. It is
// data: the packages that convert and that prove read it alike.
type Architecture struct {
	HF         string   // the one entry of config.json's architectures
	GGUF       string   // general.architecture, and what its keys begin with
	Activation string   // the feed-forward's; GGUF has no key for another
	Scaling    []string // the kinds of RoPE scaling that reach its GGUF
	Mappings   []Mapping
	// Parts are what the names of tensors begin with that belong to other parts of
	// the model than the language model; they do not reach this GGUF. Where there
	// are some, config.json has the language model's fields in text_config, and
	// "language_model." may stand in its tensors' names.
	Parts []string
	// Keys are the hyper-parameters in the converter's order, without "GGUF.";
	// Early ones stand before general.type. See [Config.hyper].
	Early, Keys []string
	// Unstated is what Hugging Face transformers 4.57.6, through which the
	// converter reads config.json, takes for a field that is not there.
	Unstated map[string]any
	// HeadDimStated tells that transformers adds head_dim to a config without one.
	HeadDimStated bool
}

// Architectures lists every kind of checkpoint that is converted.
func Architectures() []*Architecture { return architectures }

var architectures = []*Architecture{&llama, &mistral, &mixtral, &qwen2, &qwen3, &qwen3MoE, &gemma2, &gemma3, &gemma3Vision, &phi3}

// UnknownArchitectureError tells that a checkpoint is of a kind without a
// mapping. What needs none (structure, digests, content) can still be compared.
type UnknownArchitectureError struct {
	Name string // as config.json has it
}

func (e *UnknownArchitectureError) Error() string {
	names := make([]string, len(architectures))
	for i, a := range architectures {
		names[i] = a.HF
	}
	return fmt.Sprintf("config.json: architectures: got %.80q, which has no mapping to GGUF here; want one of %s", e.Name, strings.Join(names, ", "))
}

func architectureOf(name string) (*Architecture, error) {
	for _, a := range architectures {
		if a.HF == name {
			return a, nil
		}
	}
	return nil, &UnknownArchitectureError{Name: name}
}

// Find finds the mapping of a checkpoint's tensor name, with its numbers of layer and expert, -1 where it has none.
func (a *Architecture) Find(name string) (m *Mapping, layer, expert int64, ok bool) {
	pattern, layer, expert := splitName(name)
	for i := range a.Mappings {
		if m := &a.Mappings[i]; m.HF == pattern && m.layered() == (layer >= 0) && m.Stacks() == (expert >= 0) {
			return &a.Mappings[i], layer, expert, true
		}
	}
	return nil, -1, -1, false
}

// plainName is a tensor's name as the table has it; ok is false for other parts of the model.
func (a *Architecture) plainName(name string) (plain string, ok bool) {
	for _, part := range a.Parts {
		if strings.HasPrefix(name, part) {
			return "", false
		}
	}
	if len(a.Parts) > 0 {
		name = strings.Replace(name, "language_model.", "", 1)
	}
	return name, true
}

// stacked tells whether the architecture has experts.
func (a *Architecture) stacked() bool {
	for i := range a.Mappings {
		if a.Mappings[i].Stacks() {
			return true
		}
	}
	return false
}
