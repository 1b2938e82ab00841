package mlx

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
	"github.com/weighmaster/weighmaster/kernels/folder"
)

// The checks of the files beside the weights.
const (
	CheckSettings  = "config.json differs"
	CheckTokenizer = "tokenizer differs"
	CheckTemplate  = "chat template differs"
	CheckCode      = "code differs"
)

// ownSettings are the keys of config.json that mlx-lm removes or adds.
var ownSettings = map[string]bool{"quantization": true, "quantization_config": true, "_name_or_path": true, "vision_config": true}

// files compares config.json, the tokenizer, the chat template and the code.
func (c *comparison) files(source fs.FS) error {
	for _, check := range []func(fs.FS) error{c.settings, c.tokenizer, c.template, c.code} {
		if err := check(source); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) differ(check, where, got, want, hint string) {
	c.result.Files = append(c.result.Files, kernels.Finding{Check: check, Where: where, Got: got, Want: want, Hint: hint})
}

// object reads a JSON file of one of the folders; nil without the file. A file
// that is no JSON object is a finding.
func (c *comparison) object(fsys fs.FS, side, name string) (map[string]any, error) {
	o, err := folder.ReadObject(fsys, name)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return o, nil
	case errors.As(err, new(*fs.PathError)):
		return nil, err
	}
	c.differ(CheckSettings, side+": "+name, err.Error(), "a JSON object", "")
	return nil, nil
}

// settings compares config.json key by key. mlx-lm 0.32 takes eos_token_id from
// generation_config.json where that has one, 0.30 did not.
func (c *comparison) settings(source fs.FS) error {
	want, err := c.object(source, "source", ConfigName)
	if err != nil {
		return err
	}
	if want == nil {
		c.note("The source has no config.json to compare with.")
		return nil
	}
	generation, err := c.object(source, "source", "generation_config.json")
	if err != nil {
		return err
	}
	if eos, ok := generation["eos_token_id"]; ok && !folder.Same(c.model.config["eos_token_id"], want["eos_token_id"]) {
		want["eos_token_id"] = eos
	}
	c.compareKeys(CheckSettings, ConfigName, c.model.config, want, ownSettings)
	if generation == nil {
		return nil
	}
	got, err := c.object(c.model.FS, "folder", "generation_config.json")
	if err != nil {
		return err
	}
	if got == nil {
		c.note("generation_config.json was not copied.")
		return nil
	}
	c.compareKeys(CheckSettings, "generation_config.json", got, generation, nil)
	return nil
}

