package token

// template holds the ids that are put around a text.
type template struct{ before, after []uint32 }

// loadTemplate reads a TemplateProcessing post-processor. Its template for
// pairs of texts is not used here.
func loadTemplate(n node, size int) (template, error) {
	var t template
	if n.absent() {
		return t, nil
	}
	kind, err := n.kind()
	if err != nil {
		return t, err
	}
	if kind != "TemplateProcessing" {
		return t, n.errorf("got the post-processor %q, want TemplateProcessing", kind)
	}
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
