package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// namedTemplate is one of several chat templates.
type namedTemplate struct{ name, text string }

// templateKVs lists the keys of the chat template, or templates. The template of
// tokenizer_config.json goes before chat_template.jinja and chat_template.json; without
// a tokenizer_config.json the converter looks at none. A snapshot whose files hold two
// different templates is refused, because readers differ in which they take.
func (s *vocabularySource) templateKVs() ([]gguf.KV, error) {
	if len(s.settings) == 0 {
		return nil, nil
	}
	beside, name, err := s.templatesBeside()
	if err != nil {
		return nil, err
	}
	value, has := s.settings["chat_template"]
	if !has {
		return templateKeys(beside), nil
	}
	stated, err := templatesOf(value)
	if err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: chat_template: %w", err)
	}
	if beside != nil && !slices.Equal(beside, stated) {
		return nil, fmt.Errorf("tokenizer_config.json and %s hold two different chat templates; want one: loaders differ in which they take", name)
	}
	return templateKeys(stated), nil
}

// templatesBeside reads chat_template.jinja with additional_chat_templates, else chat_template.json.
func (s *vocabularySource) templatesBeside() (found []namedTemplate, name string, err error) {
	name = "chat_template.jinja"
	body, err := readFile(s.fsys, name, maxJSON)
	if errors.Is(err, fs.ErrNotExist) {
		name = "chat_template.json"
		var file struct {
			Template any `json:"chat_template"`
		}
		if _, err := readJSON(s.fsys, name, &file); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return nil, name, err
		}
		found, err = templatesOf(file.Template)
		return found, name, err
	}
	if err != nil {
		return nil, name, err
	}
	found = []namedTemplate{{"default", string(body)}}
	more, err := fs.Glob(s.fsys, "additional_chat_templates/*.jinja")
	if err != nil {
		return nil, name, err
	}
	for _, file := range more {
		body, err := readFile(s.fsys, file, maxJSON)
		if err != nil {
			return nil, name, err
		}
		found = append(found, namedTemplate{strings.TrimSuffix(path.Base(file), ".jinja"), string(body)})
	}
	return found, name, nil
}

// templatesOf reads a template, or a list of named ones. A single one is called default.
func templatesOf(value any) ([]namedTemplate, error) {
	switch value := value.(type) {
	case nil:
		return nil, nil
	case string:
		return []namedTemplate{{"default", value}}, nil
	case []any:
		var found []namedTemplate
		for i, item := range value {
			object, _ := item.(map[string]any)
			name, _ := object["name"].(string)
			text, ok := object["template"].(string)
			if name == "" || !ok {
				return nil, fmt.Errorf("entry %d: got no name or no template, want both", i)
			}
			found = append(found, namedTemplate{strings.Map(plainName, name), text})
		}
		return found, nil
	}
	return nil, errors.New("got neither a text nor a list of named templates")
}

func plainName(r rune) rune {
	if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
		return r
	}
	return '_'
}

// templateKeys writes named templates before the default one. The converter lists
// their names in the order of a hash table, which changes from run to run; here they are sorted.
func templateKeys(templates []namedTemplate) []gguf.KV {
	var kvs, last []gguf.KV
	var names []string
	for _, t := range templates {
		if t.name == "default" {
			last = []gguf.KV{{Key: keyTemplate, Value: gguf.String(t.text)}}
			continue
		}
		kvs = merged(kvs, []gguf.KV{{Key: keyTemplate + "." + t.name, Value: gguf.String(t.text)}})
		names = append(names, t.name)
	}
	if len(names) > 0 {
		slices.Sort(names)
		kvs = append(kvs, gguf.KV{Key: "tokenizer.chat_templates", Value: gguf.Strings(slices.Compact(names))})
	}
	return append(kvs, last...)
}
