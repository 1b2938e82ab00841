package compressed

import (
	"context"
	"errors"
	"io/fs"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/memfs"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// planter lays faults over a folder that was accepted.
type planter struct {
	source, target fs.FS
	matrix         Matrix // nvfp4
	at             int64  // a block whose scale and codes are not small
	plain          safetensors.SnapshotTensor
}

var errNothingToPlant = errors.New("compressed: the folder has no nvfp4 matrix with a block of large codes, or no tensor beside")

func newPlanter(source, target fs.FS) (planter, error) {
	p := planter{source: source, target: target, at: -1}
	m, err := Open(target)
	if err != nil {
		return p, err
	}
	defer m.Close()
	for _, t := range m.Plain {
		if t.End > t.Begin {
			p.plain = t
		}
	}
	for _, one := range m.Matrices {
		if one.Format != NVFP4 || p.at >= 0 {
			continue
		}
		p.matrix = one
		if p.at, err = firstLarge(m, one); err != nil {
			return p, err
		}
	}
	if p.at < 0 || p.plain.Name == "" {
		return p, errNothingToPlant
	}
	return p, nil
}

// firstLarge finds a block with a normal scale below half the largest and a
// first code of at least 2, in the first chunk; -1 for none.
func firstLarge(m *Model, one Matrix) (int64, error) {
	r, err := newReader(m, one)
	if err != nil {
		return -1, err
	}
	codes := make([]byte, min(chunk, r.weights()))
	if err := r.read(codes); err != nil {
		return -1, err
	}
	for i := 0; i < len(codes); i += 16 {
		s, err := r.scales.at(uint64(i / 16))
		if err != nil {
			return -1, err
		}
		if s >= 1.0/32 && s < 200 && one.Format.value(codes[i]&7) >= 2 {
			return int64(i / 16), nil
		}
	}
	return -1, nil
}

// open opens the folder for as long as one fault is planted.
func (p planter) open(plant func(m *Model) (folder.View, error)) (folder.View, error) {
	m, err := Open(p.target)
	if err != nil {
		return folder.View{}, err
	}
	defer m.Close()
	return plant(m)
}

// flip gives a view with one bit of a tensor's bytes changed.
func (p planter) flip(t safetensors.SnapshotTensor, offset int64, bit uint) (folder.View, error) {
	return p.open(func(m *Model) (folder.View, error) { return folder.Flip(p.target, m.Snapshot, t, offset, bit) })
}

// rename gives a tensor another name.
func (p planter) rename(t safetensors.SnapshotTensor) (folder.View, error) {
	return p.open(func(m *Model) (folder.View, error) { return folder.Rename(p.target, m.Snapshot, t, 0) })
}

// control plants one fault and is red where a finding names what it should.
type control struct {
	name, fault, want string
	plant             func(p planter) (folder.View, error)
}

var controls = []control{
	{"the largest bit of one code", "one code", CheckRebuilt, func(p planter) (folder.View, error) { return p.flip(p.matrix.Codes, p.at*8, 2) }},
	{"the sign of one code", "one sign", CheckRebuilt, func(p planter) (folder.View, error) { return p.flip(p.matrix.Codes, p.at*8, 3) }},
	{"one block's scale doubled or halved", "one scale", CheckRebuilt, func(p planter) (folder.View, error) { return p.flip(p.matrix.Scale, p.at, 3) }},
	{"the global scale times or over a power of two", "global scale", CheckRebuilt, func(p planter) (folder.View, error) { return p.flip(*p.matrix.Global, 3, 0) }},
	{"the global scale under another name", "missing global scale", CheckStructure, func(p planter) (folder.View, error) { return p.rename(*p.matrix.Global) }},
	{"the codes under another name", "missing codes", CheckStructure, func(p planter) (folder.View, error) { return p.rename(p.matrix.Codes) }},
	{"one bit of a tensor that is stored as it is", "untouched tensor changed", CheckUntouched, func(p planter) (folder.View, error) { return p.flip(p.plain, 0, 0) }},
	{"a tensor under another name", "tensor missing", CheckMissing, func(p planter) (folder.View, error) { return p.rename(p.plain) }},
	{"a configuration of integers", "wrong configuration", CheckConfig, func(p planter) (folder.View, error) {
		o, err := folder.ReadObject(p.target, configName)
		if err != nil {
			return folder.View{}, err
		}
		o["quantization_config"] = map[string]any{"quant_method": "modelopt", "quant_algo": "INT8_SQ"}
		return folder.View{FS: p.target, Files: memfs.FS{configName: folder.JSON(o)}}, nil
	}},
	{"model-stray.safetensors beside the shards", "stray shard", safetensors.CheckStrayShard, func(p planter) (folder.View, error) {
		return folder.View{FS: p.target, Files: memfs.FS{"model-stray.safetensors": []byte("\x02\x00\x00\x00\x00\x00\x00\x00{}")}}, nil
	}},
}

// plant runs every control. Only the tensors with the fault are read again.
func (p planter) plant(ctx context.Context, c *kernels.Controls) error {
	only := map[string]bool{p.matrix.Weight(): true, p.plain.Name: true}
	var list []folder.Control
	for _, one := range controls {
		list = append(list, folder.Control{Name: one.name, Fault: one.fault, Want: one.want, View: func() (folder.View, error) { return one.plant(p) }})
	}
	return folder.Plant(ctx, list, c, func(v folder.View) ([]kernels.Finding, error) {
		_, found, err := compareFolders(ctx, p.source, v, only)
		return found, err
	})
}
