package derive

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
	"github.com/weighmaster/weighmaster/kernels/mlx"
)

// ownKeys are the keys of config.json that a tool which quantizes writes anew.
var ownKeys = map[string]bool{
	"quantization_config": true, "_name_or_path": true, "transformers_version": true, "torch_dtype": true, "dtype": true,
}

// besideFolders compares what stands beside the weights of two folders of one form: files whose
// difference makes the same weights another model, or code that a loader runs.
func (r *Relation) besideFolders(ctx context.Context, source, target fs.FS, skip func(file, key string) bool) error {
	found, err := folder.CompareBeside(ctx, source, target, skip)
	if err != nil || len(found) == 0 {
		return err
	}
	r.Metadata = append(r.Metadata, found...)
	switch r.Kind {
	case Identical:
		r.Kind = MetadataDiffers
		r.Change = "files beside the weights only: " + names(placesOf(found))
		r.Unproven = "Nothing about the tensors; what stands beside them differs, and may make the same weights another model."
	case TemplateDiffers, MetadataDiffers:
		r.Kind = MetadataDiffers
		r.Change = "metadata only: " + names(append(keysOf(*r)[:len(r.Metadata)-len(found)], placesOf(found)...))
	}
	return nil
}

// placesOf lists where findings are.
func placesOf(found []kernels.Finding) []string {
	var list []string
	for _, f := range found {
		list = append(list, f.Where)
	}
	return list
}

// templatesCompared passes over the files' chat templates, which the keys of two mapped folders hold already.
func templatesCompared(file, key string) bool {
	return file == "tokenizer_config.json" && key == "chat_template"
}

// packedAlike compares how two MLX folders say that their matrices are packed: the same words under
// another scheme are other weights.
func packedAlike(a, b fs.FS) ([]kernels.Finding, error) {
	one, err := mlx.Open(a)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	defer one.Close()
	other, err := mlx.Open(b)
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	defer other.Close()
	schemes := map[string]string{}
	for _, t := range one.Tensors {
		if t.Scheme != nil {
			schemes[t.Name] = t.Scheme.String()
		}
	}
	var found []kernels.Finding
	for _, t := range other.Tensors {
		if want := schemes[t.Name]; t.Scheme != nil && want != "" && want != t.Scheme.String() {
			found = append(found, kernels.Finding{Check: "scheme", Where: "config.json: " + t.Name, Got: t.Scheme.String(), Want: want, Hint: "the same words are other weights"})
		}
	}
	return found, nil
}

// besideQuantized compares what stands beside the weights of a Hugging Face folder and of
// one that compressed-tensors or ModelOpt made of it: what both have, apart from what such tools write anew.
func besideQuantized(ctx context.Context, source, target fs.FS) ([]kernels.Finding, error) {
	found, err := folder.CompareBeside(ctx, source, target, func(file, key string) bool { return file == "config.json" && ownKeys[key] })
	if err != nil {
		return nil, err
	}
	want, err := folder.ReadObject(source, folder.TokenizerSettings)
	got, other := folder.ReadObject(target, folder.TokenizerSettings)
	var tokens []string
	if err == nil && other == nil {
		tokens = folder.OtherTokens(got, want)
	}
	var left []kernels.Finding
	for _, f := range found {
		name, key, _ := strings.Cut(f.Where, ": ")
		switch {
		case name == "config.json", strings.HasSuffix(name, ".py"), strings.HasSuffix(name, ".bin"), strings.HasSuffix(name, ".pt"), strings.HasSuffix(name, ".pkl"):
		case f.Got == "no such file", f.Got == "in the target only":
			continue // tokenizers are saved in other files
		case name == folder.TokenizerSettings && key != "chat_template" && !slices.Contains(tokens, key):
			continue // and with the settings of another release
		case name == "generation_config.json" && ownKeys[key]:
			continue
		}
		left = append(left, f)
	}
	return left, nil
}
