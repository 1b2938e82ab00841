package derive

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/memfs"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// limits is what a derivation does not prove.
func limits() []kernels.Limit {
	return []kernels.Limit{
		{What: "general.name and its like, and quantize.… keys, are claims and are not derived from a snapshot", Probe: func(ctx context.Context) error {
			source, product, err := example(ctx)
			if err != nil {
				return err
			}
			changed, err := withKey(product, "general.name", gguf.String("another name"))
			if err != nil {
				return err
			}
			return kernels.Unseen(Check(ctx, source, changed, Options{}))
		}},
		{What: "a snapshot whose architecture has no mapping is undecided: tensors are found by content, and the architecture is named", Probe: func(ctx context.Context) error {
			source, product, err := example(ctx)
			if err != nil {
				return err
			}
			folder := maps.Clone(source.Snapshot.(memfs.FS))
			folder["config.json"] = []byte(strings.Replace(exampleConfig, "LlamaForCausalLM", "UnheardOfForCausalLM", 1))
			r, err := Check(ctx, Input{Snapshot: folder}, product, Options{})
			return kernels.Refuses(r, err, "UnheardOfForCausalLM")
		}},
		{What: "types whose search is not reproduced (IQ1, IQ2 and IQ3) are undecided: only their error is known", Probe: probeUnmade},
		{What: "what is made from a quantized file is not recomputed and undecided", Probe: probeQuantizedSource},
		{What: "with the tokenizer left to a comparison, scores, types, merges and the pre-tokenizer are named and not derived", Probe: func(ctx context.Context) error {
			source, product, err := example(ctx)
			if err != nil {
				return err
			}
			changed, err := withKey(product, "tokenizer.ggml.pre", gguf.String("another"))
			if err != nil {
				return err
			}
			return kernels.Unseen(Check(ctx, source, changed, Options{TokenizerCompared: true}))
		}},
		{What: "a source whose weights round to the same codes and scales is not told from the true one", Probe: probeSameBlocks},
		{What: "where the importance matrix is not at hand its scales are free within bounds: codes prove the source, not the matrix", Probe: probeFreeScales},
	}
}

// probed is the name of the tensor that limits are tried on.
const probed = "blk.0.ffn_up.weight"

// inventoryOf judges a product of one row beside a fixed sequence, as the comparison of two sides would.
func inventoryOf(ctx context.Context, dst *tensor, change func([]byte)) (*inventory, *result, error) {
	src, err := (&controls{src: &side{}}).weights()
	if err != nil {
		return nil, nil, err
	}
	if change != nil {
		raw := make([]byte, src.rows.Codec.Size(planted))
		if err := src.rows.Raw(raw, 0); err != nil {
			return nil, nil, err
		}
		change(raw)
		src = row(src.name, src.rows.Codec, raw)
	}
	for _, t := range []*tensor{src, dst} { // a matrix: vectors are never quantized
		t.name, t.dims = probed, []uint64{256, planted / 256}
		t.rows.Width, t.rows.Count = 256, planted/256
	}
	one := func(t *tensor) *side {
		s := &side{file: &gguf.File{}, tensors: []tensor{*t}, byName: map[string]*tensor{}}
		s.index()
		return s
	}
	inv, err := compareTensors(ctx, one(src), one(dst), Options{})
	if err != nil {
		return nil, nil, err
	}
	return inv, inv.results[probed], nil
}

// expectState tells how a row was judged otherwise than a limit says.
func expectState(inv *inventory, r *result, s state, c Class, words string) error {
	if r == nil || r.state != s || r.class != c || !strings.Contains(fmt.Sprint(inv.findings), words) {
		return fmt.Errorf("got %+v with %v, want class %q and words about %q", r, inv.findings, c, words)
	}
	return nil
}

// probeUnmade makes IQ3_S blocks of the smallest codes with the weights' signs: near the source, and of a search that is not reproduced.
func probeUnmade(ctx context.Context) error {
	codec, err := quant.For(gguf.IQ3_S)
	if err != nil {
		return err
	}
	src, err := (&controls{src: &side{}}).weights()
	if err != nil {
		return err
	}
	weights, err := new(reader).floats(src, 0, planted)
	if err != nil {
		return err
	}
	const signs = 74 // within a block, behind scale, codes and high bits
	body := make([]byte, codec.Size(planted))
	for i, w := range weights {
		block := body[i/codec.Weights*codec.Bytes:]
		binary.LittleEndian.PutUint16(block, quant.FloatToHalf(0.3))
		if w < 0 {
			block[signs+i%codec.Weights/8] |= 1 << (i % 8)
		}
	}
	inv, r, err := inventoryOf(ctx, row("", codec, body), nil)
	if err != nil {
		return err
	}
	return expectState(inv, r, undecided, ClassD, "IQ3_S is not recomputed")
}

func probeQuantizedSource(context.Context) error {
	p, body, err := (&controls{src: &side{}}).quantized(nil, nil)
	if err != nil {
		return err
	}
	codec, err := quant.For(gguf.Q6_K)
	if err != nil {
		return err
	}
	_, err = newPair(row("", p.dst.rows.Codec, body), row("", codec, make([]byte, codec.Size(planted))))
	if err == nil || !strings.Contains(err.Error(), "made from the quantized type Q4_K is not recomputed") {
		return fmt.Errorf("got %v, want it not recomputed", err)
	}
	return nil
}

// probeSameBlocks lowers the last bit of one F32 weight, which no 4-bit code shows.
func probeSameBlocks(ctx context.Context) error {
	p, _, err := (&controls{src: &side{}}).quantized(nil, nil)
	if err != nil {
		return err
	}
	inv, r, err := inventoryOf(ctx, p.dst, func(raw []byte) { raw[4*100] ^= 1 })
	if err != nil {
		return err
	}
	return expectState(inv, r, exact, ClassA, "")
}

func probeFreeScales(ctx context.Context) error {
	importance := make([]float32, planted)
	for i := range importance {
		importance[i] = 1 + float32(i%7*i%11)
	}
	p, _, err := (&controls{src: &side{}}).quantized(nil, importance)
	if err != nil {
		return err
	}
	inv, r, err := inventoryOf(ctx, p.dst, nil)
	if err != nil {
		return err
	}
	return expectState(inv, r, bounded, ClassC, "")
}

// withKey writes a file again with another value of one of its keys.
func withKey(in File, key string, v gguf.Value) (File, error) {
	f, err := gguf.Open(in.R, in.Size)
	if err != nil {
		return File{}, err
	}
	kvs := append([]gguf.KV{}, f.KVs...)
	for i := range kvs {
		if kvs[i].Key == key {
			kvs[i].Value = v
		}
	}
	var sources []gguf.TensorSource
	for _, t := range f.Tensors {
		sources = append(sources, f.Source(t))
	}
	var out bytes.Buffer
	err = gguf.Write(io.Writer(&out), kvs, sources)
	return File{R: bytes.NewReader(out.Bytes()), Size: int64(out.Len())}, err
}
