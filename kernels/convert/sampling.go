package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// samplingFields are the fields of generation_config.json that reach GGUF, in the
// converter's order; of two fields for one key the first that is there counts.
var samplingFields = []struct {
	key    string
	whole  bool // stored as INT32, else FLOAT32
	fields []string
}{
	{"top_k", true, []string{"top_k"}},
	{"top_p", false, []string{"top_p"}},
	{"min_p", false, []string{"min_p"}},
	{"xtc_probability", false, []string{"xtc_probability"}},
	{"xtc_threshold", false, []string{"xtc_threshold"}},
	{"temp", false, []string{"temperature"}},
	{"penalty_last_n", true, []string{"penalty_last_n"}},
	{"penalty_repeat", false, []string{"penalty_repeat", "repetition_penalty"}},
	{"mirostat", true, []string{"mirostat"}},
	{"mirostat_tau", false, []string{"mirostat_tau"}},
	{"mirostat_eta", false, []string{"mirostat_eta"}},
}

// samplingKVs lists the general.sampling.… keys that generation_config.json gives.
func samplingKVs(fsys fs.FS) ([]gguf.KV, error) {
	var config map[string]any
	if _, err := readJSON(fsys, "generation_config.json", &config); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var kvs []gguf.KV
	for _, f := range samplingFields {
		for _, field := range f.fields {
			stated, has := config[field]
			if !has || stated == nil {
				continue
			}
			number, ok := stated.(float64)
			if !ok || math.Abs(number) > math.MaxInt32 || f.whole && number != math.Trunc(number) {
				return nil, fmt.Errorf("generation_config.json: %s: got %v, want a number", field, stated)
			}
			value := gguf.Float32(float32(number))
			if f.whole {
				value = gguf.Int32(int32(number))
			}
			kvs = append(kvs, gguf.KV{Key: "general.sampling." + f.key, Value: value})
			break
		}
	}
	return kvs, nil
}
