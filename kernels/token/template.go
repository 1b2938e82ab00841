package token

// template holds the ids that are put around a text.
type template struct{ before, after []uint32 }

// loadPostProcessor reads what puts ids around a text: TemplateProcessing.
// ByteLevel beside it only moves offsets.
func loadPostProcessor(n node, size int) (template, error) {
	if n.absent() {
		return template{}, nil
	}
	kind, err := n.kind()
	if err != nil {
		return template{}, err
	}
	switch kind {
	case "TemplateProcessing":
		return loadTemplate(n, size)
	case "ByteLevel":
		_, err := n.object("type", "add_prefix_space", "trim_offsets", "use_regex")
		return template{}, err
	case "Sequence":
		return loadPostProcessors(n, size)
	}
	return template{}, n.errorf("got the post-processor %q, want Sequence, TemplateProcessing or ByteLevel", kind)
}

// loadPostProcessors reads a Sequence: each puts its ids around those of the ones before.
func loadPostProcessors(n node, size int) (template, error) {
	f, err := n.object("type", "processors")
	if err != nil {
		return template{}, err
	}
	members, err := f["processors"].array(maxSteps)
	if err != nil {
		return template{}, err
	}
	var all template
	for _, m := range members {
		t, err := loadPostProcessor(m, size)
		if err != nil {
			return template{}, err
		}
		all.before, all.after = append(t.before, all.before...), append(all.after, t.after...)
	}
	return all, nil
}

// loadTemplate reads the template for one text; the one for pairs is not used here.
func loadTemplate(n node, size int) (template, error) {
	var t template
	f, err := n.object("type", "single", "pair", "special_tokens")
	if err != nil {
		return t, err
	}
	special, err := f["special_tokens"].fields()
	if err != nil {
		return t, err
	}
	members, err := f["single"].array(maxSteps)
	if err != nil {
		return t, err
	}
	texts := 0
	for _, m := range members {
		item, err := m.object("SpecialToken", "Sequence")
		if err != nil {
			return t, err
		}
		if len(item["Sequence"].raw) > 0 {
			texts++
			if err := checkSequence(item["Sequence"]); err != nil {
				return t, err
			}
			continue
		}
		ids, err := specialIDs(item["SpecialToken"], special, size)
		if err != nil {
			return t, err
		}
		if texts == 0 {
			t.before = append(t.before, ids...)
		} else {
			t.after = append(t.after, ids...)
		}
	}
	if texts != 1 {
		return t, f["single"].errorf("got the text %d times, want once", texts)
	}
	return t, nil
}

func checkSequence(n node) error {
	f, err := n.object("id", "type_id")
	if err != nil {
		return err
	}
	id, err := scalar[string](f["id"])
	if err == nil && id != "A" {
		return f["id"].errorf("got %q, want A", id)
	}
	return err
}

func specialIDs(n node, special map[string]node, size int) ([]uint32, error) {
	f, err := n.object("id", "type_id")
	if err != nil {
		return nil, err
	}
	name, err := scalar[string](f["id"])
	if err != nil {
		return nil, err
	}
	entry, ok := special[name]
	if !ok {
		return nil, f["id"].errorf("got %q, want one of special_tokens", name)
	}
	fields, err := entry.object("id", "ids", "tokens")
	if err != nil {
		return nil, err
	}
	members, err := fields["ids"].array(maxSteps)
	if err != nil {
		return nil, err
	}
	var ids []uint32
	for _, m := range members {
		id, err := scalar[uint32](m)
		if err != nil {
			return nil, err
		}
		if int64(id) >= int64(size) {
			return nil, m.errorf("got the id %d, want one below %d", id, size)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
