package convert

import "slices"

type postProcessor struct {
	Type       string          `json:"type"`
	Processors []postProcessor `json:"processors"`
	Single     []templateItem  `json:"single"`
	Pair       []templateItem  `json:"pair"`
	CLS        []any           `json:"cls"` // text and id
	SEP        []any           `json:"sep"`
}

type templateItem struct {
	Special  *templateID `json:"SpecialToken"`
	Sequence *templateID `json:"Sequence"`
}

type templateID struct {
	ID string `json:"id"`
}

func (t templateItem) special() string {
	if t.Special == nil {
		return ""
	}
	return t.Special.ID
}

func (t templateItem) sequence() string {
	if t.Sequence == nil {
		return ""
	}
	return t.Sequence.ID
}

// truthy is what Python takes for true among the values of a token.
func truthy(v any) bool {
	object, is := v.(map[string]any)
	return v != nil && v != "" && v != false && (!is || len(object) > 0)
}

// is tells whether a setting is this very text. A token that stands as an
// object never is, in the converter neither.
func is(v any, text string) bool {
	s, ok := v.(string)
	return ok && s == text
}

// fromPostProcessor reads which tokens tokenizer.json puts around a text. What
// tokenizer_config.json leaves out is completed on the way, as the converter does.
func (s *specials) fromPostProcessor(p *postProcessor) {
	stated := len(s.settings) > 0
	bos, cls, eos, sep := s.settings["bos_token"], s.settings["cls_token"], s.settings["eos_token"], s.settings["sep_token"]
	if !truthy(bos) && truthy(cls) {
		bos = cls
		s.settings["bos_token"] = bos
	}
	if !truthy(eos) && truthy(sep) {
		eos = sep
		s.settings["eos_token"] = eos
	}
	if p == nil {
		return
	}
	all := p.Processors
	if all == nil {
		all = []postProcessor{*p}
	}
	r := around{s, stated, bos, cls, eos, sep}
	for _, p := range all {
		switch p.Type {
		case "ByteLevel":
			s.addUnset("bos", false)
			s.addUnset("eos", false)
		case "RobertaProcessing":
			r.roberta(p)
		case "TemplateProcessing":
			r.template(p)
		}
	}
}

// around is the state of reading post-processors.
type around struct {
	*specials
	stated             bool // there is a tokenizer_config.json
	bos, cls, eos, sep any
}

func (r *around) roberta(p postProcessor) {
	for _, kind := range []string{"bos", "eos", "sep"} {
		r.add(kind, true)
	}
	first := func(list []any, other any) any {
		if len(list) > 0 {
			return list[0]
		}
		return other
	}
	if !truthy(r.cls) && r.stated {
		r.cls = first(p.CLS, r.bos)
		r.settings["cls_token"] = r.cls
	}
	if !truthy(r.sep) && r.stated {
		r.sep = first(p.SEP, r.eos)
		r.settings["sep_token"] = r.sep
	}
}

func (r *around) template(p postProcessor) {
	var first, last string
	if len(p.Single) > 1 {
		first, last = p.Single[0].special(), p.Single[len(p.Single)-1].special()
	}
	if first != "" {
		switch {
		case !r.stated:
			r.bos = first
		case !is(r.bos, first) && !is(r.cls, first):
			if !truthy(r.bos) {
				r.bos = first
				r.settings["bos_token"] = first
			}
			if !truthy(r.cls) {
				r.cls = first
				r.settings["cls_token"] = first
			}
		}
		r.add("bos", is(r.bos, first) || is(r.cls, first))
	}
	if last != "" {
		r.ends(last)
	}
	r.pair(p.Pair, first, last)
}

// ends reads a template that ends in a token. Where that is not EOS, EOS
// becomes the end of a turn and the token takes its place.
func (r *around) ends(last string) {
	switch {
	case !r.stated:
		r.eos = last
	case !is(r.eos, last):
		for _, kind := range []string{"eot", "eom"} {
			if !slices.Contains(r.kinds, kind) {
				r.kinds = append(r.kinds, kind)
				r.settings[kind+"_token"] = r.eos
				break
			}
		}
		r.eos = last
		r.settings["eos_token"] = last
	}
	r.add("eos", true)
}

// pair reads what stands between the two sequences of a pair.
func (r *around) pair(pair []templateItem, first, last string) {
	if len(pair) > 0 && first != "" && pair[0].special() == first {
		pair = pair[1:]
	}
	if len(pair) > 0 && last != "" && pair[len(pair)-1].special() == last {
		pair = pair[:len(pair)-1]
	}
	if len(pair) < 3 || pair[0].sequence() != "A" || pair[len(pair)-1].sequence() != "B" {
		return
	}
	between := pair[1 : len(pair)-1]
	separates := func(t templateItem) bool {
		return t.special() != "" && (is(r.sep, t.special()) || is(r.eos, t.special()))
	}
	add := separates(between[0]) && last == "" || len(between) == 2 && separates(between[1])
	r.add("sep", add)
	if add && !truthy(r.sep) && r.stated {
		r.settings["sep_token"] = r.eos
	}
}
