package derive

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/gguf"
	"github.com/weighmaster/weighmaster/kernels/quant"
)

// fault is one kind of planted fault: plant lays it over a view of the product,
// runs the check that should see it on the part that it touches, and tells what
// that check said.
type fault struct {
	kind, name string
	plant      func(c *controls, ctx context.Context) (red bool, detail string, err error)
}

var faults = []fault{
	{"BF16 bit", "a weight of BF16 that differs in one bit", (*controls).bf16Bit},
	{"F32 ulp", "a weight of F32 that differs in the last bit", (*controls).f32Ulp},
	{"Q8_0 scale", "a Q8_0 scale that differs in one bit", (*controls).q8Scale},
	{"Q8_0 code", "a Q8_0 code that differs by one", (*controls).q8Code},
	{"block scale", "a Q4_K scale that differs in one bit", (*controls).blockScale},
	{"block code", "a Q4_K code of another value", (*controls).blockCode},
	{"other source", "Q4_K codes of the source after a pass through Q8_0", (*controls).otherSource},
	{"withheld matrix", "Q4_K blocks made with an importance matrix that is not at hand", (*controls).withheld},
	{"matrix claim", "a claim about an importance matrix that was not used", (*controls).matrixClaim},
	{"row order", "the rows of one head in the checkpoint's order, or two rows exchanged", (*controls).rowOrder},
	{"tensor name", "a tensor under another name", (*controls).tensorName},
	{"hyper-parameter", "a hyper-parameter of another value", (*controls).hyperParameter},
	{"token", "a token of another text", (*controls).token},
	{"token type", "a token of another type", (*controls).tokenType},
	{"special token", "a special token of another id", (*controls).specialToken},
	{"chat template", "a chat template with another character", (*controls).template},
	{"truncation", "a product that lacks its last byte", (*controls).truncation},
}

// Faults names the kinds of fault that the kernel claims to find.
func Faults() []string {
	kinds := make([]string, len(faults))
	for i, f := range faults {
		kinds[i] = f.kind
	}
	return kinds
}

// controls is what the planting works on.
type controls struct {
	src, dst *side
	product  File
	header   []byte // of the product, up to its tensor data
	compared bool   // what differs of a vocabulary is left to a comparison
}

// plant plants one fault of every kind. A fault that could not be planted (no
// tensor of the kind on either side) is a missed control with its reason.
func plant(ctx context.Context, c *controls, out *kernels.Controls) error {
	c.header = make([]byte, c.dst.file.DataOffset)
	if _, err := io.ReadFull(io.NewSectionReader(c.product.R, 0, c.dst.file.DataOffset), c.header); err != nil {
		return fmt.Errorf("product: read the header: %w", err)
	}
	for _, f := range faults {
		red, detail, err := f.plant(c, ctx)
		if err != nil {
			return fmt.Errorf("control %s: %w", f.kind, err)
		}
		out.Add(kernels.ControlResult{Name: f.name, Fault: f.kind, Red: red, Detail: detail})
	}
	return nil
}

// excerpt is a correct part of a tensor in the wanted type: the first weights
// of the smallest matrix (or vector) that has them. Where the product holds such
// bytes and they are right, they are the product's own.
func (c *controls) excerpt(typ gguf.Type, matrix bool) (*pair, []byte, error) {
	codec, err := quant.Writer(typ)
	if err != nil {
		return nil, nil, err
	}
	var best *tensor
	bestOwn := false
	for i := range c.src.tensors {
		t := &c.src.tensors[i]
		if t.rows.Codec.Dequantize == nil || t.typ.Quantized() && t.typ != typ || len(t.dims) > 1 != matrix || len(t.dims) == 0 || t.dims[0]%uint64(codec.Weights) != 0 {
			continue
		}
		twin := c.dst.byName[t.name]
		own := twin != nil && twin.typ == typ && slices.Equal(twin.dims, t.dims)
		if best == nil || own && !bestOwn || own == bestOwn && t.rows.Weights() < best.rows.Weights() {
			best, bestOwn = t, own
		}
	}
	if best == nil {
		return nil, nil, nil
	}
	made := *best
	made.typ = typ
	p := &pair{src: best, dst: &made}
	n := min(best.rows.Weights(), p.step())
	made.rows = convert.Rows{Codec: codec, Count: 1, Width: n}
	body, err := p.product(n)
	if err != nil {
		return nil, nil, err
	}
	if bestOwn {
		theirs := make([]byte, len(body))
		if err := c.dst.byName[best.name].rows.Raw(theirs, 0); err != nil {
			return nil, nil, err
		}
		if bytes.Equal(theirs, body) {
			body = theirs
		}
	}
	return p, body, nil
}

// product makes the first n weights of a pair's product.
func (p *pair) product(n int64) ([]byte, error) {
	b := new(buffers)
	b.raw = grow(b.raw, p.src.rows.Codec.Size(n))
	if err := p.src.rows.Raw(b.raw, 0); err != nil {
		return nil, err
	}
	if p.same() {
		return b.raw, nil
	}
	k, err := p.maker(making{build: quant.Plain})
	if err != nil {
		return nil, err
	}
	return bytes.Clone(p.wanted(b, k, 0, n)), nil
}

