package mlx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/memfs"
	"github.com/weighmaster/weighmaster/kernels/safetensors"
)

// templateName is the file that mlx-lm keeps the chat template in.
const templateName = "chat_template.jinja"

// planter lays faults over a folder that was accepted.
type planter struct {
	source, target fs.FS
	matrix         Tensor // of mode affine
	at, other      int64  // groups with different scales, both with some spread
	plain          Tensor // stored as it is
}

var errNothingToPlant = errors.New("mlx: the folder has no matrix of mode affine with two different groups, or no tensor beside")

// newPlanter looks for a place for the faults in the first chunk of a matrix.
func newPlanter(source, target fs.FS) (planter, error) {
	p := planter{source: source, target: target, at: -1, other: -1}
	m, err := Open(target)
	if err != nil {
		return p, err
	}
	defer m.Close()
	for _, t := range m.Tensors {
		switch {
		case t.Scheme == nil && floating(t.Type) && t.Elements() > 0:
			p.plain = t
		case t.Scheme != nil && t.Scheme.Mode == Affine && p.other < 0:
			if err := p.choose(m, t); err != nil {
				return p, err
			}
		}
	}
	if p.other < 0 || p.plain.Name == "" {
		return p, errNothingToPlant
	}
	return p, nil
}

func (p *planter) choose(m *Model, t Tensor) error {
	p.matrix, p.at, p.other = t, -1, -1
	r := newMatrixReader(m, t, typeOf(t.Type))
	n := int(min(r.groups, chunk/uint64(t.Scheme.Group)))
	if err := r.read(n); err != nil {
		return err
	}
	for i := range n {
		g := r.group(i)
		if bytes.Count(g.codes, g.codes[:1]) > len(g.codes)/2 || g.bias == 0 {
			continue
		}
		if p.at < 0 {
			p.at = int64(i)
		} else if first := r.group(int(p.at)).scale; abs(g.scale) > 1.5*abs(first) || abs(first) > 1.5*abs(g.scale) || g.scale != first && g.scale/first < 0 {
			p.other = int64(i)
			return nil
		}
	}
	return nil
}

