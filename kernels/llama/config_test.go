package llama

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigFromHF(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(modelDir, "snapshot", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ConfigFromHF(data)
	if err != nil {
		t.Fatal(err)
	}
	if c.Heads != 8 || c.KVHeads != 2 || c.HeadDim != 32 || c.Theta != 50000 || c.Eps != float64(float32(1e-6)) || len(c.EOS) != 1 || c.EOS[0] != 2 {
		t.Errorf("got %+v", c)
	}
	good := string(data)
	for name, x := range map[string]struct{ from, to, want string }{
		"another model":        {`"model_type": "llama"`, `"model_type": "mistral"`, "model_type"},
		"another activation":   {`"silu"`, `"gelu"`, "hidden_act"},
		"attention biases":     {`"attention_bias": false`, `"attention_bias": true`, "attention_bias"},
		"feed-forward biases":  {`"mlp_bias": false`, `"mlp_bias": true`, "mlp_bias"},
		"yarn":                 {`"rope_type": "default"`, `"rope_type": "yarn"`, "yarn"},
		"linear scaling":       {`"rope_type": "default"`, `"type": "linear", "factor": 2`, "linear"},
		"llama3 incomplete":    {`"rope_type": "default"`, `"rope_type": "llama3"`, "llama3"},
		"part of a head":       {`"rope_type": "default"`, `"partial_rotary_factor": 0.5`, "partial_rotary_factor"},
		"quantized":            {`"use_cache": true`, `"quantization_config": {"bits": 4}`, "quantization_config"},
		"tensor parallel":      {`"pretraining_tp": 1`, `"pretraining_tp": 2`, "pretraining_tp"},
		"heads not a multiple": {`"num_key_value_heads": 2`, `"num_key_value_heads": 3`, "multiple"},
		"no heads":             {`"num_attention_heads": 8`, `"num_attention_heads": 0`, "heads"},
		"odd head":             {`"head_dim": 32`, `"head_dim": 31`, "even"},
		"huge":                 {`"vocab_size": 640`, `"vocab_size": 9000000000`, "vocabulary"},
		"negative":             {`"hidden_size": 256`, `"hidden_size": -256`, "hidden size"},
		"theta zero":           {`"rope_theta": 50000.0`, `"rope_theta": 0`, "theta"},
		"end beyond the rows":  {`"eos_token_id": 2`, `"eos_token_id": [2, 640]`, "640"},
		"end of text":          {`"eos_token_id": 2`, `"eos_token_id": "</s>"`, "eos_token_id"},
	} {
		if !strings.Contains(good, x.from) {
			t.Fatalf("%s: config.json does not hold %s", name, x.from)
		}
		if _, err := ConfigFromHF([]byte(strings.Replace(good, x.from, x.to, 1))); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want an error about %s", name, err, x.want)
		}
	}
	old := strings.Replace(good, `"rope_parameters": {
    "rope_theta": 50000.0,
    "rope_type": "default"
  }`, `"rope_theta": 50000.0, "rope_scaling": null`, 1)
	if o, err := ConfigFromHF([]byte(old)); err != nil || o.Theta != c.Theta || old == good {
		t.Errorf("the spelling of transformers 4: got theta %v, %v", o.Theta, err)
	}
}

func FuzzConfigFromHF(f *testing.F) {
	data, err := os.ReadFile(filepath.Join(modelDir, "snapshot", "config.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"model_type":"llama","hidden_size":1e3,"eos_token_id":[1,[2]],"rope_scaling":{"type":"llama3","factor":1e300}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ConfigFromHF(data)
		if err == nil && c.validate() != nil {
			t.Fatalf("an invalid configuration was accepted: %+v", c)
		}
	})
}