// seen compares an excerpt with one patch laid over it and expects exactly one
// differing block, at the given weight.
func (c *controls) seen(ctx context.Context, p *pair, body []byte, patch kernels.Patch, weight int64) (bool, string, error) {
	p.dst.rows.R = kernels.Overlay{R: bytes.NewReader(body), Patches: []kernels.Patch{patch}}
	d, err := p.compare(ctx, making{build: quant.Plain}, 0, p.dst.rows.Width)
	if err != nil {
		return false, "", err
	}
	if d.blocks == 0 {
		return false, "no difference in " + p.src.name, nil
	}
	return d.blocks == 1 && d.first == weight, p.describe(d).String(), nil
}

const nothing = "neither side has a tensor to plant it in"

func (c *controls) bf16Bit(ctx context.Context) (bool, string, error) {
	p, body, err := c.excerpt(gguf.BF16, true)
	if p == nil || err != nil {
		return false, nothing, err
	}
	at := len(body) / 2 / 2 * 2
	return c.seen(ctx, p, body, kernels.Patch{Offset: int64(at), Bytes: []byte{body[at] ^ 1}}, int64(at/2))
}

func (c *controls) f32Ulp(ctx context.Context) (bool, string, error) {
	p, body, err := c.excerpt(gguf.F32, false)
	if p == nil || err != nil {
		return false, nothing, err
	}
	at := len(body) / 2 / 4 * 4
	return c.seen(ctx, p, body, kernels.Patch{Offset: int64(at), Bytes: []byte{body[at] ^ 1}}, int64(at/4))
}

func (c *controls) q8Scale(ctx context.Context) (bool, string, error) {
	return c.q8(ctx, 0, func(b byte) byte { return b ^ 1 })
}

func (c *controls) q8Code(ctx context.Context) (bool, string, error) {
	return c.q8(ctx, 17, func(b byte) byte { return b + 1 })
}

// q8 changes one byte of the middle block.
func (c *controls) q8(ctx context.Context, in int, change func(byte) byte) (bool, string, error) {
	p, body, err := c.excerpt(gguf.Q8_0, true)
	if p == nil || err != nil {
		return false, nothing, err
	}
	block := len(body) / 34 / 2
	at := 34*block + in
	return c.seen(ctx, p, body, kernels.Patch{Offset: int64(at), Bytes: []byte{change(body[at])}}, int64(32*block))
}

// rowOrder compares the first rows of a matrix with themselves in another order:
// those of the first head as the checkpoint has them, which must also be
// recognised as such, or neighbours exchanged where the source knows no heads.
func (c *controls) rowOrder(ctx context.Context) (bool, string, error) {
	ordered := slices.ContainsFunc(c.src.tensors, func(t tensor) bool { return t.heads > 0 })
	for i := range c.src.tensors {
		t := &c.src.tensors[i]
		if t.rows.Count < 4 || t.rows.Codec.Dequantize == nil || t.typ.Quantized() || ordered && t.heads == 0 {
			continue
		}
		wrong := func(row int64) int64 { return row ^ 1 }
		rows := int64(4)
		if t.heads > 0 {
			wrong = func(row int64) int64 { return row }
			rows = t.rows.Count / t.heads
		}
		moved := *t
		moved.rows.Order = wrong
		n := min(rows*t.rows.Width, chunk)
		body := make([]byte, t.rows.Codec.Size(n))
		if err := moved.rows.Raw(body, 0); err != nil {
			return false, "", err
		}
		moved.rows = convert.Rows{R: bytes.NewReader(body), Codec: t.rows.Codec, Count: 1, Width: n}
		p := &pair{src: t, dst: &moved}
		d, err := p.compare(ctx, making{build: quant.Plain}, 0, n)
		if err != nil {
			return false, "", err
		}
		if d.blocks == 0 {
			continue // rows that do not differ, of zeros perhaps
		}
		recognised, err := p.reordered(wrong).compare(ctx, making{}, 0, n)
		return recognised.blocks == 0, p.describe(d).String(), err
	}
	return false, "no matrix whose rows differ", nil
}

// reopened parses the product's header again with one patch laid over it.
func (c *controls) reopened(offset int, change []byte) (*side, error) {
	return openFile(File{R: kernels.Overlay{R: c.product.R, Patches: []kernels.Patch{{Offset: int64(offset), Bytes: change}}}, Size: c.product.Size})
}

// named finds a length-prefixed name in the header and gives the offset behind it, or -1.
func (c *controls) named(name string) int {
	prefixed := append(binary.LittleEndian.AppendUint64(nil, uint64(len(name))), name...)
	at := bytes.Index(c.header, prefixed)
	if at < 0 {
		return -1
	}
	return at + len(prefixed)
}

