package llama

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/quant"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// Snapshot is the Source over a Hugging Face folder. Close it after use.
type Snapshot struct {
	cfg   Config
	files *safetensors.Snapshot
}

// maxJSON bounds config.json and generation_config.json, in bytes.
const maxJSON = 1 << 20

// OpenSnapshot opens config.json and the safetensors files of a folder. All
// tensors that the architecture needs must be there with their exact shapes, as
// BF16, F16, F32 or F64, and no others: a bias that the forward pass would ignore is refused by name.
// Responses end with the ids of generation_config.json where it names any, else of config.json.
func OpenSnapshot(fsys fs.FS) (*Snapshot, error) {
	c, err := snapshotConfig(fsys)
	if err != nil {
		return nil, err
	}
	files, err := safetensors.OpenSnapshot(fsys)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{c, files}
	if err := s.check(); err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return s, nil
}

func snapshotConfig(fsys fs.FS) (Config, error) {
	data, err := readBounded(fsys, "config.json")
	if err != nil {
		return Config{}, err
	}
	c, err := ConfigFromHF(data)
	if err != nil {
		return Config{}, err
	}
	data, err = readBounded(fsys, "generation_config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return Config{}, err
	}
	var g struct {
		EOS any `json:"eos_token_id"`
	}
	if err := json.Unmarshal(data, &g); err != nil {
		return Config{}, fmt.Errorf("llama: generation_config.json: %w", err)
	}
	eos, err := eosIDs(g.EOS)
	if err != nil {
		return Config{}, fmt.Errorf("llama: generation_config.json: %w", err)
	}
	if len(eos) > 0 {
		c.EOS = eos
	}
	return c, c.validate()
}

func readBounded(fsys fs.FS, name string) (data []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, maxJSON+1))
	if err == nil && len(data) > maxJSON {
		err = fmt.Errorf("llama: %s: got more than %d bytes, want at most that", name, maxJSON)
	}
	return data, err
}

// check holds the tensors against the configuration.
func (s *Snapshot) check() error {
	used := map[string]bool{}
	for _, p := range s.cfg.parts() {
		used[p.name] = true
		t, ok := s.files.Lookup(p.name)
		if !ok {
			return fmt.Errorf("llama: tensor %s: got none, want shape %v", p.name, p.shape())
		}
		if !slices.EqualFunc(t.Shape, p.shape(), func(a uint64, b int) bool { return a == uint64(b) }) {
			return fmt.Errorf("llama: tensor %s: got shape %v, want %v", p.name, t.Shape, p.shape())
		}
		if decoders[t.DType] == nil {
			return fmt.Errorf("llama: tensor %s: got type %s, want BF16, F16, F32 or F64", p.name, t.DType)
		}
	}
	for _, t := range s.files.Tensors() {
		switch {
		case used[t.Name], strings.HasSuffix(t.Name, ".rotary_emb.inv_freq"): // a buffer that old checkpoints carry along
		case t.Name == headName:
			return fmt.Errorf("llama: tensor %s: it is there, but config.json says tie_word_embeddings; which of them is the head is not clear", t.Name)
		default:
			return fmt.Errorf("llama: tensor %s: this forward pass does not use it; the numbers would not be the model's", t.Name)
		}
	}
	return nil
}

// Close closes the files.
func (s *Snapshot) Close() error { return s.files.Close() }

// Config implements [Source].
func (s *Snapshot) Config() Config { return s.cfg }

// Vector implements [Source].
func (s *Snapshot) Vector(name string, dst []float64) error { return s.Rows(name, 1, len(dst), 0, dst) }

// Rows implements [Source].
func (s *Snapshot) Rows(name string, _, cols, first int, dst []float64) error {
	t, ok := s.files.Lookup(name)
	if !ok {
		return fmt.Errorf("llama: tensor %s: got none", name)
	}
	width := t.DType.Bits() / 8
	raw := make([]byte, min(len(dst), 1<<16)*width)
	at := int64(first) * int64(cols) * int64(width)
	for section := s.files.Section(t); len(dst) > 0; {
		n := min(len(dst), len(raw)/width)
		if _, err := section.ReadAt(raw[:n*width], at); err != nil {
			return fmt.Errorf("llama: tensor %s: byte %d: %w", name, at, err)
		}
		decoders[t.DType](dst[:n], raw)
		dst, at = dst[n:], at+int64(n*width)
	}
	return nil
}

// decoders widen little-endian values; all of them are exact.
var decoders = map[safetensors.DType]func(dst []float64, src []byte){
	safetensors.BF16: func(dst []float64, src []byte) {
		for i := range dst {
			dst[i] = float64(quant.BF16ToFloat(binary.LittleEndian.Uint16(src[2*i:])))
		}
	},
	safetensors.F16: func(dst []float64, src []byte) {
		for i := range dst {
			dst[i] = float64(quant.HalfToFloat(binary.LittleEndian.Uint16(src[2*i:])))
		}
	},
	safetensors.F32: func(dst []float64, src []byte) {
		for i := range dst {
			dst[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:])))
		}
	},
	safetensors.F64: func(dst []float64, src []byte) {
		for i := range dst {
			dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
		}
	},
}