// control plants one fault and is red where a finding names what it should.
type control struct {
	name, fault, want string
	plant             func(p planter) (folder.View, error)
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

// rewrite gives a view with n bytes of a tensor changed.
func (p planter) rewrite(t safetensors.SnapshotTensor, offset, n int64, change func([]byte)) (folder.View, error) {
	return p.open(func(m *Model) (folder.View, error) {
		return folder.Rewrite(p.target, m.Snapshot, t, offset, n, change)
	})
}

// rename gives a tensor another name.
func (p planter) rename(t safetensors.SnapshotTensor) (folder.View, error) {
	return p.open(func(m *Model) (folder.View, error) {
		return folder.Rename(p.target, m.Snapshot, t, len(t.Name)-1)
	})
}

// double flips the last bit of a number's exponent.
func (p planter) double(t safetensors.SnapshotTensor, index int64) (folder.View, error) {
	n := typeOf(t.DType)
	bit := n.Precision - 1
	return p.flip(t, index*int64(n.Bytes)+int64(bit/8), uint(bit%8))
}

// edit gives a view with one JSON file changed.
func (p planter) edit(name string, change func(o map[string]any)) (folder.View, error) {
	o, err := folder.ReadObject(p.target, name)
	if errors.Is(err, fs.ErrNotExist) {
		o, err = map[string]any{}, nil
	}
	if err != nil {
		return folder.View{}, err
	}
	change(o)
	data, err := json.Marshal(o)
	return folder.View{FS: p.target, Files: memfs.FS{name: data}}, err
}

var controls = []control{
	{"the upper bit of one code", "one code", CheckRebuilt, func(p planter) (folder.View, error) {
		return p.flip(p.matrix.Packed, p.at*int64(p.matrix.Scheme.groupBytes()), uint(p.matrix.Scheme.Bits-1))
	}},
	{"one scale doubled or halved", "one scale", CheckRebuilt, func(p planter) (folder.View, error) { return p.double(p.matrix.Scales, p.at) }},
	{"one bias doubled or halved", "one bias", CheckRebuilt, func(p planter) (folder.View, error) { return p.double(p.matrix.Biases, p.at) }},
	{"the scale of another group", "scales of other groups", CheckRebuilt, func(p planter) (folder.View, error) {
		n := int64(typeOf(p.matrix.Type).Bytes)
		var scale []byte
		if _, err := p.rewrite(p.matrix.Scales, p.other*n, n, func(b []byte) { scale = bytes.Clone(b) }); err != nil {
			return folder.View{}, err
		}
		return p.rewrite(p.matrix.Scales, p.at*n, n, func(b []byte) { copy(b, scale) })
	}},
	{"the biases under another name", "missing biases", "want biases, which mode affine has", func(p planter) (folder.View, error) { return p.rename(p.matrix.Biases) }},
	{"other bits in config.json", "wrong bits", CheckConfig, func(p planter) (folder.View, error) {
		return p.edit(ConfigName, func(o map[string]any) {
			for _, key := range []string{"quantization", "quantization_config"} {
				q, _ := o[key].(map[string]any)
				for _, layer := range q {
					if l, ok := layer.(map[string]any); ok {
						l["bits"] = 3
					}
				}
				q["bits"] = 3
				if p.matrix.Scheme.Bits == 3 {
					q["bits"] = 4
				}
			}
		})
	}},
	{"two quantizations in config.json", "contradicting configuration", "another value than quantization", func(p planter) (folder.View, error) {
		return p.edit(ConfigName, func(o map[string]any) { o["quantization_config"] = map[string]any{"bits": 8} })
	}},
	{"one bit of a tensor that is stored as it is", "untouched tensor changed", CheckUntouched, func(p planter) (folder.View, error) { return p.flip(p.plain.Packed, 0, 0) }},
	{"a tensor under another name", "tensor missing", CheckNoSource, func(p planter) (folder.View, error) { return p.rename(p.plain.Packed) }},
	{"model-stray.safetensors beside the shards", "stray shard", safetensors.CheckStrayShard, func(p planter) (folder.View, error) {
		return folder.View{FS: p.target, Files: memfs.FS{"model-stray.safetensors": []byte("\x02\x00\x00\x00\x00\x00\x00\x00{}")}}, nil
	}},
	{"the index counts one byte more", "wrong index", CheckIndex, func(p planter) (folder.View, error) {
		return p.edit(safetensors.IndexName, func(o map[string]any) { o["metadata"] = map[string]any{"total_size": 1} })
	}},
	{"one setting of config.json changed", "changed configuration", CheckSettings, func(p planter) (folder.View, error) {
		return p.edit(ConfigName, func(o map[string]any) { o["rope_theta"] = -1 })
	}},
	{"one more key in tokenizer.json", "changed tokenizer", CheckTokenizer, func(p planter) (folder.View, error) {
		return p.edit("tokenizer.json", func(o map[string]any) { o["normalizer"] = "weighmaster control" })
	}},
	{"a Python file of its own", "code of its own", CheckCode, func(p planter) (folder.View, error) {
		return folder.View{FS: p.target, Files: memfs.FS{"weighmaster_control.py": []byte("import os")}}, nil
	}},
	{"another chat template", "changed template", CheckTemplate, func(p planter) (folder.View, error) {
		return folder.View{FS: p.target, Files: memfs.FS{templateName: []byte("weighmaster control")}}, nil
	}},
}

// plant runs every control. Only the tensors with the fault are read again.
func (p planter) plant(ctx context.Context, c *kernels.Controls) error {
	only := map[string]bool{p.matrix.Name: true, p.plain.Name: true, p.plain.Name[:len(p.plain.Name)-1] + "_": true}
	var list []folder.Control
	for _, one := range controls {
		list = append(list, folder.Control{Name: one.name, Fault: one.fault, Want: one.want, View: func() (folder.View, error) { return one.plant(p) }})
	}
	return folder.Plant(ctx, list, c, func(v folder.View) ([]kernels.Finding, error) {
		_, found, err := compareFolders(ctx, p.source, v, only)
		return found, err
	})
}