func (c *controls) tensorName(ctx context.Context) (bool, string, error) {
	for _, t := range c.dst.tensors {
		end := c.named(t.name)
		if end < 0 || c.src.byName[t.name] == nil {
			continue
		}
		planted, err := c.reopened(end-1, []byte{t.name[len(t.name)-1] ^ 0x20})
		if err != nil {
			return false, "", err
		}
		inv := &inventory{results: map[string]*result{}, types: map[string]int{}}
		if err := inv.match(c.src.byName[t.name], c.src, planted, nil); err != nil {
			return false, "", err
		}
		if len(inv.findings) == 0 {
			return false, "no finding about " + t.name, nil
		}
		return inv.findings[0].Check == "inventory", inv.findings[0].String(), nil
	}
	return false, nothing, nil
}

// key patches one byte of a key's value and expects a finding about that key
// which the unpatched product does not give.
func (c *controls) key(key string, skip int, change func(byte) byte) (bool, string, error) {
	end := c.named(key)
	if end < 0 || end+skip >= len(c.header) {
		return false, "the product has no key " + key, nil
	}
	planted, err := c.reopened(end+skip, []byte{change(c.header[end+skip])})
	if err != nil {
		return false, "", err
	}
	return c.keySeen(key, planted.kvs)
}

func (c *controls) keySeen(key string, kvs []gguf.KV) (bool, string, error) {
	found := compareKVs(c.src, kvs, nil, true)
	if c.compared {
		var left []kernels.Finding
		if found, left = splitTokenizer(found); len(left) > 0 {
			return c.leftSeen(key, kvs, found, left)
		}
	}
	for _, f := range found {
		if where, _, _ := strings.Cut(f.Where, " element "); where == "key "+key {
			return true, f.String(), nil
		}
	}
	return false, "no finding about " + key, nil
}

func flip(b byte) byte { return b ^ 1 }

func (c *controls) hyperParameter(context.Context) (bool, string, error) {
	for _, kv := range c.dst.kvs {
		if strings.HasSuffix(kv.Key, ".rope.freq_base") || strings.HasSuffix(kv.Key, ".block_count") {
			return c.key(kv.Key, 4, flip)
		}
	}
	return c.keySeen("llama.block_count", append(c.dst.kvs[:len(c.dst.kvs):len(c.dst.kvs)], gguf.KV{Key: "llama.block_count", Value: gguf.Uint32(1 << 20)}))
}

// token changes the first byte of the first token: behind the key stand the
// array's type (4), its elements' type (4), its length (8) and the token's own length (8).
func (c *controls) token(context.Context) (bool, string, error) {
	const key = "tokenizer.ggml.tokens"
	if value, ok := kv(c.dst.kvs, key); ok && value.Len > 0 && len(value.Strings()) > 0 && value.Strings()[0] != "" {
		return c.key(key, 24, flip)
	}
	return c.keySeen(key, append(c.dst.kvs[:len(c.dst.kvs):len(c.dst.kvs)], gguf.KV{Key: key, Value: gguf.Strings([]string{"planted"})}))
}

// tokenType changes the type of the first token, which stands behind the array's
// type (4), its elements' type (4) and its length (8).
func (c *controls) tokenType(context.Context) (bool, string, error) {
	const key = "tokenizer.ggml.token_type"
	if value, ok := kv(c.dst.kvs, key); ok && value.Len > 0 {
		return c.key(key, 16, flip)
	}
	return c.keySeen(key, append(c.dst.kvs[:len(c.dst.kvs):len(c.dst.kvs)], gguf.KV{Key: key, Value: gguf.Int32s([]int32{1})}))
}

// specialToken changes the first id that the product names, or names one.
func (c *controls) specialToken(context.Context) (bool, string, error) {
	for _, kv := range c.dst.kvs {
		if strings.HasPrefix(kv.Key, "tokenizer.ggml.") && strings.HasSuffix(kv.Key, "_token_id") {
			return c.key(kv.Key, 4, flip)
		}
	}
	const key = "tokenizer.ggml.bos_token_id"
	return c.keySeen(key, append(c.dst.kvs[:len(c.dst.kvs):len(c.dst.kvs)], gguf.KV{Key: key, Value: gguf.Uint32(1 << 20)}))
}

// template changes the first character, or adds a template where there is none.
func (c *controls) template(context.Context) (bool, string, error) {
	if value, ok := kv(c.dst.kvs, templateKey); ok {
		if text, _ := value.Text(); text != "" {
			return c.key(templateKey, 12, flip)
		}
	}
	return c.keySeen(templateKey, append(c.dst.kvs[:len(c.dst.kvs):len(c.dst.kvs)], gguf.KV{Key: templateKey, Value: gguf.String("planted")}))
}

func (c *controls) truncation(context.Context) (bool, string, error) {
	_, err := openFile(File{R: c.product.R, Size: c.product.Size - 1})
	if err == nil {
		return false, "opened as if it were whole", nil
	}
	return malformed(err), err.Error(), nil
}
