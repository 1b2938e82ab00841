package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/weighmaster/weighmaster/kernels/gguf"
)

// maxTemplate is the largest file in bytes that is looked through for a template.
const maxTemplate = 64 << 20

// folderTemplates tells apart the chat templates of a Hugging Face folder: the
// file of its own and those in tokenizer_config.json.
func (s *modelSummary) folderTemplates(root fs.FS) {
	if body, ok := s.read(root, "chat_template.jinja"); ok {
		s.Templates = append(s.Templates, gguf.NewTemplate("chat_template.jinja", string(body)))
	}
	body, ok := s.read(root, "tokenizer_config.json")
	if !ok {
		return
	}
	var config struct {
		Template json.RawMessage `json:"chat_template"`
	}
	var one string
	var several []struct{ Name, Template string }
	const key = "tokenizer_config.json: chat_template"
	switch {
	case json.Unmarshal(body, &config) != nil:
		s.Warnings = append(s.Warnings, "tokenizer_config.json is not JSON")
	case json.Unmarshal(config.Template, &one) == nil && one != "":
		s.Templates = append(s.Templates, gguf.NewTemplate(key, one))
	case json.Unmarshal(config.Template, &several) == nil:
		for _, t := range several {
			s.Templates = append(s.Templates, gguf.NewTemplate(fmt.Sprintf("%s %.40q", key, t.Name), t.Template))
		}
	}
}

func (s *modelSummary) read(root fs.FS, name string) ([]byte, bool) {
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	var body []byte
	if err == nil {
		defer f.Close()
		body, err = io.ReadAll(io.LimitReader(f, maxTemplate+1))
	}
	if err == nil && len(body) > maxTemplate {
		err = fmt.Errorf("%s: got more than %d bytes", name, maxTemplate)
	}
	if err != nil {
		s.Warnings = append(s.Warnings, err.Error())
		return nil, false
	}
	return body, true
}
