package derive

import (
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// limits is what a derivation does not prove.
func limits() []kernels.Limit {
	return []kernels.Limit{
		{What: "general.name and its like, and quantize.… keys, are claims and are not derived from a snapshot", Probe: func(ctx context.Context) error {
			source, product, err := example(ctx)
			if err != nil {
				return err
			}
			changed, err := withName(product, "another name")
			if err != nil {
				return err
			}
			return kernels.Unseen(Check(ctx, source, changed, Options{}))
		}},
		{What: "a snapshot whose architecture has no mapping is undecided: tensors are found by content, and the architecture is named", Probe: func(ctx context.Context) error {
			source, product, err := example(ctx)
			if err != nil {
				return err
			}
			folder := memory{}
			for name, body := range source.Snapshot.(memory) {
				folder[name] = body
			}
			folder["config.json"] = []byte(strings.Replace(exampleConfig, "LlamaForCausalLM", "UnheardOfForCausalLM", 1))
			r, err := Check(ctx, Input{Snapshot: folder}, product, Options{})
			return kernels.Refuses(r, err, "UnheardOfForCausalLM")
		}},
	}
}

// withName writes a file again under another general.name.
func withName(in File, name string) (File, error) {
	f, err := gguf.Open(in.R, in.Size)
	if err != nil {
		return File{}, err
	}
	kvs := append([]gguf.KV{}, f.KVs...)
	for i := range kvs {
		if kvs[i].Key == "general.name" {
			kvs[i].Value = gguf.String(name)
		}
	}
	var sources []gguf.TensorSource
	for _, t := range f.Tensors {
		sources = append(sources, f.Source(t))
	}
	var out bytes.Buffer
	err = gguf.Write(io.Writer(&out), kvs, sources)
	return File{R: bytes.NewReader(out.Bytes()), Size: int64(out.Len())}, err
}
