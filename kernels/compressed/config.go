package compressed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
)

const (
	configName   = "config.json"
	modelOptName = "hf_quant_config.json"
)

// quantization is what the configuration says about the matrices.
type quantization struct {
	method                  string
	formats                 map[Format]bool
	blockRows, blockColumns uint64
}

// readConfig reads quantization_config of config.json, or ModelOpt's own file.
func readConfig(fsys fs.FS) (quantization, map[string]any, []kernels.Finding, error) {
	q := quantization{formats: map[Format]bool{}, blockRows: 128, blockColumns: 128}
	refuse := func(where, got, want string) (quantization, map[string]any, []kernels.Finding, error) {
		return q, nil, []kernels.Finding{{Check: CheckConfig, Where: where, Got: got, Want: want}}, nil
	}
	config, err := folder.ReadObject(fsys, configName)
	var bad *folder.JSONError
	switch {
	case errors.As(err, &bad):
		return refuse(configName, bad.Got, "one JSON object")
	case errors.Is(err, fs.ErrNotExist):
		return refuse(configName, "no such file", "the model's configuration")
	case err != nil:
		return q, nil, nil, fmt.Errorf("compressed: %w", err)
	}
	settings, ok := config["quantization_config"].(map[string]any)
	if !ok {
		own, err := folder.ReadObject(fsys, modelOptName)
		switch {
		case errors.As(err, &bad):
			return refuse(modelOptName, bad.Got, "one JSON object")
		case errors.Is(err, fs.ErrNotExist):
			return refuse(configName+": quantization_config", "absent", "an object, or "+modelOptName+" beside it")
		case err != nil:
			return q, nil, nil, fmt.Errorf("compressed: %w", err)
		}
		settings, _ = own["quantization"].(map[string]any)
		settings = maps.Clone(settings)
		if settings == nil {
			return refuse(modelOptName+": quantization", "absent", "an object")
		}
		settings["quant_method"] = "modelopt"
	}
	q.method, _ = settings["quant_method"].(string)
	var found []kernels.Finding
	switch q.method {
	case "compressed-tensors":
		found = q.compressedTensors(settings)
	case "modelopt":
		found = q.modelOpt(settings)
	case "fp8":
		q.formats[FP8] = true
		if raw, ok := settings["weight_block_size"]; ok {
			found = q.block("weight_block_size", raw)
		}
	default:
		found = []kernels.Finding{{Check: CheckConfig, Where: "quant_method", Got: fmt.Sprintf("%.80q", q.method), Want: "compressed-tensors, modelopt or fp8"}}
	}
	return q, config, found, nil
}

// compressedTensors reads config_groups.
func (q *quantization) compressedTensors(settings map[string]any) []kernels.Finding {
	groups, _ := settings["config_groups"].(map[string]any)
	if len(groups) == 0 {
		return []kernels.Finding{{Check: CheckConfig, Where: "config_groups", Got: "none", Want: "at least one"}}
	}
	var found []kernels.Finding
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		group, _ := groups[name].(map[string]any)
		weights, ok := group["weights"].(map[string]any)
		if !ok {
			continue // a group of activations alone
		}
		where := fmt.Sprintf("config_groups: %.80q: weights", name)
		kind, _ := weights["type"].(string)
		bits, strategy := integer(weights["num_bits"]), text(weights["strategy"])
		switch {
		case kind == "float" && bits == 8 && (strategy == "tensor" || strategy == "channel"):
			q.formats[FP8] = true
		case kind == "float" && bits == 8 && strategy == "block":
			q.formats[FP8] = true
			found = append(found, q.block(where+": block_structure", weights["block_structure"])...)
		case kind == "float" && bits == 4 && strategy == "tensor_group" && integer(weights["group_size"]) == 16:
			q.formats[NVFP4] = true
		default:
			found = append(found, kernels.Finding{Check: CheckConfig, Where: where,
				Got:  fmt.Sprintf("type %.40q, %d bits, strategy %.40q, group size %d", kind, bits, strategy, integer(weights["group_size"])),
				Want: "float with 8 bits by tensor, channel or block, or with 4 bits by tensor_group of 16"})
		}
	}
	return found
}

// modelOpt reads quant_algo.
func (q *quantization) modelOpt(settings map[string]any) []kernels.Finding {
	algo := text(settings["quant_algo"])
	size, has := settings["group_size"]
	switch upper := strings.ToUpper(algo); {
	case strings.HasPrefix(upper, "FP8"):
		q.formats[FP8] = true
	case (strings.HasPrefix(upper, "NVFP4") || upper == "W4A16_NVFP4") && (!has || integer(size) == 16):
		q.formats[NVFP4] = true
	case upper == "MIXED_PRECISION":
		q.formats[FP8], q.formats[NVFP4] = true, true
	default:
		return []kernels.Finding{{Check: CheckConfig, Where: "quant_algo", Got: fmt.Sprintf("%.80q, group size %d", algo, integer(size)), Want: "FP8…, or NVFP4… with groups of 16"}}
	}
	return nil
}

// block reads the rows and columns of a block.
func (q *quantization) block(where string, raw any) []kernels.Finding {
	list, _ := raw.([]any)
	if len(list) == 2 && integer(list[0]) > 0 && integer(list[1]) > 0 {
		q.blockRows, q.blockColumns = uint64(integer(list[0])), uint64(integer(list[1]))
		return nil
	}
	return []kernels.Finding{{Check: CheckConfig, Where: where, Got: fmt.Sprintf("%.80v", raw), Want: "two positive numbers"}}
}

// integer is a JSON number as an integer of 31 bits, -1 for anything else.
func integer(v any) int64 {
	n, _ := v.(json.Number)
	i, err := n.Int64()
	if err != nil || i < 0 || i > 1<<31-1 {
		return -1
	}
	return i
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
