package derive

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// planted is the number of weights of an excerpt that faults of quantized blocks are planted in.
const planted = 16 * 256

// weights is a part of the source, one row long, as it is stored: of the first
// unquantized tensor that is large enough, else a fixed sequence.
func (c *controls) weights() (*tensor, error) {
	for _, matrix := range []bool{true, false} {
		for i := range c.src.tensors {
			t := &c.src.tensors[i]
			if t.typ != gguf.F32 && t.typ != gguf.F16 && t.typ != gguf.BF16 || t.rows.Weights() < planted || len(t.dims) > 1 != matrix {
				continue
			}
			raw := make([]byte, t.rows.Codec.Size(planted))
			if err := t.rows.Raw(raw, 0); err != nil {
				return nil, err
			}
			if varied(t.rows.Codec, raw) {
				return row("excerpt of "+t.name, t.rows.Codec, raw), nil
			}
		}
	}
	codec, err := quant.For(gguf.F32)
	if err != nil {
		return nil, err
	}
	raw := make([]byte, 0, 4*planted)
	state := uint32(1)
	for range planted {
		state = state*1664525 + 1013904223
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(int32(state))/(1<<31)))
	}
	return row("a fixed sequence", codec, raw), nil
}

// varied tells that no block of 256 weights is constant or not finite: faults would have no effect there.
func varied(codec quant.Codec, raw []byte) bool {
	weights := make([]float32, planted)
	codec.Dequantize(weights, raw)
	for i := 0; i < planted; i += 32 {
		low, high := weights[i], weights[i]
		for _, w := range weights[i : i+32] {
			if w != w || math.IsInf(float64(w), 0) {
				return false
			}
			low, high = min(low, w), max(high, w)
		}
		if high-low < 1e-6 {
			return false
		}
	}
	return true
}

// row is a tensor of one row.
func row(name string, codec quant.Codec, body []byte) *tensor {
	n := int64(len(body)) / int64(codec.Bytes) * int64(codec.Weights)
	return &tensor{
		name: name, origin: name, dims: []uint64{uint64(n)}, typ: codec.Type,
		rows: convert.Rows{R: bytes.NewReader(body), Codec: codec, Count: 1, Width: n},
	}
}

// quantized is an excerpt with its Q4_K product. change may alter the weights
// before they are quantized, importance is a matrix's part or nil.
func (c *controls) quantized(change func([]float32), importance []float32) (*pair, []byte, error) {
	src, err := c.weights()
	if err != nil {
		return nil, nil, err
	}
	weights, err := new(reader).floats(src, 0, planted)
	if err != nil {
		return nil, nil, err
	}
	if change != nil {
		change(weights)
	}
	codec, err := quant.For(gguf.Q4_K)
	if err != nil {
		return nil, nil, err
	}
	q, err := quant.NewQuantizer(gguf.Q4_K, quant.Plain)
	if err != nil {
		return nil, nil, err
	}
	body := make([]byte, codec.Size(planted))
	q.Rows(body, weights, planted, importance)
	return &pair{src: src, dst: row(src.name, codec, body)}, body, nil
}

// judged runs the whole judgement over one pair.
func judged(ctx context.Context, p *pair, patches ...kernels.Patch) (*inventory, *result, error) {
	p.dst.rows.R = kernels.Overlay{R: p.dst.rows.R, Patches: patches}
	inv := &inventory{results: map[string]*result{}, types: map[string]int{}, pairs: []*pair{p}}
	err := inv.run(ctx)
	return inv, inv.results[p.src.name], err
}

// refuted plants patches in the sixth block and expects a finding of one kind.
func (c *controls) refuted(ctx context.Context, change func([]float32), check, words string, at int) (bool, string, error) {
	p, body, err := c.quantized(change, nil)
	if err != nil {
		return false, "", err
	}
	var patches []kernels.Patch
	if at >= 0 {
		at += 5 * 144
		patches = []kernels.Patch{{Offset: int64(at), Bytes: []byte{body[at] ^ 0x11}}}
	}
	inv, r, err := judged(ctx, p, patches...)
	if err != nil || len(inv.findings) == 0 {
		return false, "no finding", err
	}
	f := inv.findings[0]
	return r.state == differs && f.Check == check && strings.Contains(f.String(), words), f.String(), nil
}

// blockScale changes the first scale of a block; its codes no longer follow.
func (c *controls) blockScale(ctx context.Context) (bool, string, error) {
	return c.refuted(ctx, nil, "codes", "block 5", 4)
}

func (c *controls) blockCode(ctx context.Context) (bool, string, error) {
	return c.refuted(ctx, nil, "codes", "block 5", 16)
}

// otherSource quantizes the source after a pass through Q8_0.
func (c *controls) otherSource(ctx context.Context) (bool, string, error) {
	q8, err := quant.Writer(gguf.Q8_0)
	if err != nil {
		return false, "", err
	}
	return c.refuted(ctx, func(weights []float32) {
		blocks := make([]byte, q8.Size(planted))
		q8.Quantize(blocks, weights)
		q8.Dequantize(weights, blocks)
	}, "codes", "follow the source after a pass through Q8_0", -1)
}

// withheld quantizes with an importance matrix that is not at hand: codes follow, scales do not fit.
func (c *controls) withheld(ctx context.Context) (bool, string, error) {
	importance := make([]float32, planted)
	for i := range importance {
		importance[i] = 1 + float32(i%7*i%11)
	}
	p, _, err := c.quantized(nil, importance)
	if err != nil {
		return false, "", err
	}
	_, r, err := judged(ctx, p)
	if err != nil {
		return false, "", err
	}
	return r.class == ClassC || r.class == ClassB, fmt.Sprintf("class %q, %d of %d blocks are not the recomputed ones", r.class, r.differing, p.blocks()), nil
}

// matrixClaim adds a claim about a matrix to a product that was made without one.
func (c *controls) matrixClaim(ctx context.Context) (bool, string, error) {
	p, _, err := c.quantized(nil, nil)
	if err != nil {
		return false, "", err
	}
	inv, r, err := judged(ctx, p)
	if err != nil || r.state != exact {
		return false, "the untouched excerpt is not exact", err
	}
	side := &side{kvs: []gguf.KV{{Key: matrixFileKey, Value: gguf.String("planted")}}}
	u := matrixUse(side, inv, Options{})
	if len(u.Findings) == 0 {
		return false, "no finding about the claim", nil
	}
	return u.Findings[0].Check == checkClaim, u.Findings[0].String(), nil
}
