package token

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/weighmaster/weighmaster/kernels"
)

// bosMarks is what a file says about the begin of a text, beside its vocabulary.
type bosMarks struct{ template string }

var (
	jinjaComment = regexp.MustCompile(`(?s)\{#.*?#\}`)
	bosVariable  = regexp.MustCompile(`\bbos_token\b`)
)

// doubled tells whether a chat template writes BOS although the tokenizer adds
// it by itself: texts made by the template, then encoded as any text, start with
// it twice. Engines differ in whether they drop one, so it is a warning.
func (b bosMarks) doubled(addBOS bool, bos string) []kernels.Finding {
	template := jinjaComment.ReplaceAllString(b.template, "")
	if !addBOS || template == "" {
		return nil
	}
	got := ""
	switch {
	case bosVariable.MatchString(template):
		got = "a template that writes bos_token"
	case bos != "" && strings.Contains(template, bos):
		got = fmt.Sprintf("a template that writes %q", bos)
	default:
		return nil
	}
	return []kernels.Finding{{
		Check: "double BOS", Where: "tokenizer.chat_template, tokenizer.ggml.add_bos_token", Got: got + " beside add_bos_token true", Want: "BOS from one of them",
		Hint: "a prompt made by the template and encoded with special tokens starts with BOS twice; encode it without",
	}}
}

// Warnings are what is wrong with the vocabulary's surroundings though every text
// has its ids: BOS that chat template and tokenizer both add.
func (s *stored) Warnings() []kernels.Finding { return s.marks.warnings(s.v) }

func (b bosMarks) warnings(v Vocabulary) []kernels.Finding {
	bos := ""
	if int64(v.BOS) < int64(len(v.Tokens)) {
		bos = v.Tokens[v.BOS]
	}
	return b.doubled(v.AddBOS, bos)
}
