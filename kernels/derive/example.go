package derive

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weighmaster/weighmaster/kernels/convert"
	"github.com/weighmaster/weighmaster/kernels/memfs"
)

// exampleConfig is a Llama of one layer with two query heads and one key-value head.
const exampleConfig = `{
  "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 32,
  "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 8,
  "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2
}`

var exampleShapes = map[string][]int{
	"model.embed_tokens.weight": {8, 64}, "lm_head.weight": {8, 64}, "model.norm.weight": {64},
	"model.layers.0.input_layernorm.weight": {64}, "model.layers.0.post_attention_layernorm.weight": {64},
	"model.layers.0.self_attn.q_proj.weight": {64, 64}, "model.layers.0.self_attn.k_proj.weight": {32, 64},
	"model.layers.0.self_attn.v_proj.weight": {32, 64}, "model.layers.0.self_attn.o_proj.weight": {64, 64},
	"model.layers.0.mlp.gate_proj.weight": {32, 64}, "model.layers.0.mlp.up_proj.weight": {32, 64}, "model.layers.0.mlp.down_proj.weight": {64, 32},
}

// example builds the small snapshot of the self-check and its BF16 conversion.
func example(ctx context.Context) (Input, File, error) {
	weights, err := exampleWeights()
	if err != nil {
		return Input{}, File{}, err
	}
	snapshot := memfs.FS{
		"config.json":       []byte(exampleConfig),
		"model.safetensors": weights,
		"tokenizer.model":   exampleTokenizer(),
		"tokenizer_config.json": []byte(`{"add_bos_token": true, "add_eos_token": false,
			"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"}`),
	}
	model, err := convert.Open(snapshot)
	if err != nil {
		return Input{}, File{}, err
	}
	defer model.Close()
	var product bytes.Buffer
	if err := model.Write(ctx, &product, convert.Options{Name: "example"}); err != nil {
		return Input{}, File{}, err
	}
	return Input{Snapshot: snapshot}, File{R: bytes.NewReader(product.Bytes()), Size: int64(product.Len())}, nil
}

// exampleWeights is a safetensors file of BF16 weights between -1 and 1.
func exampleWeights() ([]byte, error) {
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header := map[string]entry{}
	var data []byte
	state := uint32(1)
	for _, name := range sortedNames(exampleShapes) {
		from, n := len(data), 1
		for _, d := range exampleShapes[name] {
			n *= d
		}
		for range n {
			state = state*1664525 + 1013904223 // a linear congruential sequence: fixed, of no quality
			data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(float32(int32(state))/(1<<31))>>16))
		}
		header[name] = entry{"BF16", exampleShapes[name], [2]int{from, len(data)}}
	}
	body, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(body))), body...), data...), nil
}

// exampleTokenizer is a SentencePiece model of eight pieces.
func exampleTokenizer() []byte {
	var model []byte
	for i := range 8 {
		text, kind := fmt.Sprintf("piece%d", i), uint64(convert.TokenNormal)
		switch i {
		case 0:
			text, kind = "<unk>", convert.TokenUnknown
		case 1:
			text, kind = "<s>", convert.TokenControl
		case 2:
			text, kind = "</s>", convert.TokenControl
		}
		var piece []byte
		piece = protowire.AppendString(protowire.AppendTag(piece, 1, protowire.BytesType), text)
		piece = protowire.AppendFixed32(protowire.AppendTag(piece, 2, protowire.Fixed32Type), math.Float32bits(float32(-i)))
		piece = protowire.AppendVarint(protowire.AppendTag(piece, 3, protowire.VarintType), kind)
		model = protowire.AppendBytes(protowire.AppendTag(model, 1, protowire.BytesType), piece)
	}
	return model
}
