package mlx

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
)

// ConfigName is the file that tells what the model is.
const ConfigName = "config.json"

// quantization is what config.json says about it.
type quantization struct {
	fallback *Scheme
	layers   map[string]*Scheme // by path; nil: not quantized
}

// scheme is what the configuration says about the matrix at a path.
func (q quantization) scheme(path string) *Scheme {
	if s, named := q.layers[path]; named {
		return s
	}
	return q.fallback
}

func (m *Model) readConfig() (quantization, []kernels.Finding, error) {
	q := quantization{layers: map[string]*Scheme{}}
	config, err := folder.ReadObject(m.FS, ConfigName)
	if errors.Is(err, fs.ErrNotExist) {
		return q, []kernels.Finding{{Check: CheckConfig, Where: ConfigName, Got: "no such file", Want: "the model's configuration", Hint: "fetch it: without it nothing says how the matrices are packed"}}, nil
	}
	if err != nil {
		return q, []kernels.Finding{{Check: CheckConfig, Where: ConfigName, Got: err.Error(), Want: "one JSON object"}}, nil
	}
	m.config = config
	raw, present := config["quantization"]
	again, repeated := config["quantization_config"]
	if !present {
		if repeated {
			return q, []kernels.Finding{{Check: CheckConfig, Where: "quantization", Got: "absent beside a quantization_config", Want: "both, and the same",
				Hint: "mlx-lm writes both; with quantization_config alone this is another tool's checkpoint"}}, nil
		}
		return q, nil, nil
	}
	var found []kernels.Finding
	if repeated && !reflect.DeepEqual(raw, again) {
		found = append(found, kernels.Finding{Check: CheckConfig, Where: "quantization_config", Got: "another value than quantization", Want: "the same",
			Hint: "MLX loads with the one and the model tree shows the other"})
	}
	object, ok := raw.(map[string]any)
	if !ok {
		return q, append(found, kernels.Finding{Check: CheckConfig, Where: "quantization", Got: fmt.Sprintf("%.80v", raw), Want: "an object"}), nil
	}
	fallback, err := readScheme(object)
	if err != nil {
		return q, append(found, kernels.Finding{Check: CheckConfig, Where: "quantization", Got: err.Error(), Want: schemes}), nil
	}
	q.fallback = &fallback
	for _, path := range slices.Sorted(maps.Keys(object)) {
		switch v := object[path].(type) {
		case map[string]any:
			s, err := readScheme(v)
			if err != nil {
				found = append(found, kernels.Finding{Check: CheckConfig, Where: fmt.Sprintf("quantization: %.200q", path), Got: err.Error(), Want: schemes})
			}
			q.layers[path] = &s
		case bool:
			q.layers[path] = nil
			if v {
				q.layers[path] = q.fallback
			}
		}
	}
	return q, found, nil
}

const schemes = "affine with 1, 2, 3, 4, 5, 6 or 8 bits and groups of 32, 64 or 128; mxfp4 4/32, nvfp4 4/16 or mxfp8 8/32"

// readScheme reads {group_size, bits, mode}. A missing mode is affine, as in
// the releases before there were others; missing numbers are the mode's own.
func readScheme(object map[string]any) (Scheme, error) {
	s := Scheme{Mode: Affine}
	if raw, ok := object["mode"]; ok {
		mode, _ := raw.(string)
		s.Mode = Mode(mode)
	}
	switch s.Mode {
	case Affine:
		s.Group, s.Bits = 64, 4
	case MXFP4:
		s.Group, s.Bits = 32, 4
	case NVFP4:
		s.Group, s.Bits = 16, 4
	case MXFP8:
		s.Group, s.Bits = 32, 8
	default:
		return s, fmt.Errorf("mode %.80q", fmt.Sprint(object["mode"]))
	}
	for key, to := range map[string]*int{"group_size": &s.Group, "bits": &s.Bits} {
		raw, ok := object[key]
		if !ok || raw == nil {
			continue
		}
		text, _ := raw.(json.Number)
		n, err := text.Int64()
		if err != nil || n < 0 || n > math.MaxInt32 {
			return s, fmt.Errorf("%s %.80v", key, raw)
		}
		*to = int(n)
	}
	if !s.valid() {
		return s, fmt.Errorf("%s", s)
	}
	return s, nil
}
