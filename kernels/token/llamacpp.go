package token

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
)

// llamacppPre is what llama.cpp does for one value of tokenizer.ggml.pre.
type llamacppPre struct {
	splits       func() []pattern // each cuts what the one before left
	ignoreMerges bool
	addBOS       bool // where the file does not say
}

// Expressions of llama.cpp, in whose syntax case is written out.
const (
	spelledOut = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	gpt2Split  = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|` + whiteSpace
	llamaSplit = spelledOut + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|` + whiteSpace
	qwenSplit  = spelledOut + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|` + whiteSpace
	qwen35     = spelledOut + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|` + whiteSpace
)

func splits(expressions ...string) func() []pattern {
	return sync.OnceValue(func() []pattern {
		var all []pattern
		for _, e := range expressions {
			all = append(all, mustCompile(e))
		}
		return all
	})
}

// llamacppPres are the values of tokenizer.ggml.pre that are read here: those of
// which a vocabulary with the ids of its publisher's tokenizer is at hand, and
// those that llama.cpp treats alike. Origin: llama.cpp (MIT), src/llama-vocab.cpp, October 2026.
var llamacppPres = func() map[string]llamacppPre {
	gpt2, digits, llama, qwen := splits(gpt2Split), splits(`\p{N}`, gpt2Split), splits(llamaSplit), splits(qwenSplit)
	all := map[string]llamacppPre{
		"falcon":         {splits: splits(`[\p{P}\$\+<=>\^~\|`+"`"+`]+`, gpt2Split, `[0-9][0-9][0-9]`)},
		"deepseek-coder": {splits: splits(`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}`)},
		"qwen35":         {splits: splits(qwen35)},
	}
	for _, group := range []struct {
		names string
		pre   llamacppPre
	}{
		{"gpt-2 phi-2 gigachat a.x-4.0 mellum exaone4 mpt olmo jais trillion granite-docling", llamacppPre{splits: gpt2}},
		{"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", llamacppPre{splits: digits}},
		{"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2", llamacppPre{splits: llama, ignoreMerges: true, addBOS: true}},
		{"dbrx smaug-bpe chatglm-bpe", llamacppPre{splits: llama}},
		{"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2", llamacppPre{splits: qwen}},
	} {
		for _, name := range strings.Fields(group.names) {
			all[name] = group.pre
		}
	}
	return all
}()

// PreTokenizers lists the values of tokenizer.ggml.pre that [FromGGUF] reads.
func PreTokenizers() []string { return slices.Sorted(maps.Keys(llamacppPres)) }

// words cuts a text as llama.cpp does and writes its bytes as characters.
func (p llamacppPre) words(text string) []piece {
	pieces := []piece{{text: text}}
	for _, at := range p.splits() {
		var next []piece
		for _, whole := range pieces {
			next = append(next, cut(whole, at, behaviours["Isolated"], false)...)
		}
		pieces = next
	}
	for i := range pieces {
		pieces[i].text = toByteChars(pieces[i].text)
	}
	return pieces
}

// noToken stands for a byte that has no token. llama.cpp gives it no id, but
// joins nothing across it.
const noToken = math.MaxUint32

// byteLevelModel makes the model of a GGUF's tokens and merges ("a b").
func byteLevelModel(tokens, merges []string, pre llamacppPre) (*bpe, error) {
	m := &bpe{ids: make(map[string]uint32, len(tokens)), merges: make(map[[2]uint32]merge, len(merges)), unknown: noToken, ignoreMerges: pre.ignoreMerges}
	for id, text := range tokens {
		if other, twice := m.ids[text]; twice {
			return nil, fmt.Errorf("tokenizer.ggml.tokens: id %d: got the token %q, which id %d is already", id, text, other)
		}
		m.ids[text] = uint32(id)
	}
	for rank, text := range merges {
		left, right, ok := strings.Cut(text, " ")
		if !ok || strings.Contains(right, " ") {
			return nil, fmt.Errorf("tokenizer.ggml.merges: entry %d: got %q, want two tokens with a space between", rank, text)
		}
		a, okA := m.ids[left]
		b, okB := m.ids[right]
		to, okTo := m.ids[left+right]
		if !okA || !okB || !okTo {
			return nil, fmt.Errorf("tokenizer.ggml.merges: entry %d: got %q, want two tokens that make a third", rank, text)
		}
		if _, twice := m.merges[[2]uint32{a, b}]; twice {
			return nil, fmt.Errorf("tokenizer.ggml.merges: entry %d: got %q twice, want it once", rank, text)
		}
		m.merges[[2]uint32{a, b}] = merge{uint32(rank), to}
	}
	return m, nil
}
