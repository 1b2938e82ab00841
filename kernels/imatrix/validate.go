package imatrix

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/recipe"
)

// The checks that findings name.
const (
	CheckFormat    = "importance matrix format"
	CheckRead      = "importance matrix cannot be read"
	CheckFinite    = "sums that are no numbers"
	CheckNegative  = "negative sums"
	CheckZeros     = "zeros throughout a block"
	CheckCounts    = "counts"
	CheckDisagree  = "counts disagree"
	CheckChunks    = "chunk count"
	CheckExperts   = "experts without data"
	CheckMissing   = "weight missing in the matrix"
	CheckForeign   = "weight that the model does not have"
	CheckOtherSize = "size that is not the model's"
)

// unusable are the checks after which no search with the numbers says anything about what was made.
var unusable = map[string]bool{CheckRead: true, CheckFinite: true, CheckNegative: true, CheckZeros: true, CheckCounts: true, CheckOtherSize: true}

// Unusable tells that a finding of [Matrix.Validate] speaks against any use of the matrix: searches with its
// numbers would make honest scales look wrong. Other faults (a wrong chunk count, experts or
// tensors without data) leave the rest of the numbers as they are.
func Unusable(f kernels.Finding) bool { return unusable[f.Check] }

// ZeroBlock is the number of columns, aligned, that may not all be zero: the
// smallest sub-block whose scale is searched with these weights. A search whose
// weights are all zero divides by zero; single dead columns are real.
const ZeroBlock = 16

// Validate judges the numbers and, where tensors is not nil, whether the matrix
// belongs to a model with these tensors: every matrix that llama-quantize would
// quantize within a layer has an entry of its size, and every entry a tensor.
// (token_embd and output have none unless asked for.) An empty result means
// that llama-quantize can use the matrix as it was meant to.
func (m *Matrix) Validate(tensors []gguf.TensorInfo) []kernels.Finding {
	found, _ := m.judge(tensors)
	return found
}

// judge also counts the sums that are NaN, infinite or negative.
func (m *Matrix) judge(tensors []gguf.TensorInfo) (found []kernels.Finding, bad int64) {
	shapes := map[string]gguf.TensorInfo{}
	for _, t := range tensors {
		shapes[t.Name] = t
	}
	for _, e := range m.Entries {
		t, known := shapes[e.Name]
		experts := e.Experts
		if tensors != nil {
			if f, ok := belongs(e, t, known); !ok {
				found = append(found, f)
			} else if n := int64(expertsOf(t)); m.Form == FormDat && e.Values()%n == 0 {
				experts = n
			}
		}
		of, n := m.checkNumbers(e, experts)
		found = append(found, of...)
		bad += n
	}
	found = append(found, m.checkCounts()...)
	return append(found, m.missing(tensors)...), bad
}

// belongs compares an entry's size with the model's.
func belongs(e Entry, t gguf.TensorInfo, known bool) (kernels.Finding, bool) {
	if !known {
		return kernels.Finding{Check: CheckForeign, Where: e.Name, Got: "an entry", Want: "none: the model has no such weight", Hint: "this is another model's matrix"}, false
	}
	columns, experts := int64(1), int64(expertsOf(t))
	if len(t.Dims) > 0 {
		columns = int64(t.Dims[0])
	}
	want := fmt.Sprintf("%d columns × %d experts", columns, experts)
	if e.Values() != columns*experts || e.Experts > 1 && e.Experts != experts {
		return kernels.Finding{Check: CheckOtherSize, Where: e.Name, Got: fmt.Sprintf("%d numbers, %d counts", e.Values(), e.Experts), Want: want, Hint: "this is another model's matrix"}, false
	}
	return kernels.Finding{}, true
}

// expertsOf is the third dimension.
func expertsOf(t gguf.TensorInfo) uint64 {
	if len(t.Dims) < 3 {
		return 1
	}
	return max(1, t.Dims[2])
}