// compareKeys compares two objects, apart from some keys.
func (c *comparison) compareKeys(check, file string, got, want map[string]any, except map[string]bool) {
	keys := map[string]bool{}
	for _, o := range []map[string]any{got, want} {
		for k := range o {
			keys[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if except[k] || folder.Same(got[k], want[k]) {
			continue
		}
		c.differ(check, fmt.Sprintf("%s: %.200s", file, k), folder.Show(got, k), folder.Show(want, k)+", as in the source", "")
	}
}

// tokenizer compares tokenizer.json as JSON, as it is saved again on the way,
// and the other tokenizer files by their bytes.
func (c *comparison) tokenizer(source fs.FS) error {
	const name = "tokenizer.json"
	want, err := c.object(source, "source", name)
	if err != nil {
		return err
	}
	got, err := c.object(c.model.FS, "folder", name)
	if err != nil {
		return err
	}
	switch {
	case want == nil && got == nil:
	case got == nil:
		c.differ(CheckTokenizer, name, "absent", "the source's", "")
	case want == nil:
		c.note("tokenizer.json was made from another form of the source's tokenizer: its equality was not checked.")
	default:
		joinMerges(want)
		joinMerges(got)
		c.compareKeys(CheckTokenizer, name, got, want, nil)
	}
	if err := c.tokenSettings(source); err != nil {
		return err
	}
	for _, name := range []string{"tokenizer.model", "tiktoken.model"} {
		theirs, err := folder.Read(source, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		ours, err := folder.Read(c.model.FS, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.note(name + " of the source was not copied.")
		case err != nil:
			return err
		case string(ours) != string(theirs):
			c.differ(CheckTokenizer, name, "other bytes", "the source's", "")
		}
	}
	return nil
}

// tokenSettings compares what the tokenizer adds to every prompt.
func (c *comparison) tokenSettings(source fs.FS) error {
	want, err := c.object(source, "source", folder.TokenizerSettings)
	if err != nil {
		return err
	}
	got, err := c.object(c.model.FS, "folder", folder.TokenizerSettings)
	if err != nil {
		return err
	}
	for _, k := range folder.OtherTokens(got, want) {
		c.differ(CheckTokenizer, folder.TokenizerSettings+": "+k, folder.Show(got, k), folder.Show(want, k)+", as in the source", "every prompt becomes other ids")
	}
	return nil
}

// joinMerges brings the two forms of BPE merges, "a b" and ["a", "b"], to one.
func joinMerges(tokenizer map[string]any) {
	model, _ := tokenizer["model"].(map[string]any)
	merges, _ := model["merges"].([]any)
	for i, m := range merges {
		pair, ok := m.([]any)
		if !ok || len(pair) != 2 {
			continue
		}
		a, ok := pair[0].(string)
		b, also := pair[1].(string)
		if ok && also {
			merges[i] = a + " " + b
		}
	}
}

// templates are a folder's chat templates by name; the unnamed one is "default".
func templates(fsys fs.FS) (map[string]string, error) {
	found := map[string]string{}
	config, err := folder.ReadObject(fsys, "tokenizer_config.json")
	if err != nil && errors.As(err, new(*fs.PathError)) && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	switch t := config["chat_template"].(type) {
	case string:
		found["default"] = t
	case []any:
		for _, one := range t {
			o, _ := one.(map[string]any)
			name, _ := o["name"].(string)
			found[name], _ = o["template"].(string)
		}
	}
	text, err := folder.Read(fsys, templateName)
	if err == nil {
		found["default"] = string(text)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return found, nil
}

// template compares the chat templates, wherever the two folders keep them.
func (c *comparison) template(source fs.FS) error {
	want, err := templates(source)
	if err != nil {
		return err
	}
	got, err := templates(c.model.FS)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for n := range want {
		names[n] = true
	}
	for n := range got {
		names[n] = true
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		theirs, had := want[n]
		ours, has := got[n]
		switch {
		case !has:
			c.differ(CheckTemplate, n, "no template", "the source's", "")
		case !had:
			c.differ(CheckTemplate, n, "a template", "none, as in the source", "")
		case ours != theirs:
			line, a, b := firstLine(ours, theirs)
			c.differ(CheckTemplate, fmt.Sprintf("%s: line %d", n, line), fmt.Sprintf("%.200q", a), fmt.Sprintf("%.200q", b), "prompts are put together in another way")
		}
	}
	return nil
}

// firstLine is the first line, counted from 1, in which two texts differ.
func firstLine(a, b string) (line int, x, y string) {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := 0; ; i++ {
		x, y = "", ""
		if i < len(left) {
			x = left[i]
		}
		if i < len(right) {
			y = right[i]
		}
		if x != y || i >= len(left) || i >= len(right) {
			return i + 1, x, y
		}
	}
}

// code compares the Python files, which loaders may run and mlx-lm copies.
func (c *comparison) code(source fs.FS) error {
	ours, err := fs.Glob(c.model.FS, "*.py")
	if err != nil {
		return err
	}
	for _, name := range ours {
		got, err := folder.Read(c.model.FS, name)
		if err != nil {
			return err
		}
		want, err := folder.Read(source, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.differ(CheckCode, name, "in the folder only", "a file of the source", "a loader that trusts remote code runs it")
		case err != nil:
			return err
		case string(got) != string(want):
			c.differ(CheckCode, name, "other bytes", "the source's", "a loader that trusts remote code runs it")
		}
	}
	return nil
}