// tally counts what is wrong with an entry's numbers.
type tally struct {
	nonFinite, negative, zeros, zeroBlocks, blocks int64
	run                                            int64 // zeros at the end of the current block so far
	absent                                         int64 // experts whose weights are all 1: never used
	ones                                           int64 // in the current expert
}

// checkNumbers reads an entry's sums once. experts may be known from the model only.
func (m *Matrix) checkNumbers(e Entry, experts int64) (found []kernels.Finding, bad int64) {
	var n tally
	width := e.Values() / experts
	col := int64(0)
	err := m.sums(e, func(expert int64, sums []float32) error {
		if m.Form == FormGGUF && e.Counts[expert] == 0 {
			col += int64(len(sums))
			return nil // the numbers are not used
		}
		for _, s := range sums {
			n.add(s, s == e.Counts[expert], col%width, width)
			col++
		}
		return nil
	})
	if err != nil {
		return []kernels.Finding{{Check: CheckRead, Where: e.Name, Got: err.Error(), Want: "its numbers"}}, 0
	}
	absent := int64(0)
	if m.Form == FormDat && experts > 1 {
		absent = n.absent
	}
	for _, c := range e.Counts {
		if m.Form == FormGGUF && e.Experts > 1 && c == 0 {
			absent++
		}
	}
	return n.findings(e, absent, experts), n.nonFinite + n.negative
}

func (n *tally) add(s float32, unit bool, column, width int64) {
	if column == 0 {
		n.ones = 0
	}
	switch {
	case math.IsNaN(float64(s)) || math.IsInf(float64(s), 0):
		n.nonFinite++
	case s < 0:
		n.negative++
	case s == 0:
		n.zeros++
		n.run++
	}
	if unit {
		n.ones++
	}
	if column%ZeroBlock == ZeroBlock-1 || column == width-1 {
		n.blocks++
		if n.run == column%ZeroBlock+1 {
			n.zeroBlocks++
		}
		n.run = 0
	}
	if column == width-1 && n.ones == width {
		n.absent++
	}
}

func (n *tally) findings(e Entry, absent, experts int64) []kernels.Finding {
	var found []kernels.Finding
	add := func(check, got, want, hint string) {
		found = append(found, kernels.Finding{Check: check, Where: e.Name, Got: got, Want: want, Hint: hint})
	}
	total := e.Values()
	if n.nonFinite > 0 {
		add(CheckFinite, fmt.Sprintf("%d of %d sums are NaN or infinite", n.nonFinite, total), "finite sums of squares", "make the matrix again, from a model that computes finite activations")
	}
	if n.negative > 0 {
		add(CheckNegative, fmt.Sprintf("%d of %d sums are below zero", n.negative, total), "sums of squares", "the file is damaged")
	}
	if n.zeroBlocks > 0 {
		add(CheckZeros, fmt.Sprintf("%d of %d blocks of %d columns are zero throughout (%d zeros in %d sums)", n.zeroBlocks, n.blocks, ZeroBlock, n.zeros, total),
			"a column with weight in each block", "quantizers divide by a block's weight; make the matrix again, with more text")
	}
	if absent > 0 {
		add(CheckExperts, fmt.Sprintf("%d of %d experts have no data", absent, experts), "data for each expert", "the text never reached them; they would be quantized as if without a matrix")
	}
	return found
}

// checkCounts compares the counts with each other and with the chunks.
func (m *Matrix) checkCounts() []kernels.Finding {
	var found []kernels.Finding
	most := float32(0) // of plain matrices
	highest := float32(0)
	for _, e := range m.Entries {
		bad := 0
		for _, c := range e.Counts {
			if !(c >= 0) || float64(c) != math.Round(float64(c)) || math.IsInf(float64(c), 0) {
				bad++
				continue
			}
			highest = max(highest, c)
			if !e.routed() {
				most = max(most, c)
			}
		}
		if bad > 0 {
			found = append(found, kernels.Finding{Check: CheckCounts, Where: e.Name, Got: fmt.Sprintf("%d of %d counts are no whole numbers of activations", bad, len(e.Counts)), Want: "whole numbers from 0"})
		}
	}
	if len(found) > 0 {
		return found
	}
	found = append(found, m.disagreeing(most)...)
	return append(found, m.checkChunks(highest)...)
}

// routed tells whether only some tokens reach the weight: experts.
func (e Entry) routed() bool { return e.Experts > 1 || strings.Contains(e.Name, "_exps.") }

// disagreeing names entries that saw fewer activations than others: every token
// passes every plain matrix, and as many experts in each layer.
func (m *Matrix) disagreeing(most float32) []kernels.Finding {
	var found []kernels.Finding
	for _, e := range m.Entries {
		total := 0.0
		for i, c := range e.Counts {
			total += float64(c)
			if e.routed() && most > 0 && c > most {
				found = append(found, kernels.Finding{Check: CheckDisagree, Where: e.Name, Got: fmt.Sprintf("%.0f activations of expert %d", c, i), Want: fmt.Sprintf("at most %.0f, the activations of the plain matrices", most)})
				break
			}
		}
		switch {
		case !e.routed() && e.Counts[0] == 0:
			found = append(found, kernels.Finding{Check: CheckCounts, Where: e.Name, Got: "no activations", Want: "at least one", Hint: "the entry holds no data"})
		case !e.routed() && e.Counts[0] != most:
			found = append(found, kernels.Finding{Check: CheckDisagree, Where: e.Name, Got: fmt.Sprintf("%.0f activations", e.Counts[0]), Want: fmt.Sprintf("%.0f, as other matrices of the model", most), Hint: "every token passes every matrix; the file mixes runs or was stopped"})
		case e.routed() && m.Form == FormGGUF && most > 0 && math.Mod(total, float64(most)) != 0:
			found = append(found, kernels.Finding{Check: CheckDisagree, Where: e.Name, Got: fmt.Sprintf("%.0f activations of all experts", total), Want: fmt.Sprintf("a multiple of %.0f, the tokens", most), Hint: "every token reaches the same number of experts"})
		}
	}
	return found
}

// checkChunks compares the number of chunks with the highest count: the tools
// define it as count / chunk size, rounded down. A file of the old form counts
// calls, of which a chunk takes one or more.
func (m *Matrix) checkChunks(highest float32) []kernels.Finding {
	where := "the file"
	bad := func(got, want string) []kernels.Finding {
		return []kernels.Finding{{Check: CheckChunks, Where: where, Got: got, Want: want, Hint: "the number that llama-quantize writes into its product would be wrong"}}
	}
	if m.Form == FormDat {
		if m.Chunks > 0 && math.Mod(float64(highest), float64(m.Chunks)) != 0 {
			return bad(fmt.Sprintf("%d chunks", m.Chunks), fmt.Sprintf("a number that divides the %.0f calls", highest))
		}
		return nil
	}
	if m.ChunkSize == 0 {
		return bad("chunks of 0 tokens", "at least one token")
	}
	if want := int64(float64(highest)) / m.ChunkSize; m.Chunks != want {
		return bad(fmt.Sprintf("%d chunks of %d tokens", m.Chunks, m.ChunkSize), fmt.Sprintf("%d, by the highest count %.0f", want, highest))
	}
	return nil
}

// missing names the weights within layers that are quantized and have no entry.
func (m *Matrix) missing(tensors []gguf.TensorInfo) []kernels.Finding {
	var names []string
	needed := 0
	for _, t := range tensors {
		if !strings.HasPrefix(t.Name, "blk.") || !recipe.Allows("", t.Name, t.Dims) {
			continue
		}
		needed++
		if _, ok := m.Entry(t.Name); !ok {
			names = append(names, t.Name)
		}
	}
	sort.Strings(names)
	found := make([]kernels.Finding, 0, len(names))
	for _, name := range names {
		found = append(found, kernels.Finding{Check: CheckMissing, Where: name, Got: fmt.Sprintf("no entry; %d of %d weights have none", len(names), needed),
			Want: "an entry", Hint: "the weight would be quantized as if without a matrix"})
	}
	return found
}
